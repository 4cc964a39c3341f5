#pragma once

// What the tests of data parallelism compare: the same few steps by the hook-free reference and by
// the engine, on rank threads, down to the last bit.

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sextant/dp/engine.h"
#include "sextant/nn/module.h"

namespace sx {

/// One case: mesh, order of sums, microbatches, dtypes.
struct RunCase {
  std::int64_t replicas = 1, shards = 1;
  FoldOrder order = FoldOrder::kNested;
  Accumulate accumulate = Accumulate::kReduced;
  std::int64_t microbatches = 1;
  c10::ScalarType dtype = c10::kDouble;
  std::int64_t steps = 5;
  std::optional<c10::ScalarType> param_dtype{}, reduce_dtype{};
  double max_norm = 1.0;
  std::string to_string() const;
};

/// A model and its loss for one microbatch of one rank.
struct TestModel {
  std::shared_ptr<Module> root;
  std::function<at::Tensor(std::int64_t row, c10::ScalarType dtype)> loss;
};
using MakeModel = std::function<TestModel()>;

/// Everything a run leaves, assembled from all ranks.
struct RunResult {
  std::vector<double> losses;              ///< of all ranks and microbatches, in order
  std::vector<double> norms;               ///< per step
  std::map<std::string, at::Tensor> bits;  ///< "weights.w", "grads.w", "exp_avg.w", "exp_avg_sq.w"
};

RunResult run_reference(const MakeModel& make, const RunCase& test);
RunResult run_engine(const MakeModel& make, const RunCase& test, Policy policy,
                     ArenaDebug debug = {});

/// What differs, one line each; empty when every bit is equal.
std::vector<std::string> differences(const RunResult& expected, const RunResult& actual);
/// Largest relative difference of losses, and of the tensors whose name begins with `prefix`.
double loss_difference(const RunResult& a, const RunResult& b);
double tensor_difference(const RunResult& a, const RunResult& b, const std::string& prefix);

}  // namespace sx
