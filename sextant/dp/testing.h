#pragma once

// What the tests of data parallelism share: a small model of units whose loss is exact to compute
// by hand or rich enough to find mistakes, and the way a step is run.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/remainder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sextant/nn/module.h"

namespace sx::testing {

/// Small multiples of 1/16, different for each salt: sums and products of a few are exact.
inline at::Tensor sixteenths(const std::vector<std::int64_t>& shape, std::int64_t salt,
                             c10::ScalarType dtype) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return (at::remainder(at::arange(n, c10::kLong) * (2 * salt + 1) + salt, 33) - 16)
      .to(dtype)
      .div(16)
      .view(shape);
}

/// y = tanh(x w + b) + x (or, `linear`, x w + b): one unit.
class Block : public Module {
 public:
  Block(Module& parent, std::string name, std::int64_t width, bool linear)
      : Module(parent, std::move(name)), linear_(linear) {
    weight_ = &add_parameter("weight", {width, width}, {InitKind::kNormal, 0.0, 0.5}, true);
    bias_ = &add_parameter("bias", {width}, {InitKind::kNormal, 0.0, 0.1}, false);
    mark_unit();
  }
  at::Tensor forward(const at::Tensor& x) {
    return call(x, [this](const at::Tensor& in) {
      const at::Tensor w = weight_->tensor.to(in.scalar_type());
      const at::Tensor y = in.matmul(w).add(bias_->tensor.to(in.scalar_type()));
      return linear_ ? y : y.tanh().add(in);
    });
  }
  Parameter& weight() { return *weight_; }
  Parameter& bias() { return *bias_; }

 private:
  bool linear_;
  Parameter* weight_;
  Parameter* bias_;
};

/// Blocks in a row and a head that is the root's own: loss = sum of (head of blocks(x)) * t.
class Stack : public Module {
 public:
  explicit Stack(std::int64_t depth, std::int64_t width = 5, bool linear = false) : width_(width) {
    for (std::int64_t i = 0; i < depth; ++i) {
      blocks.push_back(
          std::make_unique<Block>(*this, "blocks." + std::to_string(i), width, linear));
    }
    head = &add_parameter("head", {width, 3}, {InitKind::kNormal, 0.0, 0.5}, true);
    mark_unit();
  }

  at::Tensor loss(std::int64_t row, c10::ScalarType dtype) {
    return loss(sixteenths({2, width_}, row, dtype), sixteenths({2, 3}, row + 50, dtype));
  }
  at::Tensor loss(at::Tensor x, const at::Tensor& t) {
    for (const std::size_t i : order.empty() ? natural() : order) x = blocks[i]->forward(x);
    return finish(x, t);
  }
  at::Tensor finish(const at::Tensor& x, const at::Tensor& t) {
    return call(x,
                [this](const at::Tensor& in) {
                  return in.matmul(head->tensor.to(in.scalar_type()));
                })
        .mul(t)
        .sum();
  }

  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::size_t> order;  ///< of execution; empty: as registered
  Parameter* head;

 private:
  std::vector<std::size_t> natural() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < blocks.size(); ++i) out.push_back(i);
    return out;
  }
  std::int64_t width_;
};

}  // namespace sx::testing
