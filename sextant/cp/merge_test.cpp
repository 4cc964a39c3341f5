#include "sextant/cp/merge.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "sextant/base/check.h"
#include "sextant/cp/block_attention.h"
#include "sextant/nn/testing.h"

namespace sx {
namespace {

at::Tensor row(const std::vector<double>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  at::Tensor out = at::empty({1, n, 1, 1}, at::kDouble);
  std::copy(values.begin(), values.end(), out.mutable_data_ptr<double>());
  return out;
}

AttentionState attend_one(const std::vector<double>& keys, const std::vector<double>& values) {
  const at::Tensor q = row({1}), k = row(keys), v = row(values);
  AttentionBlock block;
  block.num_queries = 1;
  block.num_keys = static_cast<std::int64_t>(keys.size());
  return block_attention(q, k, v, block,
                         {AttentionMask::full(), BlockDtype::kFp32, whole_heads(q, k)});
}

TEST(Merge, KnownAnswer) {
  const AttentionState a = attend_one({0, 1}, {1, 2}), b = attend_one({2, -1}, {3, 4});
  EXPECT_NEAR(a.out_BTND.item<double>(), 1.7310585786300048, 1e-15);
  EXPECT_NEAR(a.lse_BTN.item<double>(), 1.3132616875182228, 1e-15);
  EXPECT_NEAR(b.out_BTND.item<double>(), 3.0474258731775667, 1e-15);
  EXPECT_NEAR(b.lse_BTN.item<double>(), 2.048587351573742, 1e-15);
  const at::Tensor out = a.out_BTND.clone(), lse = a.lse_BTN.clone();
  merge_attention(out, lse, b.out_BTND, b.lse_BTN);
  EXPECT_NEAR(out.item<double>(), 2.62088714770611, 1e-14);
  EXPECT_NEAR(lse.item<double>(), 2.4401896985611953, 1e-14);
}

TEST(Merge, BlocksThatSawNothingChangeNoBit) {
  const double none = -std::numeric_limits<double>::infinity();
  at::Tensor out = row({-0.0, 1.5, -3e300}), lse = row({-700.0, 0.25, none}).squeeze(-1);
  const at::Tensor out_before = out.clone(), lse_before = lse.clone();
  merge_attention(out, lse, row({0, 0, 0}), row({none, none, none}).squeeze(-1));
  EXPECT_EQ(std::memcmp(out.const_data_ptr(), out_before.const_data_ptr(), 24), 0);
  EXPECT_EQ(std::memcmp(lse.const_data_ptr(), lse_before.const_data_ptr(), 24), 0);
  // The other way round: the first block is taken as it is.
  out = row({0, 0});
  lse = row({none, none}).squeeze(-1);
  merge_attention(out, lse, row({4.25, -1}), row({3, none}).squeeze(-1));
  EXPECT_EQ(out.flatten()[0].item<double>(), 4.25);
  EXPECT_EQ(lse.flatten()[0].item<double>(), 3.0);
  EXPECT_EQ(out.flatten()[1].item<double>(), 0.0);
  EXPECT_EQ(lse.flatten()[1].item<double>(), none);
}

TEST(Merge, FarApartBlocksAndOverflow) {
  at::Tensor out = row({1, 1, 1}), lse = row({5000, -5000, 80}).squeeze(-1);
  merge_attention(out, lse, row({2, 2, 2}), row({-5000, 5000, 80}).squeeze(-1));
  EXPECT_EQ(out.flatten()[0].item<double>(), 1.0);
  EXPECT_EQ(out.flatten()[1].item<double>(), 2.0);
  EXPECT_EQ(out.flatten()[2].item<double>(), 1.5);
  EXPECT_EQ(lse.flatten()[0].item<double>(), 5000.0);
  EXPECT_NEAR(lse.flatten()[2].item<double>(), 80 + std::log(2.0), 1e-13);
}

TEST(Merge, RefusesMixedParts) {
  at::Tensor out = row({1}), lse = row({1}).squeeze(-1);
  EXPECT_THROW(merge_attention(out, lse, row({1}).to(at::kFloat), lse), ContractError);
  EXPECT_THROW(merge_attention(out, lse, row({1, 2}), lse), ContractError);
}

}  // namespace
}  // namespace sx
