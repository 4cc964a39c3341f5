#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sextant/ckpt/checkpoint.h"
#include "sextant/dp/data_comms.h"
#include "sextant/dp/engine.h"
#include "sextant/nn/decoder.h"
#include "sextant/optim/adamw.h"
#include "sextant/shape/model_shape.h"
#include "sextant/shard/grad_scaler.h"
#include "sextant/train/run_context.h"

namespace sx {

/// One rank's model with every axis applied: what a step drives. Members are destroyed in reverse
/// order, so hooks go before what they hook into.
struct ParallelModel {
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<DataComms> comms;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<AdamW> optimizer;
  std::optional<GradScaler> scaler;  ///< with training.dtype "fp16"
  /// Called before masters and optimizer state change: a save may still be copying them.
  std::function<void()> before_update;

  /// This rank's parts of the parameters, trainable then frozen, as views of the masters; empty
  /// ones too.
  std::vector<TensorPart> parameters() const;
  /// "optim.<name>.exp_avg" and ".exp_avg_sq" likewise.
  std::vector<TensorPart> optimizer_state() const;
  /// The optimizer over this rank's masters and gradients, then parameters to all who need them.
  void update(double lr);
};

/// Builds the model, applies the axes in one fixed order and initialises it from run.seed; the same
/// initial weights on every mesh. The only place where axes meet. Collective.
ParallelModel parallelize(const ModelShape& shape, RunContext& run);

}  // namespace sx
