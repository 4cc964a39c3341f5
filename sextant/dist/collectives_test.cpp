// Every collective against a closed form, for every dtype, world size and length around the limits
// of the transport.
#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <functional>
#include <numeric>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/dist/communicator.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

constexpr std::int64_t kWorldSizes[] = {1, 2, 3, 4, 5, 8};
// 4095 and 20,003 lie on both sides of the 16 KiB up to which inputs are copied at the start, for
// every dtype.
constexpr std::int64_t kLengths[] = {0, 1, 7, 4095, 20'003};
constexpr at::ScalarType kDtypes[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf,
                                      at::kLong,   at::kInt,   at::kChar,     at::kByte};

/// Small whole numbers, so every dtype holds them and their sums exactly.
template <class Value>
at::Tensor make(at::ScalarType dtype, std::int64_t n, const Value& value) {
  at::Tensor whole = at::empty({n}, at::kLong);
  auto* p = whole.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) p[i] = value(i);
  return whole.to(dtype);
}

/// Element i of rank r's input.
std::int64_t value_of(std::int64_t r, std::int64_t i) { return (r + 1) * (i % 3) + r % 2; }

std::int64_t reduced(ReduceOp op, std::int64_t world, std::int64_t i) {
  std::int64_t out = value_of(0, i);
  for (std::int64_t r = 1; r < world; ++r) {
    const std::int64_t x = value_of(r, i);
    if (op == ReduceOp::kSum) out += x;
    if (op == ReduceOp::kMax) out = std::max(out, x);
    if (op == ReduceOp::kMin) out = std::min(out, x);
  }
  return out;
}

void for_all_cases(const std::function<void(Communicator&, at::ScalarType, std::int64_t)>& body) {
  for (const std::int64_t world_size : kWorldSizes) {
    rank_test(world_size, [&](Communicator& world) {
      for (const at::ScalarType dtype : kDtypes) {
        for (const std::int64_t n : kLengths) body(world, dtype, n);
      }
    });
  }
}

std::string case_of(const Communicator& world, at::ScalarType dtype, std::int64_t n) {
  return std::string(toString(dtype)) + " x " + std::to_string(n) + ", coord " +
         std::to_string(world.coord()) + " of " + std::to_string(world.degree());
}

/// Counts by coord that are uneven and contain zeros: 0, n, 2n, 0, n, ...
std::vector<std::int64_t> uneven(std::int64_t world, std::int64_t n) {
  std::vector<std::int64_t> counts;
  for (std::int64_t c = 0; c < world; ++c) counts.push_back(c % 3 * n);
  return counts;
}

std::int64_t begin_of(const std::vector<std::int64_t>& counts, std::int64_t coord) {
  return std::accumulate(counts.begin(), counts.begin() + coord, std::int64_t{0});
}

TEST(Collectives, AllReduce) {
  for_all_cases([](Communicator& world, at::ScalarType dtype, std::int64_t n) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      at::Tensor t = make(dtype, n, [&](std::int64_t i) { return value_of(world.coord(), i); });
      world.start_all_reduce(t, op).wait();
      const auto want =
          make(dtype, n, [&](std::int64_t i) { return reduced(op, world.degree(), i); });
      EXPECT_TRUE(at::equal(t, want)) << to_string(op) << " " << case_of(world, dtype, n);
    }
  });
}

TEST(Collectives, ReduceScatter) {
  for_all_cases([](Communicator& world, at::ScalarType dtype, std::int64_t n) {
    const std::int64_t degree = world.degree();
    for (const auto& counts : {std::vector<std::int64_t>(degree, n), uneven(degree, n)}) {
      const std::int64_t total = begin_of(counts, degree);
      const std::int64_t begin = begin_of(counts, world.coord());
      at::Tensor in =
          make(dtype, total, [&](std::int64_t i) { return value_of(world.coord(), i); });
      at::Tensor out = at::empty({counts[world.coord()]}, dtype);
      world.start_reduce_scatter(out, in, ReduceOp::kSum, counts).wait();
      const auto want = make(dtype, out.numel(), [&](std::int64_t i) {
        return reduced(ReduceOp::kSum, degree, begin + i);
      });
      EXPECT_TRUE(at::equal(out, want)) << case_of(world, dtype, n);
      // Into the own slice of the input.
      world.start_reduce_scatter(in.narrow(0, begin, out.numel()), in, ReduceOp::kSum, counts)
          .wait();
      EXPECT_TRUE(at::equal(in.narrow(0, begin, out.numel()), want))
          << "in place, " << case_of(world, dtype, n);
    }
  });
}

