#include "sextant/cp/block_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <optional>

#include "sextant/base/check.h"
#include "sextant/cp/merge.h"

namespace sx {
namespace {

using Kind = AttentionBlock::Kind;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// 0 where a query sees a key and -inf where not, [1, 1, Q, K].
at::Tensor additive_mask(const AttentionBlock& block, const AttentionMask& mask,
                         const at::TensorOptions& options) {
  const at::TensorOptions index = options.dtype(at::kLong);
  const std::int64_t right = block.kind == Kind::kCausal ? 0 : mask.right;
  const std::int64_t left = block.kind == Kind::kCausal ? AttentionMask::kUnlimited : mask.left;
  const at::Tensor distance = at::arange(block.num_keys, index).unsqueeze(0) -
                              at::arange(block.num_queries, index).unsqueeze(1) + block.shift;
  const at::Tensor hidden = distance.gt(right).logical_or_(distance.lt(-left));
  return at::zeros({1, 1, block.num_queries, block.num_keys}, options)
      .masked_fill_(hidden, -kInfinity);
}

/// [B, T, H, D] as the kernels want it: [B, H, T, D], a view where no promotion is asked.
at::Tensor heads_first(const at::Tensor& x, std::int64_t first, std::int64_t count,
                       c10::ScalarType dtype) {
  return x.narrow(2, first, count).transpose(1, 2).to(dtype);
}

c10::ScalarType kernel_dtype(const at::Tensor& q, const BlockOptions& options) {
  const bool native = options.dtype == BlockDtype::kNative || !q.is_cpu();
  return native ? q.scalar_type() : merge_dtype(q.scalar_type());
}

struct Composed {
  at::Tensor q, k, v;  ///< [B, G, N/G Q, D], [B, G, K, D], merge dtype
  at::Tensor scores;   ///< [B, G, N/G, Q, K], masked
};

/// Query heads of one group lie behind each other, so that keys are not repeated.
at::Tensor group_rows(const at::Tensor& x_BNQD, std::int64_t groups) {
  return x_BNQD.reshape(
      {x_BNQD.size(0), groups, x_BNQD.size(1) / groups * x_BNQD.size(2), x_BNQD.size(3)});
}

Composed composed_scores(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const AttentionBlock& block, const AttentionMask& mask) {
  const c10::ScalarType dtype = merge_dtype(q.scalar_type());
  const std::int64_t groups = k.size(1), per_group = q.size(1) / groups;
  Composed c{group_rows(q.to(dtype), groups), k.to(dtype), v.to(dtype), {}};
  c.scores = at::matmul(c.q, c.k.transpose(2, 3))
                 .mul_(1 / std::sqrt(static_cast<double>(q.size(3))))
                 .view({q.size(0), groups, per_group, q.size(2), k.size(2)});
  if (block.kind != Kind::kFull) {
    c.scores.add_(additive_mask(block, mask, c.scores.options()).unsqueeze(0));
  }
  return c;
}

AttentionState forward_run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionBlock& block, const AttentionMask& mask) {
  if (q.is_cpu()) {
    std::optional<at::Tensor> bias;
    if (block.kind == Kind::kBand) bias = additive_mask(block, mask, q.options());
    auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, block.kind == Kind::kCausal, bias);
    return {out.transpose(1, 2), lse.transpose(1, 2)};
  }
  const Composed c = composed_scores(q, k, v, block, mask);
  const at::Tensor lse = at::logsumexp(c.scores, at::IntArrayRef{-1});
  const at::Tensor weights = (c.scores - lse.unsqueeze(-1)).exp_();
  const at::Tensor out = at::matmul(weights.flatten(2, 3), c.v);
  return {out.view({q.size(0), q.size(1), q.size(2), v.size(3)}).transpose(1, 2),
          lse.flatten(1, 2).transpose(1, 2)};
}

