#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "sextant/nn/module.h"

namespace sx {

/// main = fresh for the first contribution of a step, main += fresh for later ones; an undefined
/// `fresh` counts as zero. The one place where gradients of microbatches are added.
///
/// The first is a copy: 0 + -0 would lose a sign. Adding zero is not nothing either: it turns -0
/// into +0, as the sum over ranks does. `fresh` is cast to main's dtype.
void add_gradient(at::Tensor main, const at::Tensor& fresh, bool first);

/// Takes each parameter's fresh gradient as soon as a backward pass has completed it, and leaves
/// none behind in the parameter.
///
/// A parameter that is used in several recomputed blocks hands over once per block; in a plain
/// backward once. Only one owner of a parameter's gradient at a time.
/// Threads: owner thread; `take` runs on it during `backward`, with grad mode off.
class GradHooks {
 public:
  using Take = std::function<void(std::size_t parameter, const at::Tensor& fresh)>;

  /// Parameters have tensors that require grad.
  GradHooks(std::vector<Parameter*> parameters, Take take);
  ~GradHooks();
  GradHooks(const GradHooks&) = delete;
  GradHooks& operator=(const GradHooks&) = delete;

  /// Back-propagates `scale * loss`; `scale` enters as the seed of the pass with one rounding to
  /// loss's dtype. Errors: whatever a hook throws; ContractError for a loss without a graph, for a
  /// backward within a backward and for one that did not start here.
  void backward(const at::Tensor& loss, double scale);

  /// Drops gradients that a failed backward has left.
  void reset();

  const std::vector<Parameter*>& parameters() const { return parameters_; }

 private:
  std::vector<Parameter*> parameters_;
  Take take_;
  bool in_backward_ = false;
};

}  // namespace sx
