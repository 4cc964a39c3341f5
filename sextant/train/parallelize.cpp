// The order in which the axes of the mesh are applied to a model, top to bottom. So far there is
// one axis, data parallelism with replicated parameters; the others enter between construction and
// data parallelism.

#include "sextant/train/parallelize.h"

#include "sextant/base/check.h"
#include "sextant/tensor/padded.h"
#include "sextant/train/model_setup.h"

namespace sx {

std::vector<NamedTensor> ParallelModel::parameters() {
  std::vector<NamedTensor> named;
  for (Parameter* parameter : decoder->parameters()) {
    named.push_back({parameter->fqn, parameter->tensor.detach()});
  }
  return named;
}

std::vector<NamedTensor> ParallelModel::optimizer_state() const {
  std::vector<NamedTensor> named;
  for (const OptimParam& param : optimizer->params()) {
    named.push_back({"optim." + param.name + ".exp_avg", optimizer->exp_avg(param.name)});
    named.push_back({"optim." + param.name + ".exp_avg_sq", optimizer->exp_avg_sq(param.name)});
  }
  return named;
}

std::vector<NamedTensor> ParallelModel::gradients() const {
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < grads->slots().size(); ++i) {
    named.push_back({grads->slots()[i].parameter->fqn, grads->grad(i)});
  }
  return named;
}

ParallelModel parallelize(const ModelShape& shape, RunContext& run) {
  const Recipe& recipe = run.recipe;
  ParallelModel model;
  model.decoder = std::make_unique<Decoder>(shape, decoder_options(recipe.training.dtype));
  model.decoder->allocate(param_dtype(recipe.training.dtype));
  init_parameters(*model.decoder, recipe.run.seed);
  SX_CHECK(uninitialized_parameters(*model.decoder).empty(), "parameter {} was not initialised",
           uninitialized_parameters(*model.decoder).front());

  model.grads = std::make_unique<MainGrads>(*model.decoder);
  switch (recipe.parallelism.zero) {
    case Zero::kDdp: model.ddp = std::make_unique<Ddp>(*model.grads, run.world); break;
  }

  std::vector<OptimParam> params;
  for (const GradSlot& slot : model.grads->slots()) {
    const Parameter& parameter = *slot.parameter;
    params.push_back(
        {parameter.fqn, padded_block(parameter.tensor), parameter.shape, parameter.decay});
  }
  const OptimizerKeys& keys = recipe.optimizer;
  model.optimizer =
      std::make_unique<AdamW>(AdamWOptions{.beta1 = keys.beta1,
                                           .beta2 = keys.beta2,
                                           .eps = keys.eps,
                                           .weight_decay = keys.weight_decay,
                                           .decay_norm_and_bias = keys.decay_norm_and_bias},
                              std::move(params));
  return model;
}

}  // namespace sx
