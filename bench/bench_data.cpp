// Order, batches and token files as JSON lines. Nothing is read from outside: tokens are made in a
// temporary folder.
//
//   bench_data [--tokens 20000000] [--seq-len 1024] [--steps 2000] [--sequences 10000000]
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/data/blend_megatron.h"
#include "sextant/data/gpt_dataset.h"
#include "sextant/data/indexed_writer.h"
#include "sextant/data/loader.h"
#include "sextant/data/megatron_split.h"
#include "sextant/data/numpy_random.h"
#include "sextant/data/order.h"
#include "sextant/data/permutation.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void report(const char* what, const std::string& of, double amount, const char* unit,
            double seconds) {
  std::fputs(fmt::format("{{\"bench\":\"data.{}\",\"of\":\"{}\",\"amount\":{:.0f},\"unit\":\"{}\","
                         "\"seconds\":{:.6f},"
                         "\"per_s\":{:.4g}}}\n",
                         what, of, amount, unit, seconds, amount / seconds)
                 .c_str(),
             stdout);
  std::fflush(stdout);
}

template <class T>
T take(sx::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fputs((result.error().to_string() + "\n").c_str(), stderr);
  std::exit(3);
}

void check(const sx::Result<void>& status) {
  if (status.ok()) return;
  std::fputs((status.error().to_string() + "\n").c_str(), stderr);
  std::exit(3);
}

void bench_permutation() {
  const sx::RandomStream stream(1, "data.order:bench");
  for (const std::uint64_t n :
       {std::uint64_t{1000}, std::uint64_t{1000000000000}, (std::uint64_t{1} << 40) + 1}) {
    const sx::Permutation permutation(stream, 0, n);
    std::uint64_t sum = 0;
    const std::uint64_t count = 5000000;
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) sum += permutation(i % n);
    report("permutation", fmt::format("n={} sum={}", n, sum), static_cast<double>(count), "units",
           seconds_since(start));
  }
}

void bench_blend() {
  for (const std::size_t members : {std::size_t{3}, std::size_t{100}}) {
    std::vector<std::uint64_t> weights;
    for (std::size_t i = 0; i < members; ++i) weights.push_back(1 + i * i);
    const sx::NativeBlend blend(weights);
    std::uint64_t sum = 0;
    const std::uint64_t count = 20000;
    const auto start = Clock::now();
    for (std::uint64_t t = 0; t < count; ++t) sum += blend.at(t * 7919).k;
    report("blend_at", fmt::format("members={} sum={}", members, sum), static_cast<double>(count),
           "positions", seconds_since(start));
  }
}

void bench_pair(const std::string& prefix, std::uint64_t num_tokens) {
  const auto mock = sx::make_mock_source(1, num_tokens, 50000);
  std::vector<std::int32_t> all(num_tokens);
  check(mock->read(0, all));
  auto start = Clock::now();
  auto writer = take(sx::IndexedWriter::create(prefix, sx::TokenType::kUint16));
  for (std::uint64_t k = 0; k < mock->num_documents(); ++k) {
    const std::uint64_t begin = mock->document_start(k);
    check(writer.add_document(
        std::span<const std::int32_t>(all).subspan(begin, mock->document_start(k + 1) - begin)));
  }
  check(writer.finish());
  report("write", "uint16", static_cast<double>(2 * num_tokens), "bytes", seconds_since(start));
  start = Clock::now();
  const auto source = take(sx::make_indexed_source(take(sx::IndexedDataset::open(prefix))));
  report("open", "documents", static_cast<double>(source->num_documents()), "documents",
         seconds_since(start));
}

void bench_loader(const std::string& prefix, std::int64_t seq_len, int steps) {
  sx::Dataset::Options data;
  data.paths = {prefix};
  data.part = sx::SplitPart::kAll;
  const auto dataset = take(sx::Dataset::open(data));
  for (const int workers : {0, 1, 2}) {
    sx::LoaderOptions options;
    options.seq_len = seq_len;
    options.micro_batch_size = 8;
    options.workers = workers;
    auto loader = take(sx::Loader::open(dataset, options));
    auto start = Clock::now();
    (void)take(loader.next());
    report("first_batch", fmt::format("workers={}", workers), 1, "batches", seconds_since(start));
    start = Clock::now();
    for (int i = 0; i < steps; ++i) (void)take(loader.next());
    report("batches", fmt::format("workers={} seq_len={}", workers, seq_len),
           static_cast<double>(steps) * 8 * static_cast<double>(seq_len), "tokens",
           seconds_since(start));
    sx::LoaderState state = loader.state();
    state.position = 1000000000;
    start = Clock::now();
    check(loader.restore(state));
    (void)take(loader.next());
    report("resume_at_1e9", fmt::format("workers={}", workers), 1, "batches", seconds_since(start));
  }
}

