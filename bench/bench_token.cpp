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

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void report(const char* what, const std::string& tokenizer, int pass, std::size_t threads,
            std::uint64_t bytes, std::uint64_t tokens, double seconds,
            const std::string& more = "") {
  const std::string line = fmt::format(
      "{{\"bench\":\"token.{}\",\"tokenizer\":\"{}\",\"pass\":{},\"threads\":{},\"bytes\":{},"
      "\"tokens\":{},"
      "\"seconds\":{:.4f},\"mb_per_s\":{:.2f}{}}}\n",
      what, tokenizer, pass, threads, bytes, tokens, seconds,
      static_cast<double>(bytes) / 1e6 / seconds, more);
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
  std::map<std::string, std::string> flags = {{"--repeat", "3"}, {"--threads", "1"}};
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  if (flags["--tokenizer"].empty() || flags["--text"].empty()) {
    std::fputs("usage: bench_token --tokenizer PATH --text FILE [--repeat N] [--threads N]\n",
               stderr);
    return 2;
  }
  const std::string name = flags["--tokenizer"];
  const auto load_start = Clock::now();
  const auto tokenizer = sx::Tokenizer::load(name);
  if (!tokenizer.ok()) {
    std::fputs((tokenizer.error().to_string() + "\n").c_str(), stderr);
    return 3;
  }
  const double load_seconds = seconds_since(load_start);
  const std::vector<std::string> texts = read_texts(flags["--text"]);
  std::uint64_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  const std::size_t threads = std::strtoul(flags["--threads"].c_str(), nullptr, 10);
  const int repeat = std::atoi(flags["--repeat"].c_str());
  report("load", name, 0, 1, 0, tokenizer->vocab_size(), load_seconds);

  for (const std::size_t slots : {sx::Encoder::kDefaultCacheSlots, std::size_t{0}}) {
    sx::Encoder encoder(*tokenizer, {}, slots);
    std::vector<sx::TokenId> ids;
    for (int pass = 1; pass <= repeat; ++pass) {
      std::uint64_t tokens = 0;
      const std::uint64_t hits = encoder.cache_hits(), misses = encoder.cache_misses();
      const auto start = Clock::now();
      for (const std::string& text : texts) {
        ids.clear();
        if (!encoder.encode(text, ids).ok()) return 3;
        tokens += ids.size();
      }
      const double seconds = seconds_since(start);
      const double seen =
          static_cast<double>(encoder.cache_hits() - hits + encoder.cache_misses() - misses);
      const double share = seen == 0 ? 0 : static_cast<double>(encoder.cache_hits() - hits) / seen;
      report(slots == 0 ? "encode_no_cache" : "encode", name, pass, 1, bytes, tokens, seconds,
             fmt::format(",\"cache_hit_share\":{:.4f}", share));
    }
  }

  sx::ThreadPool pool(threads);
  std::vector<std::vector<sx::TokenId>> all;
  for (int pass = 1; pass <= repeat; ++pass) {
    const auto start = Clock::now();
    auto ids = tokenizer->encode_batch(texts, pool);
    if (!ids.ok()) return 3;
    const double seconds = seconds_since(start);
    all = std::move(*ids);
    std::uint64_t tokens = 0;
    for (const auto& one : all) tokens += one.size();
    report("encode_batch", name, pass, threads, bytes, tokens, seconds);
  }
  for (int pass = 1; pass <= repeat; ++pass) {
    std::uint64_t tokens = 0, decoded = 0;
    const auto start = Clock::now();
    for (const auto& ids : all) {
      decoded += tokenizer->decode(ids).value().size();
      tokens += ids.size();
    }
    report("decode", name, pass, 1, decoded, tokens, seconds_since(start));
  }
  {
    const auto start = Clock::now();
    std::uint64_t pieces = 0;
    for (const std::string& text : texts) {
      for (std::size_t pos = 0; pos < text.size(); ++pieces) {
        pos = sx::split_next(tokenizer->vocab().split().family(), text, pos);
      }
    }
    report("split", name, 1, 1, bytes, pieces, seconds_since(start));
  }
  {
    const auto start = Clock::now();
    sx::PieceCounter counter(tokenizer->vocab().split().family());
    counter.add(texts, pool);
    report("count_pieces", name, 1, threads, bytes, counter.unique(), seconds_since(start));
  }
  return 0;
}
