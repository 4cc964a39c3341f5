#include "sextant/cp/context_attention.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/cp/merge.h"
#include "sextant/cp/routes.h"
#include "sextant/nn/attention.h"

namespace sx {

/// Heads are scattered first (Ulysses, hybrid) or not, then keys go round or are gathered.
struct ContextAttention::Routes {
  std::shared_ptr<const CpPlan> plan;
  std::int64_t coord = 0;
  BlockDtype block_dtype = BlockDtype::kFp32;
  std::optional<ScatterRoute> scatter;
  std::optional<RingRoute> ring;
  std::optional<GatherRoute> gather;
  std::vector<AttentionSegment> segments;  ///< where this is plain causal attention

  AttentionState forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const BlockOptions& options) const {
    return gather ? gather_forward(*gather, q, k, v, options)
                  : ring_forward(*ring, q, k, v, options);
  }
  AttentionGrads backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const AttentionState& state,
                          const BlockOptions& options) const {
    return gather ? gather_backward(*gather, grad, q, k, v, state, options)
                  : ring_backward(*ring, grad, q, k, v, state, options);
  }
  BlockOptions options_for(std::vector<HeadRun> heads) const {
    return {plan->mask(), block_dtype, std::move(heads)};
  }
};

struct ContextAttention::Function : torch::autograd::Function<ContextAttention::Function> {
  using Context = torch::autograd::AutogradContext;
  using Holder = c10::intrusive_ptr<torch::CustomClassHolder>;

  /// The routes behind a capsule, shared with whoever made them.
  struct Capsule : torch::CustomClassHolder {
    explicit Capsule(std::shared_ptr<const Routes> r) : routes(std::move(r)) {}
    std::shared_ptr<const Routes> routes;
  };

  /// The sink is optional because an undefined tensor is no legal argument.
  static at::Tensor forward(Context* ctx, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& maybe_sink,
                            const Holder& holder) {
    const at::Tensor sink = maybe_sink.value_or(at::Tensor());
    const Routes& routes = *static_cast<Capsule&>(*holder).routes;
    ctx->saved_data["routes"] = c10::IValue::make_capsule(holder);
    ctx->saved_data["heads"] = std::vector<std::int64_t>{q.size(2), k.size(2)};
    return routes.scatter ? forward_by_heads(ctx, routes, q, k, v, sink)
                          : forward_in_place(ctx, routes, q, k, v, sink);
  }

  static at::Tensor forward_in_place(Context* ctx, const Routes& routes, const at::Tensor& q,
                                     const at::Tensor& k, const at::Tensor& v,
                                     const at::Tensor& sink) {
    const AttentionState state = routes.forward(q, k, v, routes.options_for(whole_heads(q, k)));
    if (sink.defined()) {
      merge_sink(state.out_BTND, state.lse_BTN, sink.to(state.lse_BTN.scalar_type()));
    }
    const at::Tensor out = state.out_BTND.to(q.scalar_type());
    ctx->save_for_backward({q, k, v, out, state.lse_BTN, sink});
    return out;
  }

  static at::Tensor forward_by_heads(Context* ctx, const Routes& routes, const at::Tensor& q,
                                     const at::Tensor& k, const at::Tensor& v,
                                     const at::Tensor& sink) {
    const ScatterRoute& scatter = *routes.scatter;
    const HeadShares shares(q.size(2), k.size(2), scatter.comm->degree());
    const std::array<at::Tensor, 3> inputs = {q, k, v};
    const std::array<HeadSplit, 3> splits = {shares.query, shares.key, shares.key};
    const std::vector<at::Tensor> own = scatter_heads(scatter, inputs, splits);
    const AttentionState state =
        routes.forward(own[0], own[1], own[2], routes.options_for(shares.runs(member(scatter))));
    if (sink.defined()) {
      merge_sink(state.out_BTND, state.lse_BTN,
                 own_part(sink, shares, scatter).to(state.lse_BTN.scalar_type()));
    }
    const std::array<at::Tensor, 1> outs = {state.out_BTND.to(q.scalar_type())};
    ctx->save_for_backward({own[0], own[1], own[2], outs[0], state.lse_BTN, sink});
    return gather_heads(scatter, outs, std::array{shares.query}, q.scalar_type())[0];
  }

  static torch::autograd::variable_list backward(Context* ctx,
                                                 torch::autograd::variable_list grads) {
    const Holder holder = ctx->saved_data["routes"].toCapsule();
    const Routes& routes = *static_cast<Capsule&>(*holder).routes;
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &sink = saved[5];
    const AttentionState state{saved[3], saved[4]};
    if (!routes.scatter) {
      const at::Tensor grad = grads[0].contiguous();
      const AttentionGrads d =
          routes.backward(grad, q, k, v, state, routes.options_for(whole_heads(q, k)));
      at::Tensor d_sink;
      if (sink.defined()) d_sink = gradient_of(sink, grad, state);
      return {d.q.to(q.scalar_type()), d.k.to(k.scalar_type()), d.v.to(v.scalar_type()), d_sink,
              at::Tensor()};
    }
    const ScatterRoute& scatter = *routes.scatter;
    const std::vector<std::int64_t> heads = ctx->saved_data["heads"].toIntVector();
    const HeadShares shares(heads[0], heads[1], scatter.comm->degree());
    const std::array<at::Tensor, 1> outer = {grads[0].to(q.scalar_type())};
    const at::Tensor grad = scatter_heads(scatter, outer, std::array{shares.query})[0];
    const AttentionGrads d =
        routes.backward(grad, q, k, v, state, routes.options_for(shares.runs(member(scatter))));
    const std::array<at::Tensor, 3> parts = {d.q, d.k, d.v};
    const std::array<HeadSplit, 3> splits = {shares.query, shares.key, shares.key};
    const std::vector<at::Tensor> home = gather_heads(scatter, parts, splits, q.scalar_type());
    at::Tensor d_sink;
    if (sink.defined()) {
      d_sink = at::zeros_like(sink);
      own_part(d_sink, shares, scatter)
          .copy_(gradient_of(own_part(sink, shares, scatter), grad, state));
    }
    return {home[0], home[1], home[2], d_sink, at::Tensor()};
  }

