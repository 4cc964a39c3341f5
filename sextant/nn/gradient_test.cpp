// Gradients of whole models against finite differences, in double precision.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "sextant/nn/decoder.h"
#include "sextant/nn/loss.h"
#include "sextant/nn/testing.h"

namespace sx {
namespace {

// For each parameter: derivative along a random direction, central difference with its error of
// order h^2, against the product of direction and gradient.
void check_gradients(const ModelShape& shape) {
  const auto model = testing::make_decoder(shape, c10::kDouble);
  const at::Tensor targets = testing::random_tokens("targets", 2, 6, shape.vocab_size);
  const at::Tensor mask = testing::long_tensor({1, 1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1}, {2, 6});
  const DecoderInput input{testing::random_tokens("tokens", 2, 6, shape.vocab_size),
                           {},
                           testing::long_tensor({0, 0, 0, 1, 1, 2, 4, 4, 4, 4, 4, 4}, {2, 6})};
  const auto loss = [&] {
    return cross_entropy_sum(model->forward(input), targets, mask, shape.vocab_size);
  };
  loss().backward();
  const at::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  for (Parameter* parameter : model->parameters()) {
    const at::Tensor direction =
        testing::random_normal(parameter->fqn, parameter->shape, c10::kDouble);
    const double expected = parameter->tensor.grad().mul(direction).sum().item<double>();
    at::Tensor values = parameter->tensor.detach();
    values.add_(direction, kStep);
    const double above = loss().item<double>();
    values.add_(direction, -2 * kStep);
    const double below = loss().item<double>();
    values.add_(direction, kStep);
    EXPECT_NEAR((above - below) / (2 * kStep), expected, 1e-6 * std::max(1.0, std::abs(expected)))
        << shape.name << " " << parameter->fqn;
    EXPECT_NE(expected, 0.0) << parameter->fqn;
  }
}

TEST(Gradients, LlamaAgreesWithFiniteDifferences) { check_gradients(testing::tiny_llama()); }

TEST(Gradients, Gpt2AgreesWithFiniteDifferences) { check_gradients(testing::tiny_gpt2()); }

TEST(Gradients, TiedQkNormAgreesWithFiniteDifferences) {
  ModelShape shape = testing::tiny_llama();
  shape.name = "tied-qk-norm";
  shape.tie_embeddings = true;
  shape.qk_norm = true;
  shape.activation = Activation::kGeglu;
  check_gradients(shape);
}

}  // namespace
}  // namespace sx