TEST(Collectives, AllGather) {
  for_all_cases([](Communicator& world, at::ScalarType dtype, std::int64_t n) {
    const std::int64_t degree = world.degree();
    for (const auto& counts : {std::vector<std::int64_t>(degree, n), uneven(degree, n)}) {
      const std::int64_t own = counts[world.coord()];
      const std::int64_t begin = begin_of(counts, world.coord());
      const at::Tensor in =
          make(dtype, own, [&](std::int64_t i) { return value_of(world.coord(), i); });
      at::Tensor out = at::zeros({begin_of(counts, degree)}, dtype);
      world.start_all_gather(out, in, counts).wait();
      at::Tensor in_place = at::zeros_like(out);
      in_place.narrow(0, begin, own).copy_(in);
      world.start_all_gather(in_place, in_place.narrow(0, begin, own), counts).wait();
      for (std::int64_t c = 0; c < degree; ++c) {
        const auto want = make(dtype, counts[c], [&](std::int64_t i) { return value_of(c, i); });
        EXPECT_TRUE(at::equal(out.narrow(0, begin_of(counts, c), counts[c]), want))
            << "from " << c << ", " << case_of(world, dtype, n);
      }
      EXPECT_TRUE(at::equal(in_place, out)) << "in place, " << case_of(world, dtype, n);
    }
  });
}

TEST(Collectives, AllToAll) {
  for_all_cases([](Communicator& world, at::ScalarType dtype, std::int64_t n) {
    const std::int64_t degree = world.degree();
    // Coord a sends ((a + b) % 3) * n elements to coord b.
    std::vector<std::int64_t> counts;
    for (std::int64_t c = 0; c < degree; ++c) counts.push_back((world.coord() + c) % 3 * n);
    at::Tensor in = make(dtype, begin_of(counts, degree), [](std::int64_t) { return 0; });
    for (std::int64_t c = 0; c < degree; ++c) {
      in.narrow(0, begin_of(counts, c), counts[c]).fill_(world.coord() * 8 + c);
    }
    at::Tensor out = at::empty({in.numel()}, dtype);
    world.start_all_to_all(out, in, counts, counts).wait();
    for (std::int64_t c = 0; c < degree; ++c) {
      const auto want = make(dtype, counts[c], [&](std::int64_t) { return c * 8 + world.coord(); });
      EXPECT_TRUE(at::equal(out.narrow(0, begin_of(counts, c), counts[c]), want))
          << "from " << c << ", " << case_of(world, dtype, n);
    }
  });
}

TEST(Collectives, BroadcastFromEveryRoot) {
  for_all_cases([](Communicator& world, at::ScalarType dtype, std::int64_t n) {
    for (std::int64_t root = 0; root < world.degree(); ++root) {
      at::Tensor t = make(dtype, n, [&](std::int64_t i) { return value_of(world.coord(), i); });
      world.start_broadcast(t, root).wait();
      const auto want = make(dtype, n, [&](std::int64_t i) { return value_of(root, i); });
      EXPECT_TRUE(at::equal(t, want)) << "root " << root << ", " << case_of(world, dtype, n);
    }
  });
}

