#include "sextant/nn/attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <limits>

#include "sextant/base/check.h"
#include "sextant/nn/rope.h"
#include "sextant/nn/testing.h"

namespace sx {
namespace {

using testing::long_tensor;
using testing::random_normal;

TEST(AttentionSegments, FollowTheBordersOfDocuments) {
  const at::Tensor ids = long_tensor({7, 7, 7, 7, 1, 1, 1, 1, 1, 1, 2, 3, 4, 4, 4, 4}, {4, 4});
  const std::vector<AttentionSegment> expected = {
      {0, 2, 0, 4}, {2, 1, 0, 2}, {2, 1, 2, 1}, {2, 1, 3, 1}, {3, 1, 0, 4}};
  EXPECT_EQ(document_segments(ids), expected);
  EXPECT_EQ(document_segments(ids.to(c10::kInt)), expected);
  EXPECT_EQ(document_segments(long_tensor({1, 1, 2, 2}, {2, 2})), whole_rows(2, 2));
}

/// Scores with an explicit mask, softmax, values; key/value heads repeated.
at::Tensor composed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const at::Tensor& ids) {
  const std::int64_t groups = q.size(2) / k.size(2), s = q.size(1);
  const at::Tensor keys = k.repeat_interleave(groups, 2).transpose(1, 2);
  const at::Tensor values = v.repeat_interleave(groups, 2).transpose(1, 2);
  const at::Tensor scores = at::matmul(q.transpose(1, 2), keys.transpose(2, 3))
                                .div(std::sqrt(static_cast<double>(q.size(3))));
  const at::Tensor allowed = at::ones({s, s}, c10::kBool)
                                 .tril()
                                 .logical_and(ids.unsqueeze(2).eq(ids.unsqueeze(1)))
                                 .unsqueeze(1);
  return at::matmul(
             scores.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity())
                 .softmax(-1),
             values)
      .transpose(1, 2);
}

TEST(Attention, AgreesWithTheComposedFormAndItsGradients) {
  for (const auto& [dtype, bar] : {std::pair{c10::kDouble, 1e-12}, std::pair{c10::kFloat, 1e-5}}) {
    const at::Tensor ids = long_tensor(
        {0, 0, 0, 1, 1, 2, 2, 2, 5, 5, 5, 5, 5, 5, 5, 5, 1, 1, 1, 1, 1, 1, 1, 2}, {3, 8});
    std::vector<at::Tensor> a, b;
    for (const auto& [name, heads] : {std::pair{"q", 6}, std::pair{"k", 2}, std::pair{"v", 2}}) {
      a.push_back(random_normal(name, {3, 8, heads, 10}, dtype).set_requires_grad(true));
      b.push_back(a.back().detach().clone().set_requires_grad(true));
    }
    const at::Tensor weight = random_normal("weight", {3, 8, 6, 10}, dtype);
    const at::Tensor ours = causal_attention(a[0], a[1], a[2], document_segments(ids));
    const at::Tensor theirs = composed(b[0], b[1], b[2], ids);
    EXPECT_LT(testing::max_difference(ours.detach(), theirs.detach()), bar);
    ours.mul(weight).sum().backward();
    theirs.mul(weight).sum().backward();
    for (int i = 0; i < 3; ++i)
      EXPECT_LT(testing::max_difference(a[i].grad(), b[i].grad()), bar) << "qkv"[i];
  }
}

// Packed or alone: the same calls of the kernel, so the same bits, forward and backward.
TEST(Attention, SegmentsHaveTheBitsOfSeparateRows) {
  for (const c10::ScalarType dtype : {c10::kDouble, c10::kFloat}) {
    const auto make = [&](const char* name, std::int64_t heads) {
      return random_normal(name, {1, 9, heads, 8}, dtype).set_requires_grad(true);
    };
    const at::Tensor q = make("q", 4), k = make("k", 2), v = make("v", 2);
    const at::Tensor packed = causal_attention(q, k, v, {{0, 1, 0, 4}, {0, 1, 4, 5}});
    packed.mul(packed).sum().backward();
    std::int64_t start = 0;
    for (const std::int64_t length : {4, 5}) {
      const auto part = [&](const at::Tensor& t) {
        return t.detach().narrow(1, start, length).clone().set_requires_grad(true);
      };
      const at::Tensor pq = part(q), pk = part(k), pv = part(v);
      const at::Tensor alone = causal_attention(pq, pk, pv, whole_rows(1, length));
      alone.mul(alone).sum().backward();
      EXPECT_TRUE(at::equal(packed.detach().narrow(1, start, length), alone.detach()));
      EXPECT_TRUE(at::equal(q.grad().narrow(1, start, length), pq.grad()));
      EXPECT_TRUE(at::equal(k.grad().narrow(1, start, length), pk.grad()));
      EXPECT_TRUE(at::equal(v.grad().narrow(1, start, length), pv.grad()));
      start += length;
    }
  }
}

TEST(Attention, RefusesSegmentsThatDoNotTile) {
  const at::Tensor q = random_normal("q", {1, 4, 2, 4}, c10::kFloat),
                   k = random_normal("k", {1, 4, 2, 4}, c10::kFloat);
  EXPECT_THROW(causal_attention(q, k, k, {{0, 1, 0, 3}}), ContractError);
  const at::Tensor odd = random_normal("k", {1, 4, 3, 4}, c10::kFloat);
  EXPECT_THROW(causal_attention(q, odd, odd, whole_rows(1, 4)), ContractError);
}

// Known answers: position 0 turns nothing; one pair at position p turns by p; products depend on
// the distance only.
TEST(Rope, TurnsPairsByPosition) {
  const RopeTable table = make_rope_table(64, std::vector<double>{1.0}, c10::kDouble);
  const at::Tensor x = long_tensor({1, 0}, {1, 1, 1, 2}).to(c10::kDouble);
  const auto turn = [&](std::int64_t p) {
    const auto row = [&](const at::Tensor& t) { return t.narrow(0, p, 1).unsqueeze(0); };
    return apply_rope(x, row(table.cos_PR), row(table.sin_PR)).view({-1});
  };
  EXPECT_TRUE(at::equal(turn(0), x.view({-1})));
  EXPECT_NEAR(turn(3).narrow(0, 0, 1).item<double>(), std::cos(3.0), 1e-15);
  EXPECT_NEAR(turn(3).narrow(0, 1, 1).item<double>(), std::sin(3.0), 1e-15);
  EXPECT_NEAR(turn(40).dot(turn(33)).item<double>(), std::cos(7.0), 1e-14);
}

}  // namespace
}  // namespace sx
