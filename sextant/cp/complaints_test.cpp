// What users of other systems reported, replayed. Each name says what must not happen here.
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "sextant/cp/every_kind_test.h"

namespace sx {
namespace {

using testing::CpCase;
using testing::FlatRun;
using enum SeqPartitionKind;

/// x [B, S, h] -> q, k, v by one weight, so that a parameter's gradient comes from every token.
struct Projected {
  at::Tensor q, k, v;
};
Projected project(const at::Tensor& x_BSH, const at::Tensor& weight) {
  const at::Tensor y = at::matmul(x_BSH, weight);
  const auto heads = [&](std::int64_t begin, std::int64_t n) {
    return y.narrow(2, begin * 4, n * 4).view({x_BSH.size(0), x_BSH.size(1), n, 4});
  };
  return {heads(0, 4), heads(4, 2), heads(6, 2)};
}

// NVIDIA/Megatron-LM 673, 906, 7513 and verl 6609: loss and gradients scaled by the number of
// ranks, or divided by the tokens of one rank. Here: sum over valid tokens / valid tokens of all,
// whatever the layout, with masks that leave one rank nothing.
TEST(CpComplaints, LossIsNotScaledByTheNumberOfRanks) {
  const std::int64_t rows = 8, s = 16, h = 5;
  const at::Tensor x = testing::random_normal("x", {rows, s, h}, at::kDouble);
  const at::Tensor w0 = testing::random_normal("weight", {h, 32}, at::kDouble);
  at::Tensor valid = testing::random_normal("mask", {rows, s}, at::kDouble).gt(0.2).to(at::kDouble);
  valid.narrow(0, 0, 2).narrow(1, 0, 2).zero_();
  valid.narrow(0, 0, 2).narrow(1, 14, 2).zero_();
  const auto loss_of = [](const at::Tensor& out, const at::Tensor& mask, double count) {
    return out.sin().sum(at::IntArrayRef{2, 3}).mul(mask).sum() / count;
  };
  const at::Tensor w = w0.clone().set_requires_grad(true);
  const Projected all = project(x, w);
  const double count = valid.sum().item<double>();
  const at::Tensor flat = loss_of(
      testing::flat_attention(all.q, all.k, all.v, {s}, AttentionMask::causal()), valid, count);
  flat.backward();
  for (const std::int64_t degree : {1, 2, 4, 8}) {  // dp 8, 4, 2, 1
    rank_test(8, [&](Communicator& world) {
      const std::int64_t replica = world.coord() / degree, replicas = 8 / degree;
      std::vector<std::int64_t> ranks;
      for (std::int64_t i = 0; i < degree; ++i) ranks.push_back(replica * degree + i);
      Communicator cp = world.make_group(ranks, Axis::kCp, Purpose::kP2pForward);
      CpComms comms(cp);
      const auto plan =
          std::make_shared<const CpPlan>(kZigzag, std::vector<std::int64_t>{s}, degree);
      const at::Tensor own = testing::index_tensor(plan->tokens(cp.coord()));
      const auto cut = [&](const at::Tensor& t) {
        return t.narrow(0, replica * rows / replicas, rows / replicas).index_select(1, own);
      };
      for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses}) {
        at::Tensor tokens = cut(valid).sum();
        world.start_all_reduce(tokens, ReduceOp::kSum).wait();
        const at::Tensor weight = w0.clone().set_requires_grad(true);
        const Projected p = project(cut(x), weight);
        const at::Tensor loss = loss_of(ContextAttention(kind, plan, comms)(p.q, p.k, p.v),
                                        cut(valid), tokens.item<double>());
        loss.backward();
        at::Tensor sum = loss.detach().clone(), grad = weight.grad().clone();
        world.start_all_reduce(sum, ReduceOp::kSum).wait();
        world.start_all_reduce(grad, ReduceOp::kSum).wait();
        EXPECT_LE(testing::relative_error(sum, flat.detach()), 1e-12) << degree << to_string(kind);
        EXPECT_LE(testing::relative_error(grad, w.grad()), 1e-11) << degree << to_string(kind);
      }
    });
  }
}

// NVIDIA/Megatron-LM 1464, TransformerEngine 1557: wrong dq, dk, dv; diffusers 14265: the ring's
// backward pass used the keys of step 0 in every step.
TEST(CpComplaints, GradientsAreNotThoseOfStaleKeys) {
  for (const AttentionMask& mask : {AttentionMask::causal(), AttentionMask::full()}) {
    const CpCase c{.name = "stale", .documents = {32}, .mask = mask, .rows = 2};
    const FlatRun flat = testing::flat_run(c);
    for (const std::int64_t ranks : {2, 3, 4}) testing::expect_flat_on(c, flat, ranks);
  }
}

