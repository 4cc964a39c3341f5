// The order in which the axes of the mesh are applied to a model, top to bottom. So far there is
// data parallelism, replicated and sharded; the others enter between construction and the engine.

#include "sextant/train/parallelize.h"

#include "sextant/base/check.h"
#include "sextant/tensor/memory_tracker.h"
#include "sextant/train/dp_policy.h"
#include "sextant/train/model_setup.h"

namespace sx {
namespace {

TensorPart part_of(const std::string& name, const OwnedPart& part, const at::Tensor& padded) {
  const std::int64_t count = part.end - part.begin;
  return {.name = name,
          .shape = part.parameter->shape,
          .region = Region::flat(part.begin, count),
          .values = padded.narrow(0, 0, count),
          .copy = part.copy,
          .copies = part.copies};
}

}  // namespace

std::vector<TensorPart> ParallelModel::parameters() const {
  std::vector<TensorPart> parts;
  for (const auto* own : {&engine->owned(), &engine->frozen()}) {
    for (const OwnedPart& part : *own)
      parts.push_back(part_of(part.parameter->fqn, part, part.master));
  }
  return parts;
}

std::vector<TensorPart> ParallelModel::optimizer_state() const {
  std::vector<TensorPart> parts;
  for (const OwnedPart& part : engine->owned()) {
    const std::string& name = part.parameter->fqn;
    parts.push_back(part_of("optim." + name + ".exp_avg", part, optimizer->exp_avg(name)));
    parts.push_back(part_of("optim." + name + ".exp_avg_sq", part, optimizer->exp_avg_sq(name)));
  }
  return parts;
}

void ParallelModel::update(double lr) {
  if (before_update) before_update();
  std::vector<at::Tensor> grads;
  const std::vector<OwnedPart>& parts = engine->owned();
  for (std::size_t i = 0; i < parts.size(); ++i)
    grads.push_back(engine->updates(i) ? parts[i].grad : at::Tensor());
  optimizer->step(grads, lr);
  engine->commit();
}

ParallelModel parallelize(const ModelShape& shape, RunContext& run) {
  const Recipe& recipe = run.recipe;
  const Policy policy = dp_policy(recipe);
  ParallelModel model;
  model.decoder = std::make_unique<Decoder>(shape, decoder_options(recipe.training.dtype));
  model.decoder->apply(recompute_plan(recipe));
  model.comms =
      std::make_unique<DataComms>(run.world, recipe.parallelism.dp_replicate,
                                  recipe.parallelism.dp_shard.value_or(1), policy.separate_comms);
  model.engine = std::make_unique<Engine>(*model.decoder, *model.comms, policy,
                                          param_dtype(recipe.training.dtype),
                                          Arena::make(arena_debug(recipe)));
  model.engine->init_parameters(recipe.run.seed);
  SX_CHECK(uninitialized_parameters(*model.decoder).empty(), "parameter {} was not initialised",
           uninitialized_parameters(*model.decoder).front());

  std::vector<OptimParam> params;
  for (const OwnedPart& part : model.engine->owned()) {
    params.push_back(
        {part.parameter->fqn, part.master, {part.end - part.begin}, part.parameter->decay});
  }
  const MemoryScope scope(MemoryCategory::kMoments);
  const OptimizerKeys& keys = recipe.optimizer;
  model.optimizer =
      std::make_unique<AdamW>(AdamWOptions{.beta1 = keys.beta1,
                                           .beta2 = keys.beta2,
                                           .eps = keys.eps,
                                           .weight_decay = keys.weight_decay,
                                           .decay_norm_and_bias = keys.decay_norm_and_bias},
                              std::move(params));
  if (recipe.training.dtype == Dtype::kFp16) {
    const auto& scale = recipe.training.loss_scale;
    model.scaler.emplace(GradScalerOptions{.initial_scale = scale.initial,
                                           .min_scale = scale.min,
                                           .growth_factor = scale.growth,
                                           .backoff_factor = scale.backoff,
                                           .growth_interval = scale.growth_interval,
                                           .hysteresis = scale.hysteresis});
  }
  return model;
}

}  // namespace sx
