// What the number of ranks does to the error. The ranks of the ring are played one after another in
// one process: the same blocks in the same order as on threads.
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sextant/cp/testing.h"
#include "sextant/nn/attention.h"

namespace sx {
namespace {

using testing::CpCase;
using testing::FlatRun;

struct Errors {
  double out = 0, dq = 0, dk = 0, dv = 0;  ///< root mean squares, relative to the values'
};

double rms_error(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b).norm() / b.norm()).item<double>();
}

Errors played_ring(const CpCase& c, const FlatRun& flat, std::int64_t degree, c10::ScalarType dtype,
                   BlockDtype block_dtype) {
  const CpPlan plan(c.partition, c.documents, degree, c.mask);
  const BlockOptions options{c.mask, block_dtype, whole_heads(flat.q, flat.k)};
  at::Tensor out = at::zeros_like(flat.q).to(dtype), dq = at::zeros_like(out);
  at::Tensor dk = at::zeros_like(flat.k).to(dtype), dv = at::zeros_like(dk);
  std::vector<AttentionGrads> traveling(static_cast<std::size_t>(degree));
  std::vector<AttentionState> states;
  const auto part = [&](const at::Tensor& x, std::int64_t r) {
    return x.index_select(1, testing::index_tensor(plan.tokens(r))).to(dtype);
  };
  const auto zeros = [&](const at::Tensor& x) { return at::zeros_like(x).to(merge_dtype(dtype)); };
  for (std::int64_t r = 0; r < degree; ++r) {
    states.push_back(empty_state(part(flat.q, r)));
    for (const std::int64_t step : plan.ring_steps()) {
      const std::int64_t s = (r - step + degree) % degree;
      attend(states.back(), part(flat.q, r), part(flat.k, s), part(flat.v, s), plan.blocks(r, s),
             options);
    }
    states.back().out_BTND = states.back().out_BTND.to(dtype);
    traveling[static_cast<std::size_t>(r)] = {zeros(part(flat.q, r)), zeros(part(flat.k, r)),
                                              zeros(part(flat.v, r))};
    out.index_copy_(1, testing::index_tensor(plan.tokens(r)), states.back().out_BTND);
  }
  for (const std::int64_t step : plan.ring_steps()) {
    for (std::int64_t r = 0; r < degree; ++r) {
      const std::int64_t s = (r - step + degree) % degree;
      const AttentionGrads& held = traveling[static_cast<std::size_t>(s)];
      AttentionGrads sums{traveling[static_cast<std::size_t>(r)].q, held.k, held.v};
      attend_backward(sums, part(flat.weight, r), part(flat.q, r), part(flat.k, s), part(flat.v, s),
                      states[static_cast<std::size_t>(r)], plan.blocks(r, s), options);
    }
  }
  for (std::int64_t r = 0; r < degree; ++r) {
    const at::Tensor own = testing::index_tensor(plan.tokens(r));
    const AttentionGrads& g = traveling[static_cast<std::size_t>(r)];
    dq.index_copy_(1, own, g.q.to(dtype));
    dk.index_copy_(1, own, g.k.to(dtype));
    dv.index_copy_(1, own, g.v.to(dtype));
  }
  return {rms_error(out, flat.out), rms_error(dq, flat.dq), rms_error(dk, flat.dk),
          rms_error(dv, flat.dv)};
}

CpCase accuracy_case() {
  return {.name = "accuracy", .documents = {512}, .query_heads = 2, .key_heads = 1, .head_dim = 16};
}

// Results: one rounding at the end, whatever c is. Gradients of keys are sums of c terms in fp32;
// the roundings of these additions are what little is left (a quarter more from c = 2 to 16).
TEST(CpAccuracy, ErrorDoesNotGrowWithTheNumberOfRanks) {
  const CpCase c = accuracy_case();
  const FlatRun flat = testing::flat_run(c);
  const Errors two = played_ring(c, flat, 2, at::kFloat, BlockDtype::kFp32);
  for (std::int64_t degree = 3; degree <= 16; ++degree) {
    const Errors e = played_ring(c, flat, degree, at::kFloat, BlockDtype::kFp32);
    EXPECT_LE(e.out, 1.15 * two.out) << degree;
    EXPECT_LE(e.dq, 1.4 * two.dq) << degree;
    EXPECT_LE(e.dk, 1.4 * two.dk) << degree;
    EXPECT_LE(e.dv, 1.4 * two.dv) << degree;
  }
  EXPECT_LE(two.out, 1e-6);
}

/// bf16 in one process, by the flat kernel, against the same fp64.
Errors flat_bf16(const CpCase& c, const FlatRun& flat) {
  const auto leaf = [](const at::Tensor& x) { return x.to(at::kBFloat16).set_requires_grad(true); };
  const at::Tensor q = leaf(flat.q), k = leaf(flat.k), v = leaf(flat.v);
  const at::Tensor out = causal_attention(q, k, v, whole_rows(c.rows, c.length()));
  out.mul(flat.weight.to(at::kBFloat16)).sum().backward();
  return {rms_error(out.detach(), flat.out), rms_error(q.grad(), flat.dq),
          rms_error(k.grad(), flat.dk), rms_error(v.grad(), flat.dv)};
}

TEST(CpAccuracy, SixteenBitsAreAsGoodAsOnOneRank) {
  const CpCase c = accuracy_case();
  const FlatRun flat = testing::flat_run(c);
  const Errors one = flat_bf16(c, flat);
  for (const BlockDtype block_dtype : {BlockDtype::kFp32, BlockDtype::kNative}) {
    for (const std::int64_t degree : {2, 5, 8, 16}) {
      const Errors e = played_ring(c, flat, degree, at::kBFloat16, block_dtype);
      const std::string where = std::to_string(degree) + " ranks, " +
                                (block_dtype == BlockDtype::kNative ? "native" : "fp32");
      EXPECT_LE(e.out, 1.25 * one.out) << where;
      EXPECT_LE(e.dq, 1.25 * one.dq) << where;
      EXPECT_LE(e.dk, 1.25 * one.dk) << where;
      EXPECT_LE(e.dv, 1.25 * one.dv) << where;
    }
  }
}

}  // namespace
}  // namespace sx
