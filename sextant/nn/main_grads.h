#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sextant/nn/module.h"

namespace sx {

/// Where one parameter's gradient lies in the flat buffer, in elements. `padded` is a multiple of
/// 128 bytes.
struct GradSlot {
  Parameter* parameter = nullptr;
  std::int64_t offset = 0;
  std::int64_t numel = 0;
  std::int64_t padded = 0;
};

/// The gradients of one optimizer step, accumulated over microbatches in one fixed way.
///
/// Each backward makes fresh gradients of one microbatch; as soon as a parameter's is complete it
/// is copied into its slot (first microbatch of the step) or added to it (later ones), and its
/// memory is released. Copying first matters: 0 + -0 would lose a sign. So W microbatches here and
/// a fold over W ranks in ascending order with one microbatch each do the same additions in the
/// same order, and give the same bits.
///
/// Layout:  one flat buffer in parameter order, padded slots, padding zero: any run of neighbouring
/// slots is one
///          contiguous bucket. Gradients have the dtype of their parameter.
/// Threads: owner thread only; hooks run on it during `backward`.
class MainGrads {
 public:
  /// Takes the allocated parameters of `root` in their order. Only one MainGrads per tree at a
  /// time.
  explicit MainGrads(Module& root);
  ~MainGrads();
  MainGrads(const MainGrads&) = delete;
  MainGrads& operator=(const MainGrads&) = delete;

  /// Starts a step: the next contribution to every slot is a copy.
  void begin_step();

  /// Back-propagates `scale * loss` of one microbatch into the slots. `scale` is usually 1 /
  /// (global number of loss tokens), computed in double; it enters as the seed of the backward pass
  /// with one rounding to loss's dtype. Parameters that the loss does not reach count as
  /// contributing zero. Errors: whatever a hook throws; after that only `begin_step` is allowed.
  void backward(const at::Tensor& loss, double scale);

  /// `ready(i)` is called during each `backward`, once per slot, when slot i holds this
  /// microbatch's contribution. The order is that of the backward pass: from the last layer to the
  /// first. Used to start the reduction of a bucket in the last microbatch of a step. Replaces an
  /// earlier one; an empty function clears it.
  void on_grad_ready(std::function<void(std::size_t slot)> ready);

  std::int64_t num_microbatches() const;  ///< contributions since begin_step
  const std::vector<GradSlot>& slots() const { return slots_; }
  at::Tensor& flat() { return flat_; }              ///< [total], padding included
  const at::Tensor& block(std::size_t slot) const;  ///< [padded], a view of flat()
  at::Tensor grad(std::size_t slot) const;          ///< view with the parameter's shape
  at::Tensor grad(const std::string& fqn) const;

 private:
  struct State;
  void take(std::size_t slot, const at::Tensor& fresh);

  std::vector<GradSlot> slots_;
  at::Tensor flat_;
  std::vector<at::Tensor> blocks_;
  std::shared_ptr<State> state_;
};

}  // namespace sx
