// The layer of experts on 1, 2, 4 and 8 ranks against the plain one on one process, in fp64:
// results, losses and every gradient, over kinds of dispatch, scores, capacity, padding, uneven and
// empty ranks, and expert tensor parallelism.
#include "sextant/ep/moe_layer.h"

#include "tests/equivalence/moe_plain.h"

namespace sx {
namespace {

using testing::MoeRanks;
using testing::PlainMoe;
using testing::random_normal;

struct Case {
  std::string name;
  ModelShape shape = testing::moe_shape();
  MoeOptions options;
  bool padding = false;
};

constexpr std::int64_t kLayerBatch = 2, kLayerTokens = 13;

std::vector<Case> cases() {
  std::vector<Case> all(6);
  for (Case& one : all) {
    one.options.router.dtype = c10::kDouble;
    one.options.balance.aux_coeff = 0.3;
    one.options.balance.z_coeff = 0.2;
  }
  all[0].name = "softmax";
  all[1].name = "gather";
  all[1].options.dispatch = DispatchKind::kAllGather;
  all[1].padding = true;
  all[2].name = "sigmoid, shared, padding";
  all[2].options.router.score = RouterScore::kSigmoid;
  all[2].options.router.topk_scale = 1.7;
  all[2].shape.num_shared_experts = 2;
  all[2].shape.shared_expert_hidden = 3;
  all[2].options.shared_gate = true;
  all[2].padding = true;
  all[3].name = "capacity by weight, padding";
  all[3].options.capacity = {.factor = 0.8};
  all[3].padding = true;
  all[4].name = "capacity by position, gather";
  all[4].options.capacity = {.factor = 0.7, .policy = CapacityPolicy::kPosition};
  all[4].options.dispatch = DispatchKind::kAllGather;
  all[5].name = "coordinate order, best of 8 alone";
  all[5].options.order = SumOrder::kCoordinate;
  all[5].shape = testing::moe_shape(8, 1);
  return all;
}

/// Everything of one pass, on all tokens.
struct Whole {
  at::Tensor x, real, g, y, dx;
  double aux = 0.0, z = 0.0;
  std::int64_t dropped = 0, tokens = 0;
  testing::WholeParameters weights, grads;
};

Whole plain_pass(const Case& test) {
  Whole whole;
  whole.x = random_normal("x", {kLayerBatch, kLayerTokens, test.shape.hidden}, c10::kDouble);
  whole.g = random_normal("g", {kLayerBatch, kLayerTokens, test.shape.hidden}, c10::kDouble);
  whole.real = at::ones({kLayerBatch, kLayerTokens}, c10::kDouble);
  if (test.padding) {
    whole.real.select(0, 0).narrow(0, 9, 4).fill_(0);
    whole.real.select(0, 1).narrow(0, 2, 1).fill_(0);
  }
  whole.tokens = whole.real.sum().item<std::int64_t>();
  whole.weights = testing::whole_parameters(test.shape, test.options, c10::kDouble);
  PlainMoe plain{test.shape, test.options, {}};
  for (const auto& [fqn, value] : whole.weights)
    plain.weights[fqn] = value.clone().set_requires_grad(true);
  at::Tensor x = whole.x.clone().set_requires_grad(true);
  const PlainMoe::Output out = plain.forward(x, whole.real);
  const at::Tensor loss = out.y_BSH.mul(whole.g)
                              .sum()
                              .add(out.aux, test.options.balance.aux_coeff)
                              .add(out.z, test.options.balance.z_coeff);
  torch::autograd::backward({loss}, {});
  whole.y = out.y_BSH.detach();
  whole.dx = x.grad();
  whole.aux = out.aux.item<double>();
  whole.z = out.z.item<double>();
  whole.dropped = out.dropped;
  for (const auto& [fqn, value] : plain.weights) whole.grads[fqn] = value.grad();
  return whole;
}

/// Own tokens of each rank: parts of every sequence, uneven, none on rank 1 of several.
std::vector<std::int64_t> cuts_for(std::int64_t n) {
  switch (n) {
    case 1: return {0, 13};
    case 2: return {0, 13, 13};
    case 4: return {0, 5, 5, 11, 13};
    default: return {0, 2, 2, 5, 6, 9, 9, 12, 13};
  }
}

void check_rank(Communicator& world, const Case& test, MoeRanks ranks, const Whole& whole) {
  testing::MoeComms comms = testing::make_comms(world, ranks);
  Module root;
  MoeLayer layer(root, "moe", test.shape, test.options, {comms.ep, comms.etp, world});
  root.allocate(c10::kDouble);
  for (Parameter* parameter : root.parameters()) {
    parameter->tensor.detach().copy_(testing::own_part(whole.weights.at(parameter->fqn),
                                                       parameter->fqn, ranks, comms.ep.coord(),
                                                       comms.etp.coord()));
  }
  const auto cuts = cuts_for(world.degree());
  const auto at = static_cast<std::size_t>(world.coord());
  const auto own = [&](const at::Tensor& t) {
    return t.narrow(1, cuts[at], cuts[at + 1] - cuts[at]).contiguous();
  };
  MoeContext context{.routed = {whole.tokens}};
  if (test.padding) context.padding_BS = own(whole.real).eq(0);
  at::Tensor x = own(whole.x).clone().set_requires_grad(true);
  const at::Tensor y = layer.forward(x, context);
  torch::autograd::backward({y}, {own(whole.g)});

  const std::string what = test.name + " " + ranks.name() + " rank " + std::to_string(at);
  // Against the scale of all tokens: a part may have none of the large values.
  const double scale = whole.y.abs().max().item<double>(),
               dscale = whole.dx.abs().max().item<double>();
  if (y.numel() > 0) {
    EXPECT_LE(testing::max_difference(y, own(whole.y)) / scale, 1e-12) << what;
    EXPECT_LE(testing::max_difference(x.grad(), own(whole.dx)) / dscale, 1e-11) << what;
  }
  for (Parameter* parameter : root.parameters()) {
    at::Tensor grad = parameter->tensor.grad().clone();
    ASSERT_TRUE(grad.defined()) << what << " " << parameter->fqn;
    const bool expert = parameter->fqn.find(".experts.") != std::string::npos;
    Communicator& others = expert ? comms.edp : world;
    if (others.degree() > 1) others.start_all_reduce(grad.view({-1}), ReduceOp::kSum).wait();
    const at::Tensor want = testing::own_part(whole.grads.at(parameter->fqn), parameter->fqn, ranks,
                                              comms.ep.coord(), comms.etp.coord());
    const double size = whole.grads.at(parameter->fqn).abs().max().item<double>();
    EXPECT_LE(testing::max_difference(grad, want) / size, 1e-11) << what << " " << parameter->fqn;
  }
  MoeStats stats = layer.take_stats();
  at::Tensor sums = at::empty({3}, c10::kDouble);
  sums[0] = stats.aux;
  sums[1] = stats.z;
  sums[2] = static_cast<double>(stats.dropped);
  if (world.degree() > 1) world.start_all_reduce(sums, ReduceOp::kSum).wait();
  EXPECT_NEAR(sums[0].item<double>(), whole.aux, 1e-12 * whole.aux) << what;
  EXPECT_NEAR(sums[1].item<double>(), whole.z, 1e-12 * whole.z) << what;
  EXPECT_EQ(sums[2].item<std::int64_t>(), whole.dropped) << what;
}

void check_layouts(std::span<const MoeRanks> layouts) {
  for (const Case& test : cases()) {
    const Whole whole = plain_pass(test);
    EXPECT_EQ(whole.dropped > 0, test.options.capacity.factor > 0) << test.name;
    for (const MoeRanks& ranks : layouts) {
      rank_test(ranks.size(), [&](Communicator& world) { check_rank(world, test, ranks, whole); });
    }
  }
}

TEST(MoeLayer, OneRankIsThePlainLayer) {
  const MoeRanks layouts[] = {{}};
  check_layouts(layouts);
}

TEST(MoeLayer, TwoAndFourRanksGiveThePlainLayer) {
  const MoeRanks layouts[] = {{.ep = 2},           {.edp = 2},          {.etp = 2},
                              {.ep = 4},           {.edp = 2, .ep = 2}, {.ep = 2, .etp = 2},
                              {.edp = 2, .etp = 2}};
  check_layouts(layouts);
}

TEST(MoeLayer, EightRanksGiveThePlainLayer) {
  const MoeRanks layouts[] = {{.ep = 8}, {.edp = 2, .ep = 4}, {.edp = 2, .ep = 2, .etp = 2}};
  check_layouts(layouts);
}

TEST(MoeLayer, BothKindsOfDispatchGiveTheSameBits) {
  for (const c10::ScalarType dtype : {c10::kDouble, c10::kFloat, c10::kBFloat16}) {
    ModelShape shape = testing::moe_shape(8, 4);
    rank_test(4, [&](Communicator& world) {
      testing::MoeComms comms = testing::make_comms(world, {.ep = 4});
      std::vector<std::vector<at::Tensor>> results;
      for (const DispatchKind kind : {DispatchKind::kAllToAll, DispatchKind::kAllGather}) {
        Module root;
        MoeOptions options{.dispatch = kind, .order = SumOrder::kCoordinate};
        MoeLayer layer(root, "moe", shape, options, {comms.ep, comms.etp, world});
        root.allocate(dtype);
        layer.init(3);
        at::Tensor x = random_normal("x" + std::to_string(world.coord()), {2, 5, 8}, dtype)
                           .set_requires_grad(true);
        const at::Tensor y = layer.forward(x, {.routed = {40}});
        torch::autograd::backward({y}, {random_normal("g", {2, 5, 8}, dtype)});
        results.push_back({y.detach(), x.grad()});
        for (Parameter* parameter : root.parameters())
          results.back().push_back(parameter->tensor.grad());
      }
      for (std::size_t i = 0; i < results[0].size(); ++i)
        EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i << " " << c10::toString(dtype);
    });
  }
}

TEST(MoeLayer, InitialValuesAndRunsAreTheSameAgain) {
  const ModelShape shape = testing::moe_shape();
  const auto run = [&] {
    Module root;
    Communicator solo = Communicator::solo();
    MoeLayer layer(root, "moe", shape, {}, {solo, solo, solo});
    root.allocate(c10::kFloat);
    layer.init(11);
    EXPECT_TRUE(uninitialized_parameters(root).empty());
    at::Tensor x = random_normal("x", {1, 9, 8}, c10::kFloat);
    return layer.forward(x, {.routed = {9}}).detach();
  };
  EXPECT_TRUE(at::equal(run(), run()));
}

TEST(MoeLayer, DeclaresWhereGradientsAreSummed) {
  ModelShape shape = testing::moe_shape();
  shape.num_shared_experts = 1;
  shape.shared_expert_hidden = 4;
  Module root;
  Communicator solo = Communicator::solo();
  MoeOptions options;
  options.router.score_bias = true;
  MoeLayer layer(root, "moe", shape, options, {solo, solo, solo});
  const auto plan = derive_grad_plan(layer.dense_uses(), layer.expert_uses());
  ASSERT_TRUE(plan);
  std::vector<std::string> lines;
  for (const GradReduction& line : *plan) lines.push_back(line.to_string());
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "moe.experts.down.weight: SUM over dp_replicate+edp",
                       "moe.experts.gate.weight: SUM over dp_replicate+edp",
                       "moe.experts.up.weight: SUM over dp_replicate+edp",
                       "moe.router.weight: SUM over dp_replicate+dp_shard+cp+tp",
                       "moe.shared.down.weight: SUM over dp_replicate+dp_shard+cp+tp",
                       "moe.shared.gate.weight: SUM over dp_replicate+dp_shard+cp+tp",
                       "moe.shared.up.weight: SUM over dp_replicate+dp_shard+cp+tp"}));
}

}  // namespace
}  // namespace sx
