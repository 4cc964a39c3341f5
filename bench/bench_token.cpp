// Tokenizer throughput as JSON lines. One core unless --threads says otherwise.
//
//   bench_token --tokenizer r50k_base.tiktoken --text FILE [--repeat 3] [--threads 1]
//
// bench/peers/bench_tiktoken.py measures tiktoken over the same file in the same form.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "sextant/base/thread_pool.h"
#include "sextant/token/piece_counter.h"
#include "sextant/token/text_source.h"
#include "sextant/token/tokenizer.h"

namespace {

using Clock = std::chrono::steady_clock;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Wall time and processor time of the whole process: on a machine that others use as well only the
// second tells about this program.
struct Stopwatch {
  Clock::time_point start = Clock::now();
  double cpu_start = cpu_seconds();
  double wall() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  double cpu() const { return cpu_seconds() - cpu_start; }
};

void report(const char* what, const std::string& tokenizer, int pass, std::size_t threads,
            std::uint64_t bytes, std::uint64_t tokens, const Stopwatch& watch,
            const std::string& more = "") {
  const double seconds = watch.wall(), cpu = watch.cpu();
  const std::string line = fmt::format(
      "{{\"bench\":\"token.{}\",\"tokenizer\":\"{}\",\"pass\":{},\"threads\":{},\"bytes\":{},"
      "\"tokens\":{},"
      "\"seconds\":{:.4f},\"cpu_seconds\":{:.4f},\"mb_per_s\":{:.2f},\"mb_per_cpu_s\":{:.2f}{}}}\n",
      what, tokenizer, pass, threads, bytes, tokens, seconds, cpu,
      static_cast<double>(bytes) / 1e6 / seconds, static_cast<double>(bytes) / 1e6 / cpu, more);
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

// Texts of about 4 KB: what a page gives.
std::vector<std::string> read_texts(const std::string& path) {
  sx::TextSource source({path}, "text", 4096);
  std::vector<std::string> texts;
  while (true) {
    auto text = source.next();
    if (!text.ok()) {
      std::fputs((text.error().to_string() + "\n").c_str(), stderr);
      std::exit(3);
    }
    if (!*text) return texts;
    texts.push_back(std::move(**text));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags = {
      {"--repeat", "3"},
      {"--threads", "1"},
      {"--cache-slots", std::to_string(sx::Encoder::kDefaultCacheSlots)}};
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  if (flags["--tokenizer"].empty() || flags["--text"].empty()) {
    std::fputs("usage: bench_token --tokenizer PATH --text FILE [--repeat N] [--threads N]\n",
               stderr);
    return 2;
  }
  const std::string name = flags["--tokenizer"];
  const Stopwatch load_watch;
  const auto tokenizer = sx::Tokenizer::load(name);
  if (!tokenizer.ok()) {
    std::fputs((tokenizer.error().to_string() + "\n").c_str(), stderr);
    return 3;
  }
  const std::vector<std::string> texts = read_texts(flags["--text"]);
  std::uint64_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  const std::size_t threads = std::strtoul(flags["--threads"].c_str(), nullptr, 10);
  const int repeat = std::atoi(flags["--repeat"].c_str());
  report("load", name, 0, 1, 0, tokenizer->vocab_size(), load_watch);

  const std::size_t cache_slots = std::strtoul(flags["--cache-slots"].c_str(), nullptr, 10);
  for (const std::size_t slots : {cache_slots, std::size_t{0}}) {
    sx::Encoder encoder(*tokenizer, {}, slots);
    std::vector<sx::TokenId> ids;
    for (int pass = 1; pass <= repeat; ++pass) {
      std::uint64_t tokens = 0;
      const std::uint64_t hits = encoder.cache_hits(), misses = encoder.cache_misses();
      const Stopwatch watch;
      for (const std::string& text : texts) {
        ids.clear();
        if (!encoder.encode(text, ids).ok()) return 3;
        tokens += ids.size();
      }
      const double seen =
          static_cast<double>(encoder.cache_hits() - hits + encoder.cache_misses() - misses);
      const double share = seen == 0 ? 0 : static_cast<double>(encoder.cache_hits() - hits) / seen;
      report(slots == 0 ? "encode_no_cache" : "encode", name, pass, 1, bytes, tokens, watch,
             fmt::format(",\"cache_hit_share\":{:.4f}", share));
    }
  }

  sx::ThreadPool pool(threads);
  std::vector<std::vector<sx::TokenId>> all;
  for (int pass = 1; pass <= repeat; ++pass) {
    const Stopwatch watch;
    auto ids = tokenizer->encode_batch(texts, pool);
    if (!ids.ok()) return 3;
    all = std::move(*ids);
    std::uint64_t tokens = 0;
    for (const auto& one : all) tokens += one.size();
    report("encode_batch", name, pass, threads, bytes, tokens, watch);
  }
  for (int pass = 1; pass <= repeat; ++pass) {
    std::uint64_t tokens = 0, decoded = 0;
    const Stopwatch watch;
    for (const auto& ids : all) {
      decoded += tokenizer->decode(ids).value().size();
      tokens += ids.size();
    }
    report("decode", name, pass, 1, decoded, tokens, watch);
  }
  {
    const Stopwatch watch;
    std::uint64_t pieces = 0;
    sx::PieceSplitter splitter(tokenizer->vocab().split());
    std::vector<std::uint32_t> ends(256);
    for (const std::string& text : texts) {
      if (!splitter.start(text).ok()) return 3;
      while (const std::size_t count = splitter.next(ends)) pieces += count;
    }
    report("split", name, 1, 1, bytes, pieces, watch);
  }
  {
    const Stopwatch watch;
    sx::PieceCounter counter(tokenizer->vocab().split());
    if (!counter.add(texts, pool).ok()) return 3;
    report("count_pieces", name, 1, threads, bytes, counter.unique(), watch);
  }
  return 0;
}
