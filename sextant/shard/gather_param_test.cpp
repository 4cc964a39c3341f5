// The reference itself, against what can be said in one line.
#include "sextant/shard/gather_param.h"

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

at::Tensor rows_of(const at::Tensor& whole, const Communicator& comm) {
  const ShardRows rows = shard_rows(whole.sizes().vec(), comm.degree(), comm.coord());
  return whole.narrow(0, rows.begin, rows.end - rows.begin).clone();
}

TEST(GatherParam, GathersRowsAndSumsGradients) {
  for (const std::int64_t n : {1, 3, 5, 8}) {
    for (const std::int64_t ranks : {1, 2, 4}) {
      rank_test(ranks, [&](Communicator& world) {
        const at::Tensor whole = at::arange(n * 3, at::kDouble).view({n, 3});
        at::Tensor shard = rows_of(whole, world).set_requires_grad(true);
        const GatherSpec spec{.shape = {n, 3}, .shard = &world};
        const at::Tensor gathered = gather_param(shard, spec);
        EXPECT_TRUE(at::equal(gathered, whole));
        const auto factor = static_cast<double>(world.coord() + 1);
        torch::autograd::backward({(gathered * whole * factor).sum()}, {});
        const double all = static_cast<double>(ranks * (ranks + 1)) / 2;
        EXPECT_TRUE(at::equal(shard.grad(), rows_of(whole * all, world)));
      });
    }
  }
}

TEST(GatherParam, FoldsInTheOrderAsked) {
  // 1e16, 1, -1e16, 1 over a 2x2 mesh: flat (((1e16+1)-1e16)+1) = 1, nested (1e16+1)+(-1e16+1) = 0.
  for (const bool flat : {true, false}) {
    rank_test(4, [&](Communicator& world) {
      const std::int64_t replica = world.coord() / 2;
      Communicator shard =
          world.make_group({2 * replica, 2 * replica + 1}, Axis::kDpShard, Purpose::kReduce);
      const double value =
          std::vector<double>{1e16, 1, -1e16, 1}[static_cast<std::size_t>(world.coord())];
      const GatherSpec spec{.shape = {2, 1}, .flat_order = flat, .shard = &shard, .flat = &world};
      const at::Tensor own =
          reduce_grad(at::arange(2, at::kDouble).view({2, 1}).mul(0).add(value), spec, at::kDouble);
      ASSERT_EQ(own.numel(), 1);
      if (flat) {
        EXPECT_EQ(own.item<double>(), 1.0);
      } else {
        EXPECT_EQ(own.item<double>(), replica == 0 ? 1e16 : -1e16);
      }
    });
  }
}

TEST(GatherParam, ComputesAndReducesInOtherDtypes) {
  rank_test(2, [](Communicator& world) {
    const at::Tensor whole = (at::arange(8, at::kFloat) / 3).view({4, 2});
    at::Tensor shard = rows_of(whole, world).set_requires_grad(true);
    const GatherSpec spec{.shape = {4, 2},
                          .compute_dtype = at::kBFloat16,
                          .reduce_dtype = at::kFloat,
                          .shard = &world};
    const at::Tensor gathered = gather_param(shard, spec);
    EXPECT_EQ(gathered.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::equal(gathered, whole.to(at::kBFloat16)));
    torch::autograd::backward({gathered.sum()}, {});
    EXPECT_EQ(shard.grad().scalar_type(), at::kFloat);
    EXPECT_EQ(shard.grad().sum().item<float>(), 8.0F);
  });
}

}  // namespace
}  // namespace sx
