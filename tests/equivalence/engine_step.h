#pragma once

// What the tests of users' complaints share: a step whose gradients are looked at, and the text
// with which ranks fail.

#include <gtest/gtest.h>

#include <ATen/ops/equal.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "sextant/dp/engine.h"
#include "sextant/dp/testing.h"
#include "tests/equivalence/rank_test.h"

namespace sx::testing {

constexpr c10::ScalarType kDtype = at::kDouble;

/// What the first failing rank says; the test fails if that takes longer than `within_seconds`.
inline std::string failure_of(std::int64_t ranks, const std::function<void(Communicator&)>& body,
                              double within_seconds = 5.0) {
  const auto begin = std::chrono::steady_clock::now();
  std::string text;
  try {
    run_ranks(ranks, body, {.timeout = Seconds{60.0}});
  } catch (const std::exception& e) {
    text = e.what();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), within_seconds);
  return text;
}

/// One step of one microbatch; gradients by name.
inline std::map<std::string, at::Tensor> step_of(Engine& engine, Module& model,
                                                 const std::function<at::Tensor()>& loss,
                                                 double scale = 1.0) {
  engine.begin_step();
  engine.begin_microbatch(true);
  engine.backward(loss(), scale);
  engine.finish_grads();
  std::map<std::string, at::Tensor> grads;
  for (Parameter* parameter : model.parameters()) {
    if (parameter->trainable) grads[parameter->fqn] = engine.whole_gradient(parameter->fqn);
  }
  engine.commit();
  return grads;
}

inline void expect_equal(const std::map<std::string, at::Tensor>& a,
                         const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

inline at::Tensor plain_loss(Stack& model, std::int64_t row) { return model.loss(row, kDtype); }

}  // namespace sx::testing
