// Training steps of GPT-2 124M as one JSON line: the model, batch and settings of
// bench/peers/train_gpt2_124m.py, on one rank.
//
//   bench_train_step [--profile 0] [--dtype fp32|bf16] [--steps 6] [--threads 0] [--batch 4] [--seq
//   256] [--model gpt2-124m]
//
// "fp32": parameters, products and state in fp32. "bf16": bf16 parameters and products, fp32
// masters, main gradients and state. The first two steps are not counted. --profile 1 prints the
// own time of LibTorch's operators, per step.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/remainder.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/op_profile.h"
#include "sextant/dp/engine.h"
#include "sextant/nn/decoder.h"
#include "sextant/optim/adamw.h"
#include "sextant/shape/inventory.h"
#include "sextant/shape/model_shape.h"
#include "sextant/tensor/rank_thread.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string dtype = "fp32", model = "gpt2-124m";
  std::int64_t steps = 6, threads = 0, profile = 0, batch = 4, seq = 256;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--dtype") options.dtype = value;
    if (key == "--model") options.model = value;
    if (key == "--profile") options.profile = std::atoll(value.c_str());
    if (key == "--steps") options.steps = std::atoll(value.c_str());
    if (key == "--threads") options.threads = std::atoll(value.c_str());
    if (key == "--batch") options.batch = std::atoll(value.c_str());
    if (key == "--seq") options.seq = std::atoll(value.c_str());
  }
  return options;
}

/// Tokens by counter: the same in both programs.
at::Tensor tokens(const Options& o, std::int64_t step, std::int64_t vocab_size) {
  const std::int64_t n = o.batch * o.seq;
  return at::remainder(at::arange(n, c10::kLong) * 2654435761 + step * 40503 + 12345, vocab_size)
      .view({o.batch, o.seq});
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  sx::prepare_process(true);
  const std::int64_t threads = options.threads > 0 ? options.threads : at::get_num_threads();
  sx::prepare_rank_thread({.intra_op_threads = static_cast<int>(threads)});
  const auto found = sx::shape_preset(options.model);
  if (!found.ok()) {
    std::fprintf(stderr, "error: no model %s\n", options.model.c_str());
    return 2;
  }
  const sx::ModelShape shape = *found;
  sx::Communicator world = sx::Communicator::solo();
  sx::DataComms comms(world, 1, 1);
  sx::Policy policy;
  policy.preset = sx::Preset::kDdp;
  const bool narrow = options.dtype == "bf16";
  if (narrow) policy.param_dtype = c10::kBFloat16;
  sx::Decoder model(shape, {});
  sx::Engine engine(model, comms, policy, c10::kFloat);
  engine.init_parameters(1234);
  std::vector<sx::OptimParam> parts;
  for (const sx::OwnedPart& part : engine.owned()) {
    parts.push_back(
        {part.parameter->fqn, part.master, {part.end - part.begin}, part.parameter->decay});
  }
  sx::AdamW optimizer({}, parts);

  std::map<std::string, std::vector<double>> phases;
  std::optional<sx::OpProfile> profile;
  for (std::int64_t step = 0; step < options.steps + 2; ++step) {
    const at::Tensor input = tokens(options, step, shape.vocab_size);
    const at::Tensor targets = tokens(options, step + 1, shape.vocab_size);
    if (step == 2 && options.profile != 0) profile.emplace();
    const auto start = Clock::now();
    engine.begin_step();
    engine.begin_microbatch(true);
    const at::Tensor loss = model.loss_sum({input, {}, {}}, targets, {});
    const double forward = seconds_since(start);
    engine.backward(loss, 1.0 / static_cast<double>(options.batch * options.seq));
    engine.finish_grads();
    const double backward = seconds_since(start) - forward;
    const sx::StepSums sums = engine.step_sums();
    engine.clip(sums.norm.norm, 1.0);
    const double norm = seconds_since(start) - forward - backward;
    std::vector<at::Tensor> grads;
    for (const sx::OwnedPart& part : engine.owned()) grads.push_back(part.grad);
    optimizer.step(grads, 3e-4);
    engine.commit();
    const double total = seconds_since(start);
    std::fprintf(stderr, "step %ld  loss %.5f  gnorm %.5f  %.3f s\n", step,
                 loss.item<double>() / static_cast<double>(options.batch * options.seq),
                 sums.norm.norm, total);
    if (step < 2) continue;
    phases["forward"].push_back(forward);
    phases["backward"].push_back(backward);
    phases["norm_clip"].push_back(norm);
    phases["optimizer"].push_back(total - forward - backward - norm);
    phases["step"].push_back(total);
  }
  if (profile) {
    for (const auto& [name, seconds] : profile->seconds()) {
      const double each = seconds / static_cast<double>(options.steps);
      if (each >= 0.002) std::fprintf(stderr, "%8.1f ms  %s\n", each * 1e3, name.c_str());
    }
  }
  std::string line;
  for (auto& [name, seconds] : phases) {
    std::sort(seconds.begin(), seconds.end());
    line += fmt::format(", \"{}_s\": {:.4f}", name, seconds[seconds.size() / 2]);
  }
  std::sort(phases["step"].begin(), phases["step"].end());
  const double step = phases["step"][phases["step"].size() / 2];
  const auto count = static_cast<double>(options.batch * options.seq);
  std::printf(
      "{\"bench\": \"train_step\", \"system\": \"sextant\", \"dtype\": \"%s\", \"threads\": %d, "
      "\"tokens_per_s\": %.1f, "
      "\"gflops\": %.1f%s}\n",
      options.dtype.c_str(), at::get_num_threads(), count / step,
      sx::model_flops_per_token(shape, options.seq) * count / step / 1e9, line.c_str());
  return 0;
}
