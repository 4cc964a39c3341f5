#include "sextant/train/evaluate.h"

#include <ATen/ops/tensor.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "sextant/base/diagnostic.h"
#include "sextant/train/step.h"

namespace sx {

Evaluation evaluate(RunContext& run, Decoder& model, Loader& loader, std::int64_t max_steps) {
  const c10::AutoGradMode no_grad(false);
  loader.rewind();
  const auto all_steps = static_cast<std::int64_t>(loader.num_steps());
  const std::int64_t steps = max_steps > 0 ? std::min(max_steps, all_steps) : all_steps;
  double loss_sum = 0;
  std::int64_t tokens = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<double> sums;
    bool last = false;
    while (!last) {
      Result<Batch> batch = loader.next();
      if (!batch.ok()) throw IoError(to_diagnostic(batch.error(), "sextant data inspect PREFIX"));
      const Microbatch m = to_microbatch(std::move(*batch));
      last = m.batch.cursor.last_of_step();
      tokens += static_cast<std::int64_t>(m.batch.num_loss_tokens);
      sums.push_back(model.loss_sum(m.input, m.targets_BS, m.loss_mask_BS).item<double>());
    }
    loss_sum += fold_in_batch_order(run.world, sums);
  }
  at::Tensor total = at::tensor({tokens}, at::kLong);
  run.world.start_all_reduce(total, ReduceOp::kSum, {.unit = "evaluated tokens"}).wait();
  const auto counted = total.item<std::int64_t>();
  return {loss_sum / static_cast<double>(std::max<std::int64_t>(counted, 1)), counted};
}

}  // namespace sx
