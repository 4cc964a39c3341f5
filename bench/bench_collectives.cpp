// Collectives of rank threads as JSON lines, each beside the time that the same bytes take to read
// and write without any of it ("limit").
//
//   bench_collectives [--ranks 2,4,8] [--kib 64,4096,32768] [--seconds 0.3] [--progress 0]
//
// N = bytes of the full buffer: all_reduce's tensor, reduce_scatter's input, all_gather's output,
// of which the own part is there already.
// "ns" is the time of one call, calls made back to back, as the median over repetitions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "sextant/base/thread_pool.h"
#include "sextant/dist/threads.h"
#include "sextant/tensor/rank_thread.h"

namespace {

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

struct Options {
  std::vector<std::int64_t> ranks{2, 4, 8};
  std::vector<std::int64_t> kib{64, 4096, 32768};
  double seconds = 0.3;
  int progress = 0;
};

std::vector<std::int64_t> numbers(const char* text) {
  std::vector<std::int64_t> list;
  for (const char* p = text; *p != 0;) {
    char* end = nullptr;
    list.push_back(std::strtoll(p, &end, 10));
    p = *end == ',' ? end + 1 : end;
    if (end == text || (*end != 0 && *end != ',')) break;
  }
  return list;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Median time of one `call` in ns, as rank 0 sees it; every rank runs this.
double time_calls(sx::Communicator& world, double seconds, const std::function<void()>& call) {
  constexpr int kRepetitions = 7;
  at::Tensor count = at::full({1}, 0, at::kLong);
  for (int i = 0; i < 2; ++i) call();
  world.barrier();
  const auto probe = Clock::now();
  for (int i = 0; i < 3; ++i) call();
  if (world.coord() == 0) {
    const double one = std::max(ns_since(probe) / 3, 1.0);
    count.fill_(std::clamp<std::int64_t>(
        static_cast<std::int64_t>(seconds * 1e9 / kRepetitions / one), 1, 100'000));
  }
  world.start_broadcast(count, 0).wait();
  const std::int64_t n = *count.const_data_ptr<std::int64_t>();
  std::vector<double> times;
  for (int r = 0; r < kRepetitions; ++r) {
    world.barrier();
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < n; ++i) call();
    times.push_back(ns_since(start) / static_cast<double>(n));
  }
  return median(times);
}

enum class Op { kAllReduce, kReduceScatter, kAllGather };
const char* name_of(Op op) {
  switch (op) {
    case Op::kAllReduce: return "all_reduce";
    case Op::kReduceScatter: return "reduce_scatter";
    case Op::kAllGather: return "all_gather";
  }
  return "?";
}

/// Bytes that all ranks together read and write: a reduce-scatter reads N and writes N/W on every
/// rank, an all-gather reads and writes N(W-1)/W, an all-reduce is both.
struct Volume {
  std::int64_t read = 0;
  std::int64_t written = 0;
};
Volume volume_of(Op op, std::int64_t n, std::int64_t w) {
  switch (op) {
    case Op::kReduceScatter: return {w * n, n};
    case Op::kAllGather: return {(w - 1) * n, (w - 1) * n};
    case Op::kAllReduce: return {(2 * w - 1) * n, w * n};
  }
  return {};
}

double collective_ns(Op op, std::int64_t n, std::int64_t ranks, const Options& options) {
  double result = 0.0;
  sx::run_ranks(ranks,
                [&](sx::Communicator& world) {
                  const std::int64_t elements = n / 4;
                  at::Tensor whole = at::full({elements}, 0.0, at::kFloat);
                  at::Tensor part = at::full({elements / ranks}, 0.0, at::kFloat);
                  const at::Tensor own =
                      whole.narrow(0, world.coord() * (elements / ranks), elements / ranks);
                  const double ns = time_calls(world, options.seconds, [&] {
                    switch (op) {
                      case Op::kAllReduce:
                        world.start_all_reduce(whole, sx::ReduceOp::kSum).wait();
                        break;
                      case Op::kReduceScatter:
                        world.start_reduce_scatter(part, whole, sx::ReduceOp::kSum).wait();
                        break;
                      case Op::kAllGather: world.start_all_gather(whole, own).wait(); break;
                    }
                  });
                  if (world.coord() == 0) result = ns;
                },
                {.progress_threads = options.progress});
  return result;
}

std::uint64_t read_all(const char* p, std::int64_t bytes) {
  std::uint64_t sum[4] = {};
#if defined(__x86_64__)
  __m128i acc[4] = {};
  for (std::int64_t i = 0; i + 64 <= bytes; i += 64) {
    for (int v = 0; v < 4; ++v) {
      acc[v] =
          _mm_xor_si128(acc[v], _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i + 16 * v)));
    }
  }
  for (int v = 0; v < 4; ++v) sum[v] = static_cast<std::uint64_t>(_mm_cvtsi128_si64(acc[v]));
#else
  for (std::int64_t i = 0; i + 8 <= bytes; i += 8) {
    std::uint64_t x = 0;
    std::memcpy(&x, p + i, 8);
    sum[0] ^= x;
  }
#endif
  return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

void write_all(char* p, std::int64_t bytes, bool stream) {
#if defined(__x86_64__)
  if (stream) {
    const __m128i zero = {};
    for (std::int64_t i = 0; i + 16 <= bytes; i += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(p + i), zero);
    }
    _mm_sfence();
    return;
  }
#endif
  std::memset(p, 0, static_cast<std::size_t>(bytes));
}

/// What the memory can do: as many threads as can run, each with its share of the reads and writes
/// over W buffers of N bytes, nothing in between.
double limit_ns(Op op, std::int64_t n, std::int64_t ranks, const Options& options) {
  const std::int64_t threads =
      std::min<std::int64_t>(ranks, static_cast<std::int64_t>(sx::usable_cores()));
  const Volume volume = volume_of(op, n, ranks);
  std::vector<std::vector<char>> buffers(static_cast<std::size_t>(2 * ranks));
  for (auto& buffer : buffers) buffer.assign(static_cast<std::size_t>(n) + 64, 1);
  const auto aligned = [&](std::int64_t i) {
    const auto at = reinterpret_cast<std::uintptr_t>(buffers[static_cast<std::size_t>(i)].data());
    return reinterpret_cast<char*>((at + 63) / 64 * 64);
  };
  double result = 0.0;
  std::uint64_t sink = 0;
  sx::run_ranks(threads, [&](sx::Communicator& world) {
    std::uint64_t own_sink = 0;
    // The share of a thread: slices of n / threads bytes of one buffer after the other.
    const std::int64_t slice = n / threads / 64 * 64;
    const std::int64_t begin = world.coord() * slice;
    const double ns = time_calls(world, options.seconds, [&] {
      for (std::int64_t done = 0, i = 0; done < volume.read; done += n, ++i) {
        own_sink ^= read_all(aligned(i % ranks) + begin, slice);
      }
      for (std::int64_t done = 0, i = 0; done < volume.written; done += n, ++i) {
        write_all(aligned(ranks + i % ranks) + begin, slice, n * ranks > (std::int64_t{8} << 20));
      }
    });
    if (world.coord() == 0) result = ns;
    if (own_sink == 42) sink = own_sink;
  });
  return sink == 42 ? result + 1 : result;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--ranks") options.ranks = numbers(argv[i + 1]);
    if (name == "--kib") options.kib = numbers(argv[i + 1]);
    if (name == "--seconds") options.seconds = std::atof(argv[i + 1]);
    if (name == "--progress") options.progress = std::atoi(argv[i + 1]);
  }
  sx::prepare_process(true);
  for (const Op op : {Op::kAllReduce, Op::kReduceScatter, Op::kAllGather}) {
    for (const std::int64_t kib : options.kib) {
      for (const std::int64_t ranks : options.ranks) {
        const std::int64_t n = kib * 1024;
        const double ns = collective_ns(op, n, ranks, options);
        const double limit = limit_ns(op, n, ranks, options);
        const Volume v = volume_of(op, n, ranks);
        std::fputs(fmt::format("{{\"bench\":\"collectives\",\"system\":\"sextant\",\"op\":\"{}\","
                               "\"bytes\":{},\"ranks\":{},\"ns\":{:.0f},\"limit_ns\":{:.0f},"
                               "\"traffic\":{}}}\n",
                               name_of(op), n, ranks, ns, limit, v.read + v.written)
                       .c_str(),
                   stdout);
        std::fflush(stdout);
      }
    }
  }
  return 0;
}