TEST(Collectives, SendAroundTheRing) {
  for_all_cases([](Communicator& world, at::ScalarType dtype, std::int64_t n) {
    const std::int64_t to = (world.coord() + 1) % world.degree();
    const std::int64_t from = (world.coord() + world.degree() - 1) % world.degree();
    const at::Tensor in =
        make(dtype, n, [&](std::int64_t i) { return value_of(world.coord(), i); });
    at::Tensor out = at::empty({n}, dtype);
    world.start_send(in, to).wait();  // all send first: no receive is posted yet
    world.start_recv(out, from).wait();
    const auto want = make(dtype, n, [&](std::int64_t i) { return value_of(from, i); });
    EXPECT_TRUE(at::equal(out, want)) << case_of(world, dtype, n);
  });
}

/// Values whose sums round, so that the order of additions shows.
at::Tensor rough(at::ScalarType dtype, std::int64_t n, std::int64_t rank) {
  at::Tensor t = at::empty({n}, at::kDouble);
  auto* p = t.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < n; ++i) {
    p[i] = static_cast<double>((i * 7919 + rank * 104'729) % 10'007) / 3.0 - 1500.0;
  }
  return t.to(dtype);
}

/// Small whole numbers without a loop in this file: sums over 8 ranks fit every dtype.
at::Tensor pattern(at::ScalarType dtype, std::int64_t n, std::int64_t rank) {
  return at::arange(n, at::kLong).add_(rank).remainder_(7).to(dtype);
}

TEST(Collectives, AllReduceHasTheBitsOfReduceScatterThenAllGather) {
  for (const std::int64_t world_size : kWorldSizes) {
    rank_test(world_size, [](Communicator& world) {
      for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
        for (const std::int64_t per_rank : {5, 4001, 30'000}) {
          const at::Tensor in = rough(dtype, per_rank * world.degree(), world.coord());
          at::Tensor all_reduced = in.clone();
          world.start_all_reduce(all_reduced, ReduceOp::kSum).wait();
          at::Tensor slice = at::empty({per_rank}, dtype);
          at::Tensor gathered = at::empty_like(in);
          world.start_reduce_scatter(slice, in, ReduceOp::kSum).wait();
          world.start_all_gather(gathered, slice).wait();
          EXPECT_TRUE(at::equal(all_reduced, gathered)) << case_of(world, dtype, per_rank);
          // The fold as written down: rank 0's value, then one rank after the other.
          const at::ScalarType acc = dtype == at::kDouble ? at::kDouble : at::kFloat;
          at::Tensor want = rough(dtype, in.numel(), 0).to(acc);
          for (std::int64_t r = 1; r < world.degree(); ++r) {
            want.add_(rough(dtype, in.numel(), r).to(acc));
          }
          EXPECT_TRUE(at::equal(all_reduced, want.to(dtype))) << case_of(world, dtype, per_rank);
        }
      }
    });
  }
}

// A mebibyte and three elements a rank: many blocks, a tail, slices that begin anywhere.
TEST(Collectives, LongTensorsOfEveryDtype) {
  for (const std::int64_t world_size : kWorldSizes) {
    rank_test(world_size, [](Communicator& world) {
      for (const at::ScalarType dtype : kDtypes) {
        const std::int64_t element = static_cast<std::int64_t>(c10::elementSize(dtype));
        const std::int64_t n = (1 << 20) / element + 3;
        std::vector<std::int64_t> counts;  // n elements, uneven
        for (std::int64_t c = 0; c < world.degree(); ++c) counts.push_back(n / world.degree());
        counts.front() += n - begin_of(counts, world.degree());
        const std::int64_t own = counts[static_cast<std::size_t>(world.coord())];
        const at::Tensor in = pattern(dtype, n, world.coord());
        at::Tensor reduced = in.clone();
        world.start_all_reduce(reduced, ReduceOp::kSum).wait();
        at::Tensor want = pattern(dtype, n, 0);
        for (std::int64_t r = 1; r < world.degree(); ++r) want.add_(pattern(dtype, n, r));
        EXPECT_TRUE(at::equal(reduced, want)) << case_of(world, dtype, n);
        at::Tensor slice = at::empty({own}, dtype);
        world.start_reduce_scatter(slice, in, ReduceOp::kSum, counts).wait();
        at::Tensor gathered = at::empty({n}, dtype);
        world.start_all_gather(gathered, slice, counts).wait();
        EXPECT_TRUE(at::equal(gathered, want)) << case_of(world, dtype, n);
        at::Tensor moved = world.coord() == 0 ? in.clone() : at::zeros({n}, dtype);
        world.start_broadcast(moved, 0).wait();
        EXPECT_TRUE(at::equal(moved, pattern(dtype, n, 0))) << case_of(world, dtype, n);
      }
    });
  }
}