/// All arguments heads first.
AttentionGrads backward_run(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                            const AttentionBlock& block, const AttentionMask& mask) {
  if (q.is_cpu()) {
    std::optional<at::Tensor> bias;
    if (block.kind == Kind::kBand) bias = additive_mask(block, mask, q.options());
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, lse, 0.0, block.kind == Kind::kCausal, bias);
    return {dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)};
  }
  const Composed c = composed_scores(q, k, v, block, mask);
  const std::int64_t groups = k.size(1);
  const auto rows = [&](const at::Tensor& x_BNQ) {
    return x_BNQ.to(c.q.scalar_type()).reshape({q.size(0), groups, q.size(1) / groups, q.size(2)});
  };
  const at::Tensor grad_rows = group_rows(grad.to(c.q.scalar_type()), groups);
  const at::Tensor weights = (c.scores - rows(lse).unsqueeze(-1)).exp_();
  const at::Tensor delta = rows((grad.to(c.q.scalar_type()) * out).sum(-1));
  const at::Tensor dv = at::matmul(weights.flatten(2, 3).transpose(2, 3), grad_rows);
  const at::Tensor ds = at::matmul(grad_rows, c.v.transpose(2, 3))
                            .view(weights.sizes())
                            .sub_(delta.unsqueeze(-1))
                            .mul_(weights)
                            .mul_(1 / std::sqrt(static_cast<double>(q.size(3))))
                            .flatten(2, 3);
  const at::Tensor dq = at::matmul(ds, c.k).view(q.sizes());
  return {dq.transpose(1, 2), at::matmul(ds.transpose(2, 3), c.q).transpose(1, 2),
          dv.transpose(1, 2)};
}

void check_block(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const AttentionBlock& block) {
  SX_CHECK(q.dim() == 4 && k.dim() == 4 && v.sizes() == k.sizes() && q.size(3) == k.size(3),
           "blocks are [B, T, heads, D] with one D");
  SX_CHECK(q.size(1) == block.num_queries && k.size(1) == block.num_keys && q.size(0) == k.size(0),
           "a block of {} x {} given {} queries and {} keys", block.num_queries, block.num_keys,
           q.size(1), k.size(1));
}

}  // namespace

std::vector<HeadRun> whole_heads(const at::Tensor& q_BTND, const at::Tensor& k_BTGD) {
  const std::int64_t n = q_BTND.size(2), g = k_BTGD.size(2);
  SX_CHECK(g >= 1 && n % g == 0, "{} query heads over {} key heads", n, g);
  return {{0, n, 0, g}};
}

