#include "sextant/nn/backward.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "sextant/base/check.h"

namespace sx {

void backward(const at::Tensor& loss, double scale) {
  SX_CHECK(loss.numel() == 1, "loss has {} elements, not one", loss.numel());
  SX_CHECK(loss.requires_grad(), "loss carries no graph: was it computed without grad mode?");
  torch::autograd::backward({loss}, {at::full_like(loss.detach(), scale)});
}

}  // namespace sx
