// What users of other programs reported about experts, one test each, named after the report.
#include "sextant/ep/expert_faults.h"
#include "sextant/ep/moe_layer.h"
#include "sextant/nn/recompute.h"
#include "tests/equivalence/moe_plain.h"

namespace sx {
namespace {

using testing::random_normal;

MoeOptions double_options() {
  MoeOptions options;
  options.router.dtype = c10::kDouble;
  return options;
}

/// Sets every parameter of a layer "moe" from whole ones.
void set_weights(Module& root, const testing::WholeParameters& whole, testing::MoeRanks ranks,
                 std::int64_t ep) {
  for (Parameter* parameter : root.parameters()) {
    if (!parameter->trainable) continue;
    parameter->tensor.detach().copy_(
        testing::own_part(whole.at(parameter->fqn), parameter->fqn, ranks, ep, 0));
  }
}

// Megatron-LM #1877, NeMo Automodel PR #3680, transformers PR #48205.
TEST(ExpertComplaints, EmptyExpertsAndRanksWithoutTokens) {
  const ModelShape shape = testing::moe_shape(8, 1);
  auto whole = testing::whole_parameters(shape, double_options(), c10::kDouble);
  // Expert 2 wins for every token: its row of the gate answers the constant first feature.
  whole["moe.router.weight"].zero_();
  whole["moe.router.weight"][2][0] = 5.0;
  for (const DispatchKind kind : {DispatchKind::kAllToAll, DispatchKind::kAllGather}) {
    rank_test(4, [&](Communicator& world) {
      testing::MoeComms comms = testing::make_comms(world, {.ep = 4});
      Module root;
      MoeOptions options = double_options();
      options.dispatch = kind;
      options.balance.aux_coeff = 0.1;
      MoeLayer layer(root, "moe", shape, options, {comms.ep, comms.etp, world});
      root.allocate(c10::kDouble);
      set_weights(root, whole, {.ep = 4}, world.coord());
      const std::int64_t tokens = world.coord() == 3 ? 0 : 4;
      at::Tensor x =
          random_normal("x" + std::to_string(world.coord()), {1, tokens, 8}, c10::kDouble);
      x.select(2, 0).fill_(1.0);
      x.set_requires_grad(true);
      for (int again = 0; again < 2; ++again) {
        const at::Tensor y = layer.forward(x, {.routed = {12}});
        EXPECT_EQ(y.size(1), tokens);
        torch::autograd::backward({y.sum()}, {});
        EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
      }
      for (Parameter* parameter : root.parameters()) {
        const at::Tensor& grad = parameter->tensor.grad();
        ASSERT_TRUE(grad.defined()) << parameter->fqn;
        EXPECT_EQ(grad.sizes(), at::IntArrayRef(parameter->shape));
        EXPECT_TRUE(grad.isfinite().all().item<bool>());
        if (parameter->fqn.find(".experts.") == std::string::npos) continue;
        for (std::int64_t e = 0; e < 2; ++e) {
          const bool busy = world.coord() * 2 + e == 2;
          EXPECT_EQ(grad.select(0, e).abs().max().item<double>() > 0, busy) << parameter->fqn;
        }
      }
      EXPECT_EQ(layer.take_stats().choices[2], 2 * tokens);
    });
  }
}

// Megatron-LM PR #5916, #785, #2263.
TEST(ExpertComplaints, NormOfTheGradientCountsEveryExpertOnce) {
  const ModelShape shape = testing::moe_shape();
  const auto whole = testing::whole_parameters(shape, double_options(), c10::kDouble);
  const at::Tensor x_all = random_normal("x", {4, 6, 8}, c10::kDouble);
  const auto squares = [&](Communicator& world, testing::MoeRanks ranks) {
    testing::MoeComms comms = testing::make_comms(world, ranks);
    Communicator alone = Communicator::solo();
    Module root;
    MoeLayer layer(root, "moe", shape, double_options(), {comms.ep, comms.etp, alone});
    root.allocate(c10::kDouble);
    set_weights(root, whole, ranks, comms.ep.coord());
    const std::int64_t rows = 4 / world.degree();
    const at::Tensor y =
        layer.forward(x_all.narrow(0, world.coord() * rows, rows), {.routed = {24}});
    torch::autograd::backward({y.square().sum()}, {});
    at::Tensor sum = at::zeros({1}, c10::kDouble);
    for (Parameter* parameter : root.parameters()) {
      at::Tensor grad = parameter->tensor.grad();
      const bool expert = parameter->fqn.find(".experts.") != std::string::npos;
      Communicator& others = expert ? comms.edp : world;
      if (others.degree() > 1) others.start_all_reduce(grad.view({-1}), ReduceOp::kSum).wait();
      if (expert ? comms.edp.coord() == 0 : world.coord() == 0) sum.add_(grad.square().sum());
    }
    if (world.degree() > 1) world.start_all_reduce(sum, ReduceOp::kSum).wait();
    return sum.item<double>();
  };
  Communicator solo = Communicator::solo();
  const double want = squares(solo, {});
  for (const testing::MoeRanks ranks :
       {testing::MoeRanks{.ep = 2}, {.ep = 4}, {.edp = 2, .ep = 2}, {.edp = 4}}) {
    rank_test(ranks.size(), [&](Communicator& world) {
      EXPECT_NEAR(squares(world, ranks) / want, 1.0, 1e-11) << ranks.name();
    });
  }
}

/// Gradient of the router from the balance losses alone, over a global batch of 4 sequences cut
/// into ranks x microbatches; and the sum of the auxiliary losses.
struct Aux {
  double loss = 0.0;
  at::Tensor grad;
};
Aux aux_of(Communicator& world, std::int64_t microbatches, AuxScope scope, const at::Tensor& x_all,
           const at::Tensor& padding) {
  const ModelShape shape = testing::moe_shape();
  Module root;
  MoeOptions options = double_options();
  options.balance = {.scope = scope, .aux_coeff = 1.0, .z_coeff = 0.5};
  Communicator a = Communicator::solo(), b = Communicator::solo(), c = Communicator::solo();
  MoeLayer layer(root, "moe", shape, options, {a, b, c});
  root.allocate(c10::kDouble);
  set_weights(root, testing::whole_parameters(shape, options, c10::kDouble), {}, 0);
  const std::int64_t rows = 4 / world.degree() / microbatches;
  Aux out;
  for (int step = 0; step < 2; ++step) {  // the second with the first's shares
    root.parameter("moe.router.weight").tensor.mutable_grad() = at::Tensor();
    layer.take_stats();
    for (std::int64_t m = 0; m < microbatches; ++m) {
      const std::int64_t first = (world.coord() * microbatches + m) * rows;
      const MoeContext context{.padding_BS = padding.narrow(0, first, rows),
                               .routed = {padding.logical_not().sum().item<std::int64_t>()},
                               .num_microbatches = microbatches};
      const at::Tensor y = layer.forward(x_all.narrow(0, first, rows), context);
      torch::autograd::backward({y}, {at::zeros_like(y)});
    }
    layer.finish_step(world);
  }
  out.grad = root.parameter("moe.router.weight").tensor.grad().clone();
  at::Tensor loss = at::full({1}, layer.take_stats().aux, c10::kDouble);
  if (world.degree() > 1) {
    world.start_all_reduce(out.grad.view({-1}), ReduceOp::kSum).wait();
    world.start_all_reduce(loss, ReduceOp::kSum).wait();
  }
  out.loss = loss.item<double>();
  return out;
}

// Megatron-LM #7213, #3672, PR #7481, #4302.
TEST(ExpertComplaints, AuxiliaryLossDoesNotDependOnHowABatchIsCut) {
  const at::Tensor x = random_normal("x", {4, 7, 8}, c10::kDouble);
  at::Tensor padding = at::zeros({4, 7}, c10::kBool);
  padding.select(0, 1).narrow(0, 3, 4).fill_(true);
  padding.select(0, 2).fill_(true);  // a sequence without tokens
  for (const AuxScope scope : {AuxScope::kSequence, AuxScope::kGlobal}) {
    Communicator solo = Communicator::solo();
    const Aux want = aux_of(solo, 1, scope, x, padding);
    EXPECT_GT(want.loss, 0.5);
    const std::pair<std::int64_t, std::int64_t> cuts[] = {{1, 4}, {2, 1}, {2, 2}, {4, 1}};
    for (const auto& [ranks, microbatches] : cuts) {
      rank_test(ranks, [&, microbatches = microbatches](Communicator& world) {
        const Aux got = aux_of(world, microbatches, scope, x, padding);
        EXPECT_NEAR(got.loss, want.loss, 1e-12 * want.loss);
        EXPECT_LT(testing::relative_error(got.grad, want.grad), 1e-11);
      });
    }
  }
}

// Megatron-LM #6111, PR #5542.
TEST(ExpertComplaints, APaddedBatchIsTheUnpaddedBatch) {
  const ModelShape shape = testing::moe_shape();
  MoeOptions options = double_options();
  options.balance.aux_coeff = 0.4;
  options.balance.z_coeff = 0.1;
  options.router.score = RouterScore::kSigmoid;
  options.router.score_bias = true;
  options.capacity.factor = 0.9;
  const auto whole = testing::whole_parameters(shape, options, c10::kDouble);
  const at::Tensor x = random_normal("x", {1, 11, 8}, c10::kDouble);
  const at::Tensor g = random_normal("g", {1, 11, 8}, c10::kDouble);
  const auto run = [&](std::int64_t padded) {
    Module root;
    Communicator solo = Communicator::solo();
    MoeLayer layer(root, "moe", shape, options, {solo, solo, solo});
    root.allocate(c10::kDouble);
    set_weights(root, whole, {}, 0);
    const at::Tensor rest = at::full({1, padded, 8}, 77.0, c10::kDouble);
    MoeContext context{.routed = {11}};
    context.padding_BS =
        at::cat({at::zeros({1, 11}, c10::kBool), at::ones({1, padded}, c10::kBool)}, 1);
    const at::Tensor y = layer.forward(at::cat({x, rest}, 1), context);
    torch::autograd::backward({y}, {at::cat({g, rest}, 1)});
    std::vector<at::Tensor> out{y.detach().narrow(1, 0, 11)};
    for (Parameter* parameter : root.parameters())
      if (parameter->trainable) out.push_back(parameter->tensor.grad());
    EXPECT_EQ(y.detach().narrow(1, 11, padded).abs().sum().item<double>(), 0.0);
    const MoeStats stats = layer.take_stats();
    out.push_back(testing::long_tensor(stats.choices, {8}));
    out.push_back(at::full({1}, static_cast<double>(stats.dropped)));
    EXPECT_GT(stats.dropped, 0);
    layer.finish_step(solo);
    out.push_back(root.parameter("moe.router.score_bias").tensor.clone());
    EXPECT_GT(out.back().abs().sum().item<float>(), 0.0f);
    return out;
  };
  const auto want = run(0), got = run(6);
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_LT(testing::relative_error(got[i], want[i]), 1e-12) << i;
}

// Megatron-LM #1514, #1330.
TEST(ExpertComplaints, NothingIsCountedTwiceUnderRecompute) {
  const ModelShape shape = testing::moe_shape();
  const at::Tensor x0 = random_normal("x", {2, 5, 8}, c10::kDouble);
  const auto run = [&](bool again, Communicator& ep, Communicator& etp, Communicator& sequence) {
    Module root;
    MoeOptions options = double_options();
    options.balance = {.aux_coeff = 0.2, .z_coeff = 0.1};
    MoeLayer layer(root, "moe", shape, options, {ep, etp, sequence});
    root.allocate(c10::kDouble);
    layer.init(5);
    at::Tensor x = x0.clone().set_requires_grad(true);
    const MoeContext context{.routed = {20}};
    const auto forward = [&](at::TensorList in) { return layer.forward(in[0], context); };
    const at::Tensor y = again ? recompute(forward, {x}) : forward({x});
    torch::autograd::backward({y.square().sum()}, {});
    const MoeStats stats = layer.take_stats();
    std::vector<at::Tensor> out{y.detach(), x.grad(), testing::long_tensor(stats.choices, {8}),
                                at::full({1}, stats.aux, c10::kDouble),
                                at::full({1}, stats.z, c10::kDouble)};
    for (Parameter* parameter : root.parameters()) out.push_back(parameter->tensor.grad());
    const at::NoGradGuard no_grad;  // evaluation
    layer.forward(x, context);
    for (const std::int64_t n : layer.take_stats().choices) EXPECT_EQ(n, 0);
    return out;
  };
  for (const std::int64_t n : {1, 2}) {
    rank_test(n, [&](Communicator& world) {
      testing::MoeComms comms = testing::make_comms(world, {.ep = n});
      const auto plain = run(false, comms.ep, comms.etp, world);
      const auto again = run(true, comms.ep, comms.etp, world);
      for (std::size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(at::equal(plain[i], again[i])) << i;
    });
  }
}

// Megatron-LM #1459, Megatron-Bridge #546; experts that ranks do not divide.
TEST(ExpertComplaints, LegalDegreesAreListed) {
  EXPECT_EQ(legal_ep(12, 8), (std::vector<std::int64_t>{1, 2, 4}));
  ModelShape shape = testing::moe_shape(12, 2);
  EXPECT_TRUE(expert_faults(shape, {.dp_shard = 4, .tp = 2, .ep = 4}).empty());
  const auto faults = expert_faults(shape, {.dp_shard = 4, .tp = 2, .ep = 8});
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].to_string(),
            "error[SX2-023] ep = 8 does not divide num_experts = 12\n"
            "  where  parallelism.ep\n"
            "  rule   every rank of ep has the same number of experts\n"
            "  next   legal here: ep = 1, 2, 4");
  shape.experts_topk = 13;
  EXPECT_EQ(expert_faults(shape, {.dp_shard = 4, .ep = 1, .etp = 4}).size(), 2u)
      << "k > E, and 6 features over 4";
  shape.num_experts = 0;
  EXPECT_EQ(expert_faults(shape, {.dp_shard = 2, .ep = 2}).size(), 1u);
}

}  // namespace
}  // namespace sx
