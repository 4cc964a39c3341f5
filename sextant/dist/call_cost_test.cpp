// What a call costs the host where nothing is sent: checks, hash, flight record, counts.
#include <gtest/gtest.h>

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <new>

#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/fake.h"
#include "sextant/dist/flight_recorder.h"

namespace {

/// Allocations of this program through `new`, on all threads.
std::atomic<std::int64_t>& num_allocations() {
  static std::atomic<std::int64_t> count{0};
  return count;
}

}  // namespace

void* operator new(std::size_t bytes) {
  num_allocations().fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace sx {
namespace {

using Clock = std::chrono::steady_clock;

/// Least time of one `call` in ns over batches: what other programs take from the core is left out.
template <class F>
double least_ns(const F& call) {
  double least = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < 200; ++batch) {
    const auto start = Clock::now();
    for (int i = 0; i < 50; ++i) call();
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / 50;
    least = std::min(least, ns);
  }
  return least;
}

TEST(CallCost, RecordAndHashAllocateNothing) {
  FlightRecorder recorder(0, 64);
  const auto group = recorder.add_group({.axis = "world", .purpose = "control", .ranks = {0, 1}});
  detail::Descriptor descriptor;
  descriptor.op = Collective::kAllGather;
  descriptor.unit = "a name that is too long for the string itself";
  descriptor.recv_counts = {3, 4};
  recorder.end(recorder.begin(descriptor, group, 0), FlightState::kDone);  // learns the name
  const std::int64_t before = num_allocations().load();
  const double ns = least_ns([&] {
    const std::uint64_t number = recorder.begin(descriptor, group, 1);
    descriptor.history = descriptor.next_history(Purpose::kGather);
    recorder.note_schedule(group, number + 1, descriptor.history);
    recorder.end(number, FlightState::kDone);
  });
  EXPECT_EQ(num_allocations().load() - before, 0);
  RecordProperty("ns", static_cast<int>(ns));
  // A step of 10 ms with 40 calls, a thousandth of it: 250 ns a call in release.
  EXPECT_LT(ns, 2000.0);
}

TEST(CallCost, OfACollectiveOnTheFakeTransport) {
  Communicator world = fake_world(8, 3, {.fill = FakeOptions::Fill::kNothing});
  const at::Tensor in = at::zeros({16}, at::kFloat);
  const at::Tensor out = at::zeros({128}, at::kFloat);
  const CallOptions options{.unit = "layers.11"};
  const double ns = least_ns([&] { world.start_all_gather(out, in, {}, options).wait(); });
  RecordProperty("ns", static_cast<int>(ns));
#ifdef NDEBUG
  EXPECT_LT(ns, 1000.0);
#else
  EXPECT_LT(ns, 10'000.0);
#endif
}

}  // namespace
}  // namespace sx