// TransformerEngine 3331, 1930, 3487: packed documents whose lengths 2c does not divide. The whole
// row's mask is that of each document alone; a second run has the same bits.
TEST(CpComplaints, PackedLengthsNeedNoPadding) {
  const CpCase c{.name = "lengths",
                 .partition = kDocument,
                 .documents = {7, 698, 1},
                 .query_heads = 2,
                 .key_heads = 1,
                 .head_dim = 4};
  const FlatRun flat = testing::flat_run(c);
  std::int64_t begin = 0;
  for (const std::int64_t length : c.documents) {
    const auto cut = [&](const at::Tensor& x) { return x.narrow(1, begin, length); };
    EXPECT_LE(testing::relative_error(
                  cut(flat.out),
                  testing::flat_attention(cut(flat.q), cut(flat.k), cut(flat.v), {length}, c.mask)),
              1e-12);
    begin += length;
  }
  for (const std::int64_t ranks : {2, 4}) {
    testing::expect_flat_on(c, flat, ranks);
    rank_test(ranks, [&](Communicator& world) {
      CpComms comms(world);
      for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses}) {
        const testing::RankRun a = testing::rank_run(c, flat, kind, comms),
                               b = testing::rank_run(c, flat, kind, comms);
        EXPECT_TRUE(at::equal(a.out, b.out) && at::equal(a.dq, b.dq) && at::equal(a.dk, b.dk) &&
                    at::equal(a.dv, b.dv));
      }
    });
  }
}

// pytorch/torchtitan 1306, NVIDIA/Megatron-LM 743, verl 3296: lengths that the degree does not
// divide are refused or wrong.
TEST(CpComplaints, LengthsNeedNotDivide) {
  for (const std::int64_t length : {7, 1021}) {
    const CpCase c{
        .name = "prime", .documents = {length}, .query_heads = 2, .key_heads = 1, .head_dim = 4};
    const FlatRun flat = testing::flat_run(c);
    for (const std::int64_t ranks : {2, 3, 4}) testing::expect_flat_on(c, flat, ranks);
  }
}

// microsoft/DeepSpeed 5248, 5823, 8291: Ulysses multiplied gradients, kept one head count for the
// whole process, and failed for several rows. Two models at once, heads that the degree does not
// divide, rows both outside and inside the sequence.
TEST(CpComplaints, HeadCountsBelongToTheCall) {
  const CpCase twelve{
      .name = "12 heads", .documents = {21}, .query_heads = 12, .key_heads = 6, .rows = 3};
  const CpCase seven{
      .name = "7 heads", .documents = {21}, .query_heads = 7, .key_heads = 7, .rows = 3};
  const FlatRun a = testing::flat_run(twelve), b = testing::flat_run(seven);
  rank_test(4, [&](Communicator& world) {
    CpComms comms(world);
    const auto plan = std::make_shared<const CpPlan>(kZigzag, twelve.documents, 4);
    const ContextAttention attention(CpKind::kUlysses, plan, comms);
    const at::Tensor own = testing::index_tensor(plan->tokens(world.coord()));
    const auto leaf = [&](const at::Tensor& x, bool sequence_first) {
      const at::Tensor part = x.index_select(1, own);
      return (sequence_first ? part.transpose(0, 1).contiguous() : part).set_requires_grad(true);
    };
    for (const bool sequence_first : {false, true}) {
      const auto call = [&](const std::vector<at::Tensor>& x) {
        const auto rows_first = [&](const at::Tensor& t) {
          return sequence_first ? t.transpose(0, 1) : t;
        };
        return attention(rows_first(x[0]), rows_first(x[1]), rows_first(x[2]));
      };
      const std::vector<at::Tensor> x = {leaf(a.q, sequence_first), leaf(a.k, sequence_first),
                                         leaf(a.v, sequence_first)};
      const std::vector<at::Tensor> y = {leaf(b.q, sequence_first), leaf(b.k, sequence_first),
                                         leaf(b.v, sequence_first)};
      const at::Tensor out_a = call(x), out_b = call(y);
      (out_a.mul(a.weight.index_select(1, own)).sum() +
       out_b.mul(b.weight.index_select(1, own)).sum())
          .backward();
      EXPECT_LE(testing::relative_error(out_b.detach(), b.out.index_select(1, own)), 1e-12);
      const auto grad = [&](const at::Tensor& t) {
        return sequence_first ? t.grad().transpose(0, 1) : t.grad();
      };
      EXPECT_LE(testing::relative_error(grad(x[0]), a.dq.index_select(1, own)), 1e-11);
      EXPECT_LE(testing::relative_error(grad(x[1]), a.dk.index_select(1, own)), 1e-11);
      EXPECT_LE(testing::relative_error(grad(y[0]), b.dq.index_select(1, own)), 1e-11);
      EXPECT_LE(testing::relative_error(grad(y[2]), b.dv.index_select(1, own)), 1e-11);
    }
  });
}

// pytorch/torchtitan 1283: key heads repeated before the ring, a/g times the bytes.
TEST(CpComplaints, KeysTravelWithTheirOwnHeads) {
  rank_test(4, [](Communicator& world) {
    CpComms comms(world);
    const auto plan = std::make_shared<const CpPlan>(kZigzag, std::vector<std::int64_t>{32}, 4);
    const at::Tensor q = testing::random_normal("q", {1, 8, 16, 4}, at::kFloat);
    const at::Tensor k = testing::random_normal("k", {1, 8, 2, 4}, at::kFloat);
    world.session().reset_traffic();
    ContextAttention(CpKind::kRing, plan, comms)(q, k, k);
    EXPECT_EQ(world.session().traffic_of(Collective::kSend).bytes, 3 * 2 * 8 * 2 * 4 * 4);
    EXPECT_EQ(world.session().traffic_of(Collective::kSend).calls, 3);
  });
}

}  // namespace
}  // namespace sx
