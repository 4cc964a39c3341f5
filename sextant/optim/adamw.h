#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sx {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_norm_and_bias = false;
};

/// One parameter, or one rank's part of it, as the optimizer sees it.
struct OptimParam {
  std::string name;                 ///< key of the state; checkpoint "optim.<name>.exp_avg"
  at::Tensor block;                 ///< [padded] fp32 or fp64; `padded_block` of a parameter
  std::vector<std::int64_t> shape;  ///< of the part without padding, for views of the state
  bool decay = true;                ///< false: norm or bias
};

/// AdamW (Loshchilov and Hutter, arXiv 1711.05101) on local blocks; knows nothing of ranks.
///
///   p -= lr * wd * p;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   p -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
///
/// LibTorch's fused kernel over padded blocks, so a parameter cut into parts gives the bits of the
/// whole. State is keyed by name, never by tensor object.
class AdamW {
 public:
  AdamW(AdamWOptions options, std::vector<OptimParam> params);

  /// One step with rate `lr`. grads[i] belongs to params()[i]: same dtype, contiguous, either of
  /// its shape or a padded row like its block. Not changed, and nothing behind it is read. An
  /// undefined gradient leaves its parameter and state alone.
  void step(std::span<const at::Tensor> grads, double lr);

  std::int64_t num_steps() const { return num_steps_; }
  void set_num_steps(std::int64_t steps);

  const std::vector<OptimParam>& params() const { return params_; }
  /// State of one parameter as views with its shape; writing into them loads a checkpoint.
  /// Errors: ContractError if no parameter has this name.
  at::Tensor exp_avg(const std::string& name) const;
  at::Tensor exp_avg_sq(const std::string& name) const;

 private:
  std::size_t index_of(const std::string& name) const;

  AdamWOptions options_;
  std::vector<OptimParam> params_;
  std::vector<at::Tensor> exp_avgs_;          ///< [padded] each
  std::vector<at::Tensor> exp_avg_sqs_;       ///< [padded] each
  std::vector<std::size_t> decayed_, plain_;  ///< indices of the two groups
  std::map<std::string, std::size_t> index_;
  std::int64_t num_steps_ = 0;
};

}  // namespace sx
