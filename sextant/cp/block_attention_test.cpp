// The block primitive alone: pieces of one row, computed block by block in one process.
#include "sextant/cp/block_attention.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "sextant/base/check.h"
#include "sextant/cp/testing.h"

namespace sx {
namespace {

using testing::CpCase;
using testing::FlatRun;
using enum SeqPartitionKind;

/// Forward and backward of the whole row by its visible blocks, in the given dtype.
testing::RankRun by_blocks(const CpCase& c, const FlatRun& flat, c10::ScalarType dtype,
                           const std::vector<HeadRun>& heads) {
  const CpPlan plan(c.partition, c.documents, 1, c.mask);
  const at::Tensor q = flat.q.to(dtype), k = flat.k.to(dtype), v = flat.v.to(dtype);
  const BlockOptions options{c.mask, BlockDtype::kFp32, heads};
  AttentionState state = empty_state(q);
  attend(state, q, k, v, plan.all_blocks(), options);
  const auto zeros = [&](const at::Tensor& x) { return at::zeros_like(x).to(merge_dtype(dtype)); };
  AttentionGrads grads{zeros(q), zeros(k), zeros(v)};
  attend_backward(grads, flat.weight.to(dtype), q, k, v, state, plan.all_blocks(), options);
  return {state.out_BTND, grads.q, grads.k, grads.v, {}};
}

TEST(BlockAttention, BandsLongerThanATile) {
  for (const AttentionMask& mask :
       {AttentionMask::window(1), AttentionMask::window(50), AttentionMask::window(300),
        AttentionMask::window(600), AttentionMask{40, 40}, AttentionMask{400, 350},
        AttentionMask::causal(), AttentionMask::full()}) {
    const CpCase c{.name = "bands",
                   .documents = {650, 30},
                   .mask = mask,
                   .query_heads = 2,
                   .key_heads = 1,
                   .head_dim = 4};
    const FlatRun flat = testing::flat_run(c);
    for (const auto& [dtype, bar] : {std::pair{at::kDouble, 1e-11}, std::pair{at::kFloat, 1e-5}}) {
      const testing::RankRun run = by_blocks(c, flat, dtype, {{0, 2, 0, 1}});
      const std::string where = "-" + std::to_string(mask.left) + " +" + std::to_string(mask.right);
      EXPECT_LE(testing::relative_error(run.out, flat.out), bar) << where;
      EXPECT_LE(testing::relative_error(run.dq, flat.dq), bar) << where;
      EXPECT_LE(testing::relative_error(run.dk, flat.dk), bar) << where;
      EXPECT_LE(testing::relative_error(run.dv, flat.dv), bar) << where;
    }
  }
}

// Runs of heads that begin and end inside a group give what one run gives.
TEST(BlockAttention, RunsOfHeads) {
  const CpCase c{.name = "runs", .documents = {20}, .query_heads = 8, .key_heads = 2};
  const FlatRun flat = testing::flat_run(c);
  const testing::RankRun run =
      by_blocks(c, flat, at::kDouble, {{0, 1, 0, 1}, {1, 3, 0, 1}, {4, 4, 1, 1}});
  EXPECT_LE(testing::relative_error(run.out, flat.out), 1e-12);
  EXPECT_LE(testing::relative_error(run.dk, flat.dk), 1e-11);
  EXPECT_LE(testing::relative_error(run.dq, flat.dq), 1e-11);
}

TEST(BlockAttention, EmptyBlocksSeeNothing) {
  const at::Tensor q = at::zeros({1, 3, 2, 4}), k = at::zeros({1, 0, 1, 4});
  AttentionBlock block;
  block.num_queries = 3;
  const BlockOptions options{AttentionMask::full(), BlockDtype::kFp32, whole_heads(q, k)};
  const AttentionState state = block_attention(q, k, k, block, options);
  EXPECT_EQ(state.out_BTND.abs().sum().item<double>(), 0.0);
  EXPECT_TRUE(state.lse_BTN.isneginf().all().item<bool>());
  const AttentionGrads grads = block_attention_backward(q, q, k, k, state, block, options);
  EXPECT_EQ(grads.q.abs().sum().item<double>(), 0.0);
  block.num_queries = 2;
  EXPECT_THROW(block_attention(q, k, k, block, options), ContractError);
}

TEST(BlockAttention, SixteenBitsAreMergedInFp32) {
  const at::Tensor q = at::zeros({1, 3, 2, 4}).to(at::kBFloat16);
  AttentionBlock block;
  block.num_queries = block.num_keys = 3;
  for (const BlockDtype dtype : {BlockDtype::kFp32, BlockDtype::kNative}) {
    const AttentionState state =
        block_attention(q, q, q, block, {AttentionMask::full(), dtype, whole_heads(q, q)});
    EXPECT_EQ(state.out_BTND.scalar_type(), at::kFloat);
    EXPECT_EQ(state.lse_BTN.scalar_type(), at::kFloat);
  }
}

}  // namespace
}  // namespace sx