  static std::int64_t member(const ScatterRoute& scatter) { return scatter.comm->coord(); }
  static at::Tensor own_part(const at::Tensor& x_N, const HeadShares& shares,
                             const ScatterRoute& scatter) {
    const auto [first, count] = shares.query[static_cast<std::size_t>(member(scatter))];
    return x_N.narrow(0, first, count);
  }
  static at::Tensor gradient_of(const at::Tensor& sink, const at::Tensor& grad,
                                const AttentionState& state) {
    return sink_gradient(grad, state.out_BTND, state.lse_BTN, sink.to(state.lse_BTN.scalar_type()))
        .to(sink.scalar_type());
  }
};

namespace {

std::vector<AttentionSegment> segments_of(const CpPlan& plan) {
  std::vector<AttentionSegment> segments;
  for (const SeqPiece& piece : plan.row_pieces()) {
    segments.push_back({0, 1, piece.index, piece.length});
  }
  return segments;
}

}  // namespace

ContextAttention::ContextAttention(CpKind kind, std::shared_ptr<const CpPlan> plan, CpComms& comms,
                                   BlockDtype block_dtype) {
  Communicator& cp = comms.cp();
  SX_CHECK(plan->degree() == cp.degree(), "a plan for {} ranks on {}", plan->degree(), cp.degree());
  auto routes = std::make_shared<Routes>();
  routes->plan = plan;
  routes->coord = cp.coord();
  routes->block_dtype = block_dtype;
  if (cp.degree() == 1 && plan->mask().is_causal()) routes->segments = segments_of(*plan);
  const std::int64_t inner = kind == CpKind::kUlysses  ? cp.degree()
                             : kind == CpKind::kHybrid ? comms.inner_degree()
                                                       : 1;
  if (kind == CpKind::kAllGather) {
    routes->gather.emplace(std::move(plan), cp);
  } else if (inner == 1) {
    routes->ring.emplace(std::move(plan), cp);
  } else {
    auto joined = std::make_shared<const CpPlan>(plan->joined(inner));
    const bool all = inner == cp.degree();
    routes->scatter.emplace(std::move(plan), *joined, cp.coord() / inner * inner,
                            all ? cp : comms.inner());
    routes->ring.emplace(std::move(joined), all ? comms.solo() : comms.outer());
  }
  routes_ = std::move(routes);
}

ContextAttention::~ContextAttention() = default;
ContextAttention::ContextAttention(ContextAttention&&) noexcept = default;
ContextAttention& ContextAttention::operator=(ContextAttention&&) noexcept = default;

const CpPlan& ContextAttention::plan() const { return *routes_->plan; }

at::Tensor ContextAttention::operator()(const at::Tensor& q_BTND, const at::Tensor& k_BTGD,
                                        const at::Tensor& v_BTGD, const at::Tensor& sink_N) const {
  const std::int64_t tokens = routes_->plan->num_tokens(routes_->coord);
  SX_CHECK(q_BTND.dim() == 4 && k_BTGD.dim() == 4 && k_BTGD.sizes() == v_BTGD.sizes(),
           "attention takes q [B, T, N, D] and k, v [B, T, G, D]");
  SX_CHECK(q_BTND.size(0) == k_BTGD.size(0) && q_BTND.size(3) == k_BTGD.size(3) &&
               q_BTND.scalar_type() == k_BTGD.scalar_type() &&
               k_BTGD.scalar_type() == v_BTGD.scalar_type(),
           "q, k and v differ in B, D or dtype");
  SX_CHECK(q_BTND.size(1) == tokens && k_BTGD.size(1) == tokens,
           "{} queries and {} keys where the plan gives this rank {} tokens", q_BTND.size(1),
           k_BTGD.size(1), tokens);
  SX_CHECK(k_BTGD.size(2) >= 1 && q_BTND.size(2) % k_BTGD.size(2) == 0,
           "{} query heads over {} key heads", q_BTND.size(2), k_BTGD.size(2));
  SX_CHECK(!sink_N.defined() || (sink_N.dim() == 1 && sink_N.size(0) == q_BTND.size(2)),
           "a sink is one number per query head");
  if (!routes_->segments.empty() && !sink_N.defined() && q_BTND.is_cpu()) {
    std::vector<AttentionSegment> segments = routes_->segments;
    for (AttentionSegment& s : segments) s.num_rows = q_BTND.size(0);
    return causal_attention(q_BTND, k_BTGD, v_BTGD, segments);
  }
  const c10::intrusive_ptr<torch::CustomClassHolder> holder =
      c10::make_intrusive<Function::Capsule>(routes_);
  const std::optional<at::Tensor> sink =
      sink_N.defined() ? std::optional<at::Tensor>(sink_N) : std::nullopt;
  return Function::apply(q_BTND, k_BTGD, v_BTGD, sink, holder);
}

}  // namespace sx
