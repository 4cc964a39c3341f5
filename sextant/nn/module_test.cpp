#include "sextant/nn/module.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "sextant/base/check.h"
#include "sextant/nn/testing.h"
#include "sextant/shape/inventory.h"
#include "sextant/tensor/padded.h"

namespace sx {
namespace {

// The inventory is what planner and checkpoints count with; the modules are what runs. Also for
// models far too large to allocate: construction makes names and shapes only.
TEST(Module, DecodersAgreeWithTheInventory) {
  for (const std::string& name : shape_preset_names()) {
    const ModelShape shape = shape_preset(name).value();
    if (shape.num_experts > 0) continue;
    Decoder model(shape);
    const std::vector<ParamInfo> expected = inventory(shape);
    const std::vector<Parameter*> parameters = model.parameters();
    ASSERT_EQ(parameters.size(), expected.size()) << name;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(parameters[i]->fqn, expected[i].name) << name;
      EXPECT_EQ(parameters[i]->shape, expected[i].global_shape) << expected[i].name;
      EXPECT_EQ(parameters[i]->decay, expected[i].decay) << expected[i].name;
    }
  }
}

TEST(Module, DecoderVariantsAgreeWithTheInventory) {
  for (int bits = 0; bits < 64; ++bits) {
    ModelShape shape = testing::tiny_llama();
    shape.linear_bias = bits & 1;
    shape.qkv_bias = bits & 2;
    shape.qk_norm = bits & 4;
    shape.tie_embeddings = bits & 8;
    shape.norm = bits & 16 ? NormKind::kLayer : NormKind::kRms;
    shape.activation = bits & 32 ? Activation::kRelu : Activation::kGeglu;
    shape.positions = bits & 1 ? Positions::kLearned : Positions::kRope;
    Decoder model(shape);
    const std::vector<ParamInfo> expected = inventory(shape);
    const std::vector<Parameter*> parameters = model.parameters();
    ASSERT_EQ(parameters.size(), expected.size()) << bits;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(parameters[i]->fqn, expected[i].name);
      EXPECT_EQ(parameters[i]->shape, expected[i].global_shape);
    }
  }
}

TEST(Module, RefusesExpertsAndFaultyShapes) {
  EXPECT_THROW(Decoder(shape_preset("mixtral-8x7b").value()), ContractError);
  EXPECT_THROW(Decoder(ModelShape{}), ContractError);
}

TEST(Module, InitFollowsTheStreamOfTheName) {
  Decoder model(testing::tiny_llama());
  EXPECT_THROW(init_parameters(model, 1), ContractError);  // no memory yet
  model.allocate(c10::kFloat);
  EXPECT_THROW(model.allocate(c10::kFloat), ContractError);
  EXPECT_EQ(uninitialized_parameters(model).size(), model.parameters().size());
  init_parameters(model, 1234, 2);
  EXPECT_TRUE(uninitialized_parameters(model).empty());

  const at::Tensor wq = model.parameter("layers.0.attention.wq.weight").tensor.detach().view({-1});
  const RandomStream stream(1234, "init:layers.0.attention.wq.weight");
  EXPECT_EQ(wq.narrow(0, 5, 1).item<float>(), static_cast<float>(0.02 * stream.normal(5)));
  const at::Tensor wo = model.parameter("layers.1.attention.wo.weight").tensor.detach().view({-1});
  const RandomStream out(1234, "init:layers.1.attention.wo.weight");
  EXPECT_EQ(wo.narrow(0, 7, 1).item<float>(),
            static_cast<float>(0.02 / std::sqrt(4.0) * out.normal(7)));
  const at::Tensor table = model.parameter("tok_embeddings.weight").tensor.detach();
  EXPECT_EQ(table.narrow(0, 19, 5).abs().max().item<float>(), 0.0f);
  EXPECT_GT(table.narrow(0, 18, 1).abs().max().item<float>(), 0.0f);
  EXPECT_EQ(model.parameter("norm.weight").tensor.detach().min().item<float>(), 1.0f);
  EXPECT_EQ(padded_block(model.parameter("norm.weight").tensor).sum().item<float>(), 16.0f);
  EXPECT_THROW(model.parameter("norm.bias"), ContractError);
}

TEST(Module, HooksRunInOrderAroundUnits) {
  const auto model = testing::make_decoder(testing::tiny_llama(), c10::kFloat);
  std::vector<std::string> names;
  for (const Module* unit : model->units()) names.push_back(unit->fqn());
  EXPECT_EQ(names, (std::vector<std::string>{"", "tok_embeddings", "layers.0", "layers.1"}));

  std::vector<std::string> log;
  for (Module* unit : model->units()) {
    for (const char* owner : {"a", "b"}) {
      const auto note = [&log, owner](const char* what) {
        return [&log, owner, what](Module& u, const at::Tensor&) {
          log.push_back(std::string(what) + " " + u.fqn() + " " + owner);
        };
      };
      unit->add_hook(HookPoint::kPreForward, owner, note("pre"));
      unit->add_hook(HookPoint::kPostForward, owner, note("post"));
    }
  }
  EXPECT_EQ(model->describe_hooks()[0], "pre_forward (root) a");
  EXPECT_EQ(model->describe_hooks().size(), 16u);
  model->remove_hooks("b");
  model->forward({testing::random_tokens("hooks", 1, 4, 19), {}, {}});
  EXPECT_EQ(log, (std::vector<std::string>{"pre tok_embeddings a", "post tok_embeddings a",
                                           "pre layers.0 a", "post layers.0 a", "pre layers.1 a",
                                           "post layers.1 a", "pre  a", "post  a"}));
  Module plain;
  EXPECT_THROW(plain.add_hook(HookPoint::kPreForward, "a", {}), ContractError);
}

}  // namespace
}  // namespace sx
