#pragma once

#include <memory>
#include <vector>

#include "sextant/dp/ddp.h"
#include "sextant/nn/decoder.h"
#include "sextant/nn/main_grads.h"
#include "sextant/optim/adamw.h"
#include "sextant/shape/model_shape.h"
#include "sextant/shard/named_tensor.h"
#include "sextant/train/run_context.h"

namespace sx {

/// One rank's model with every axis applied: what a step drives. Members are destroyed in reverse
/// order, so hooks go before what they hook into.
struct ParallelModel {
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<MainGrads> grads;
  std::unique_ptr<Ddp> ddp;
  std::unique_ptr<AdamW> optimizer;

  /// Parameters under their names, in checkpoint order.
  std::vector<NamedTensor> parameters();
  /// "optim.<name>.exp_avg" and ".exp_avg_sq" of every parameter.
  std::vector<NamedTensor> optimizer_state() const;
  /// Main gradients under their parameters' names.
  std::vector<NamedTensor> gradients() const;
};

/// Builds the model, applies the axes in one fixed order and initialises it from run.seed; the same
/// initial weights on every mesh. The only place where axes meet.
ParallelModel parallelize(const ModelShape& shape, RunContext& run);

}  // namespace sx
