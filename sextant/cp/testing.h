#pragma once

// What the tests of sx_cp share: flat attention by an explicit mask, and one rank's run of a
// layout.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sextant/cp/context_attention.h"
#include "sextant/nn/testing.h"

namespace sx::testing {

/// Largest difference over the largest value of `b`.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (b.numel() == 0) return 0;
  const double size = b.abs().max().item<double>();
  return max_difference(a, b) / (size == 0 ? 1 : size);
}

inline at::Tensor index_tensor(const std::vector<std::int64_t>& values) {
  return long_tensor(values, {static_cast<std::int64_t>(values.size())});
}

/// Which pairs of the row see each other, [S, S].
inline at::Tensor visible_pairs(const std::vector<std::int64_t>& documents,
                                const AttentionMask& mask) {
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    ids.insert(ids.end(), static_cast<std::size_t>(documents[i]), static_cast<std::int64_t>(i));
  }
  const at::Tensor id = index_tensor(ids), at = at::arange(id.size(0), at::kLong);
  const at::Tensor distance = at.unsqueeze(0) - at.unsqueeze(1);
  return distance.le(mask.right)
      .logical_and(distance.ge(-mask.left))
      .logical_and(id.unsqueeze(0).eq(id.unsqueeze(1)));
}

/// Scores of every pair, softmax, values; the sink is one more column without a value.
inline at::Tensor flat_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const std::vector<std::int64_t>& documents,
                                 const AttentionMask& mask, const at::Tensor& sink = {}) {
  const std::int64_t groups = q.size(2) / k.size(2), s = q.size(1);
  const auto heads_first = [&](const at::Tensor& x) {
    return x.repeat_interleave(groups, 2).transpose(1, 2);
  };
  at::Tensor scores = at::matmul(q.transpose(1, 2), heads_first(k).transpose(2, 3))
                          .div(std::sqrt(static_cast<double>(q.size(3))))
                          .masked_fill(visible_pairs(documents, mask).logical_not(),
                                       -std::numeric_limits<double>::infinity());
  if (sink.defined()) {
    scores = at::cat({scores, sink.view({1, -1, 1, 1}).expand({q.size(0), q.size(2), s, 1})}, -1);
  }
  return at::matmul(scores.softmax(-1).narrow(3, 0, s), heads_first(v)).transpose(1, 2);
}

struct CpCase {
  std::string name;
  SeqPartitionKind partition = SeqPartitionKind::kZigzag;
  std::vector<std::int64_t> documents;
  AttentionMask mask = AttentionMask::causal();
  std::int64_t query_heads = 4, key_heads = 2, rows = 1, head_dim = 6;
  bool sink = false;

  std::int64_t length() const {
    std::int64_t sum = 0;
    for (const std::int64_t n : documents) sum += n;
    return sum;
  }
};

/// Inputs, the weights of a scalar loss, and what flat attention makes of them in fp64.
struct FlatRun {
  at::Tensor q, k, v, weight, sink;
  at::Tensor out, dq, dk, dv, d_sink;
};

inline FlatRun flat_run(const CpCase& c) {
  const auto make = [&](const char* name, std::int64_t heads) {
    return random_normal(c.name + name, {c.rows, c.length(), heads, c.head_dim}, at::kDouble);
  };
  FlatRun run{make("q", c.query_heads),
              make("k", c.key_heads),
              make("v", c.key_heads),
              make("w", c.query_heads),
              {},
              {},
              {},
              {},
              {},
              {}};
  const auto leaf = [](const at::Tensor& x) { return x.clone().set_requires_grad(true); };
  const at::Tensor q = leaf(run.q), k = leaf(run.k), v = leaf(run.v);
  at::Tensor sink;
  if (c.sink) {
    run.sink = random_normal(c.name + "sink", {c.query_heads}, at::kDouble);
    sink = leaf(run.sink);
  }
  const at::Tensor out = flat_attention(q, k, v, c.documents, c.mask, sink);
  out.mul(run.weight).sum().backward();
  run.out = out.detach();
  run.dq = q.grad();
  run.dk = k.grad();
  run.dv = v.grad();
  if (c.sink) run.d_sink = sink.grad();
  return run;
}

/// The same on one rank.
struct RankRun {
  at::Tensor out, dq, dk, dv, d_sink;
};

inline RankRun rank_run(const CpCase& c, const FlatRun& flat, CpKind kind, CpComms& comms,
                        c10::ScalarType dtype = at::kDouble) {
  const auto plan =
      std::make_shared<const CpPlan>(c.partition, c.documents, comms.cp().degree(), c.mask);
  const at::Tensor own = index_tensor(plan->tokens(comms.cp().coord()));
  const auto leaf = [&](const at::Tensor& x) {
    return x.index_select(1, own).to(dtype).set_requires_grad(true);
  };
  const at::Tensor q = leaf(flat.q), k = leaf(flat.k), v = leaf(flat.v);
  at::Tensor sink;
  if (c.sink) sink = flat.sink.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  if (c.sink) sink.set_requires_grad(true);
  const ContextAttention attention(kind, plan, comms);
  const at::Tensor out = attention(q, k, v, sink);
  out.mul(flat.weight.index_select(1, own)).sum().backward();
  RankRun run{out.detach(), q.grad(), k.grad(), v.grad(), {}};
  if (c.sink) {
    run.d_sink = sink.grad().clone();
    comms.cp().start_all_reduce(run.d_sink, ReduceOp::kSum).wait();
  }
  return run;
}

}  // namespace sx::testing