TEST(Collectives, OtherDtypesAreMovedButNotReduced) {
  rank_test(2, [](Communicator& world) {
    at::Tensor t = at::zeros({3}, at::kComplexFloat);
    if (world.coord() == 0) t.fill_(2.0);
    world.start_broadcast(t, 0).wait();
    EXPECT_TRUE(at::equal(t, at::full({3}, 2.0, at::kComplexFloat)));
    EXPECT_THROW(world.start_all_reduce(t, ReduceOp::kSum).wait(), ContractError);
    at::Tensor flag = at::zeros({2}, at::kBool);
    if (world.coord() == 1) flag[1].fill_(true);
    EXPECT_THROW(world.start_all_reduce(flag, ReduceOp::kSum).wait(), ContractError);
    world.start_all_reduce(flag, ReduceOp::kMax).wait();
    EXPECT_FALSE(flag[0].item<bool>());
    EXPECT_TRUE(flag[1].item<bool>());
  });
}

TEST(Collectives, BatchMixesDtypes) {
  rank_test(3, [](Communicator& world) {
    at::Tensor a = make(at::kFloat, 10, [&](std::int64_t) { return world.coord(); });
    at::Tensor b = make(at::kLong, 20'000, [&](std::int64_t) { return world.coord() + 1; });
    at::Tensor ring_in = make(at::kInt, 1, [&](std::int64_t) { return world.coord(); });
    at::Tensor ring_out = at::empty({1}, at::kInt);
    world
        .start_batch({collective::all_reduce(a, ReduceOp::kSum),
                      collective::all_reduce(b, ReduceOp::kMax),
                      collective::recv(ring_out, (world.coord() + 2) % 3),
                      collective::send(ring_in, (world.coord() + 1) % 3)})
        .wait();
    EXPECT_EQ(a[9].item<float>(), 3.0f);
    EXPECT_EQ(b[19'999].item<std::int64_t>(), 3);
    EXPECT_EQ(ring_out.item<int>(), (world.coord() + 2) % 3);
  });
}

TEST(Collectives, WrongCallsAreRefusedBeforeAnyMessage) {
  rank_test(2, [](Communicator& world) {
    const at::Tensor four = at::zeros({4}, at::kFloat);
    const at::Tensor three = at::zeros({3}, at::kFloat);
    EXPECT_THROW(world.start_all_reduce(at::Tensor(), ReduceOp::kSum).wait(), ContractError);
    EXPECT_THROW(world.start_all_reduce(at::zeros({4, 4}).t(), ReduceOp::kSum).wait(),
                 ContractError);
    EXPECT_THROW(world.start_reduce_scatter(three, four, ReduceOp::kSum).wait(), ContractError);
    EXPECT_THROW(world.start_reduce_scatter(three, three, ReduceOp::kSum).wait(), ContractError);
    EXPECT_THROW(world.start_all_gather(four, three).wait(), ContractError);
    EXPECT_THROW(world.start_all_gather(four, four.narrow(0, 1, 2)).wait(), ContractError);
    EXPECT_THROW(world.start_all_to_all(four, four).wait(), ContractError);
    EXPECT_THROW(world.start_all_to_all(at::zeros({4}), four, {5, -1}).wait(), ContractError);
    EXPECT_THROW(world.start_broadcast(four, 2).wait(), ContractError);
    world.barrier();  // nothing was sent, so the ranks still agree
  });
}

}  // namespace
}  // namespace sx
