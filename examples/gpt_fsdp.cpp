// A small GPT on four ranks (threads of this process) with everything sharded: parameters,
// gradients and optimizer state. Two microbatches per step; the text is a counting rhyme.
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "sextant/dist/threads.h"
#include "sextant/dp/engine.h"
#include "sextant/nn/decoder.h"
#include "sextant/nn/loss.h"
#include "sextant/optim/adamw.h"

namespace {

constexpr std::int64_t kSeqLen = 32, kMicrobatches = 2, kRanks = 4;

sx::ModelShape small_gpt() {
  sx::ModelShape shape = sx::defaults_for(sx::Arch::kLlama);
  shape.num_layers = 3;
  shape.hidden = 48;
  shape.ffn_hidden = 96;
  shape.num_heads = shape.num_heads_kv = 4;
  shape.head_dim = 12;
  shape.vocab_size = 128;
  shape.max_positions = kSeqLen;
  return shape;
}

/// Bytes [at, at + kSeqLen] of the text: inputs, and shifted by one the targets.
std::pair<at::Tensor, at::Tensor> row_of_text(std::int64_t at) {
  std::string text;
  for (int i = 0; text.size() < 4000; ++i) text += fmt::format("{} green bottles, ", i % 10);
  const at::Tensor row = at::full({1, kSeqLen + 1}, 0, at::kLong);
  for (std::int64_t i = 0; i <= kSeqLen; ++i)
    row[0][i].fill_(text[static_cast<std::size_t>((at + i) % 4000)]);
  return {row.narrow(1, 0, kSeqLen), row.narrow(1, 1, kSeqLen)};
}

}  // namespace

int main() {
  sx::run_ranks(kRanks, [](sx::Communicator& world) {
    sx::DataComms comms(world, /*num_replicas=*/1, /*num_shards=*/kRanks);
    sx::Decoder model(small_gpt());
    sx::Engine engine(model, comms, {.preset = sx::Preset::kFsdp2}, at::kFloat);
    engine.init_parameters(/*seed=*/1);

    std::vector<sx::OptimParam> own;  // this rank's quarter of every parameter
    for (const sx::OwnedPart& part : engine.owned())
      own.push_back(
          {part.parameter->fqn, part.master, {part.end - part.begin}, part.parameter->decay});
    sx::AdamW optimizer({}, std::move(own));

    for (std::int64_t step = 0; step < 60; ++step) {
      double loss_sum = 0;
      engine.begin_step();
      for (std::int64_t m = 0; m < kMicrobatches; ++m) {
        const auto [tokens, targets] =
            row_of_text(((step * kMicrobatches + m) * kRanks + world.coord()) * 37);
        engine.begin_microbatch(/*is_last=*/m + 1 == kMicrobatches);
        const at::Tensor loss =
            sx::cross_entropy_sum(model.forward({tokens, {}, {}}), targets, {}, 128);
        loss_sum += loss.item<double>();
        engine.backward(loss, 1.0 / (kSeqLen * kMicrobatches * kRanks));
      }
      engine.finish_grads();
      engine.clip(engine.step_sums().norm.norm, /*max_norm=*/1.0);
      std::vector<at::Tensor> grads;
      for (const sx::OwnedPart& part : engine.owned()) grads.push_back(part.grad);
      optimizer.step(grads, /*lr=*/3e-3);
      engine.commit();
      if (world.coord() == 0 && step % 20 == 19)
        fmt::print("step {} loss {:.3f}\n", step + 1, loss_sum / (kSeqLen * kMicrobatches));
    }
  });
}
