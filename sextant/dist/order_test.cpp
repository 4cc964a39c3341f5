// Orders of starts and waits. SX_ORDER_SEEDS says how many are tried: few in the fast set, many in
// the slow one.
#include <gtest/gtest.h>

#include <ATen/ops/full.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sextant/base/rng.h"
#include "sextant/dist/testing.h"
#include "tests/equivalence/rank_test.h"

#ifndef SX_ORDER_SEEDS
#define SX_ORDER_SEEDS 300
#endif

namespace sx {
namespace {

using testing::filled;

// Three communicators over the same ranks, operations started in a common order per communicator,
// waited for in any order, with random pauses: every rank's progress must not depend on the order
// the others wait in. Every other seed has a progress thread besides.
TEST(ThreadsWaits, AnyOrderOfWaitsEnds) {
  for (std::uint64_t seed = 0; seed < SX_ORDER_SEEDS; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto body = [&](Communicator& world) {
      const RandomStream random(seed, "test.order", static_cast<std::uint64_t>(world.coord()));
      std::uint64_t draw = 0;
      std::vector<Communicator> comms;
      for (const Purpose purpose : {Purpose::kGather, Purpose::kReduce, Purpose::kReplicate}) {
        comms.push_back(world.make_group({0, 1, 2}, AxisSet::world(), purpose));
      }
      struct InFlight {
        at::Tensor tensor;
        double want;
        Handle handle;
      };
      std::vector<InFlight> flights;
      std::vector<int> started(comms.size(), 0);
      constexpr int kPerComm = 4;
      for (std::size_t left = comms.size() * kPerComm; left > 0;) {
        const std::size_t c = random.u64(draw++) % comms.size();
        if (started[c] == kPerComm) continue;
        const std::int64_t n = started[c] % 2 == 0 ? 3 : 9000;
        const double value = static_cast<double>(started[c]++ + 10 * static_cast<int>(c));
        at::Tensor t = filled(n, value + static_cast<double>(world.coord()));
        flights.push_back({t, 3 * value + 3, comms[c].start_all_reduce(t, ReduceOp::kSum)});
        --left;
        if (random.u64(draw++) % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      while (!flights.empty()) {
        const std::size_t i = random.u64(draw++) % flights.size();
        flights[i].handle.wait();
        ASSERT_EQ(flights[i].tensor[-1].item<float>(), flights[i].want);
        std::swap(flights[i], flights.back());
        flights.pop_back();
      }
    };
    rank_test(3, body, {.timeout = Seconds{20.0}, .progress_threads = static_cast<int>(seed % 2)});
  }
}

}  // namespace
}  // namespace sx