/// What bench/peers/megatron_indices.py measures of Megatron-LM's helpers, on the same sizes.
void bench_megatron(std::uint64_t sequences) {
  std::vector<std::int32_t> shuffled(sequences);
  auto start = Clock::now();
  sx::NumpyRandom(1234).shuffle(shuffled);
  report("megatron_shuffle", "int32", static_cast<double>(sequences), "elements",
         seconds_since(start));

  std::vector<std::int32_t> lengths;
  std::uint64_t tokens = 0;
  for (std::uint64_t i = 0; i < sequences; ++i) {
    lengths.push_back(static_cast<std::int32_t>(1 + i * 2654435761u % 1999));
    tokens += static_cast<std::uint64_t>(lengths.back());
  }
  const sx::GptIndexSpec spec{
      .last_sequence = sequences, .num_samples = tokens / 2048 * 3 / 2, .seq_len = 2048};
  start = Clock::now();
  const auto index = take(sx::build_gpt_index(sx::SequenceLengths(lengths), spec));
  report("megatron_index", fmt::format("epochs=2 samples={}", index.shuffle_index.rows()),
         static_cast<double>(2 * sequences), "sequences", seconds_since(start));

  for (const std::size_t datasets : {std::size_t{3}, std::size_t{10}, std::size_t{100}}) {
    std::vector<double> weights;
    for (std::size_t i = 0; i < datasets; ++i)
      weights.push_back(1 / (static_cast<double>(i) + 1.7));
    const std::uint64_t size = 2000000;
    start = Clock::now();
    const auto blend = take(sx::blend_greedy(sx::numpy_normalize(weights), size));
    report("megatron_blend",
           fmt::format("datasets={} last={}", datasets, blend.dataset_index.back()),
           static_cast<double>(size), "samples", seconds_since(start));
  }
}

void bench_megatron_fetch(const std::string& prefix, int samples) {
  auto sequences = take(sx::make_indexed_sequences(take(sx::IndexedDataset::open(prefix))));
  const std::uint64_t count = sequences->lengths().size();
  const auto dataset = take(sx::GptDataset::open(
      std::move(sequences), {.path = prefix, .spec = {.last_sequence = count, .seq_len = 8192}}));
  std::vector<std::int32_t> tokens(dataset->sample_tokens());
  std::uint64_t read = 0;
  for (int round = 0; round < 2; ++round) {  // the second round is warm
    const auto start = Clock::now();
    for (int i = 0; i < samples; ++i) {
      const std::uint64_t k = static_cast<std::uint64_t>(i) % dataset->size();
      read = take(dataset->read(take(dataset->pieces(take(dataset->row_of(k)))), tokens));
    }
    report("megatron_fetch", fmt::format("round={} seq_len=8192", round),
           static_cast<double>(samples) * static_cast<double>(read), "tokens",
           seconds_since(start));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags = {{"--tokens", "20000000"},
                                              {"--seq-len", "1024"},
                                              {"--steps", "2000"},
                                              {"--sequences", "10000000"}};
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  std::string folder = (sx::fs::temp_directory_path() / "sextant-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 3;
  bench_permutation();
  bench_blend();
  bench_pair(folder + "/mock", std::strtoull(flags["--tokens"].c_str(), nullptr, 10));
  bench_megatron(std::strtoull(flags["--sequences"].c_str(), nullptr, 10));
  bench_megatron_fetch(folder + "/mock", std::atoi(flags["--steps"].c_str()));
  bench_loader(folder + "/mock", std::atoll(flags["--seq-len"].c_str()),
               std::atoi(flags["--steps"].c_str()));
  std::error_code ignored;
  sx::fs::remove_all(folder, ignored);
  return 0;
}