c10::ScalarType merge_dtype(c10::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

AttentionState empty_state(const at::Tensor& q_BTND) {
  const at::TensorOptions options = q_BTND.options().dtype(merge_dtype(q_BTND.scalar_type()));
  return {at::zeros(q_BTND.sizes(), options),
          at::full({q_BTND.size(0), q_BTND.size(1), q_BTND.size(2)}, -kInfinity, options)};
}

AttentionState block_attention(const at::Tensor& q_BQND, const at::Tensor& k_BKGD,
                               const at::Tensor& v_BKGD, const AttentionBlock& block,
                               const BlockOptions& options) {
  check_block(q_BQND, k_BKGD, v_BKGD, block);
  if (q_BQND.numel() == 0 || k_BKGD.numel() == 0) return empty_state(q_BQND);
  const c10::ScalarType inner = kernel_dtype(q_BQND, options);
  const c10::ScalarType merged = merge_dtype(q_BQND.scalar_type());
  const auto run = [&](const HeadRun& h) {
    AttentionState state =
        forward_run(heads_first(q_BQND, h.query, h.num_query, inner),
                    heads_first(k_BKGD, h.key, h.num_key, inner),
                    heads_first(v_BKGD, h.key, h.num_key, inner), block, options.mask);
    return AttentionState{state.out_BTND.to(merged), state.lse_BTN.to(merged)};
  };
  if (options.heads.size() == 1) return run(options.heads[0]);
  AttentionState whole = empty_state(q_BQND);
  for (const HeadRun& h : options.heads) {
    const AttentionState part = run(h);
    whole.out_BTND.narrow(2, h.query, h.num_query).copy_(part.out_BTND);
    whole.lse_BTN.narrow(2, h.query, h.num_query).copy_(part.lse_BTN);
  }
  return whole;
}

AttentionGrads block_attention_backward(const at::Tensor& grad_BQND, const at::Tensor& q_BQND,
                                        const at::Tensor& k_BKGD, const at::Tensor& v_BKGD,
                                        const AttentionState& state, const AttentionBlock& block,
                                        const BlockOptions& options) {
  check_block(q_BQND, k_BKGD, v_BKGD, block);
  const c10::ScalarType inner = kernel_dtype(q_BQND, options);
  const at::TensorOptions merged = q_BQND.options().dtype(merge_dtype(q_BQND.scalar_type()));
  const auto run = [&](const HeadRun& h) {
    const at::Tensor lse = state.lse_BTN.narrow(2, h.query, h.num_query).transpose(1, 2);
    AttentionGrads g = backward_run(
        heads_first(grad_BQND, h.query, h.num_query, inner),
        heads_first(q_BQND, h.query, h.num_query, inner),
        heads_first(k_BKGD, h.key, h.num_key, inner), heads_first(v_BKGD, h.key, h.num_key, inner),
        heads_first(state.out_BTND, h.query, h.num_query, inner), lse, block, options.mask);
    return AttentionGrads{g.q.to(merged.dtype()), g.k.to(merged.dtype()), g.v.to(merged.dtype())};
  };
  const bool empty = q_BQND.numel() == 0 || k_BKGD.numel() == 0;
  if (!empty && options.heads.size() == 1) return run(options.heads[0]);
  AttentionGrads whole{at::zeros(q_BQND.sizes(), merged), at::zeros(k_BKGD.sizes(), merged),
                       at::zeros(v_BKGD.sizes(), merged)};
  if (empty) return whole;
  for (const HeadRun& h : options.heads) {
    const AttentionGrads part = run(h);
    whole.q.narrow(2, h.query, h.num_query).copy_(part.q);
    whole.k.narrow(2, h.key, h.num_key).add_(part.k);
    whole.v.narrow(2, h.key, h.num_key).add_(part.v);
  }
  return whole;
}

void attend(AttentionState& state, const at::Tensor& q_BTND, const at::Tensor& k_BKGD,
            const at::Tensor& v_BKGD, std::span<const AttentionBlock> blocks,
            const BlockOptions& options) {
  if (q_BTND.numel() == 0) return;
  for (const AttentionBlock& b : blocks) {
    const AttentionState part = block_attention(q_BTND.narrow(1, b.query, b.num_queries),
                                                k_BKGD.narrow(1, b.key, b.num_keys),
                                                v_BKGD.narrow(1, b.key, b.num_keys), b, options);
    merge_attention(state.out_BTND.narrow(1, b.query, b.num_queries),
                    state.lse_BTN.narrow(1, b.query, b.num_queries), part.out_BTND, part.lse_BTN);
  }
}

void attend_backward(AttentionGrads& grads, const at::Tensor& grad_BTND, const at::Tensor& q_BTND,
                     const at::Tensor& k_BKGD, const at::Tensor& v_BKGD,
                     const AttentionState& state, std::span<const AttentionBlock> blocks,
                     const BlockOptions& options) {
  if (q_BTND.numel() == 0) return;
  for (const AttentionBlock& b : blocks) {
    const auto queries = [&](const at::Tensor& x) { return x.narrow(1, b.query, b.num_queries); };
    const auto keys = [&](const at::Tensor& x) { return x.narrow(1, b.key, b.num_keys); };
    const AttentionGrads part =
        block_attention_backward(queries(grad_BTND), queries(q_BTND), keys(k_BKGD), keys(v_BKGD),
                                 {queries(state.out_BTND), queries(state.lse_BTN)}, b, options);
    queries(grads.q).add_(part.q);
    keys(grads.k).add_(part.k);
    keys(grads.v).add_(part.v);
  }
}

}  // namespace sx
