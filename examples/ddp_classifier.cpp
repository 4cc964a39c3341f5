// A classifier of 28 x 28 pictures on four ranks (threads of this process), parameters replicated.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <fmt/format.h>

#include "sextant/dist/threads.h"
#include "sextant/dp/engine.h"
#include "sextant/nn/layers.h"
#include "sextant/nn/loss.h"

struct Classifier : sx::Module {
  sx::Linear hidden{*this, "hidden", 64, 784, true, 0.05}, out{*this, "out", 10, 64, true, 0.1};
  at::Tensor forward(const at::Tensor& x) { return out.forward(hidden.forward(x).relu()); }
};

int main() {
  sx::run_ranks(4, [](sx::Communicator& world) {
    sx::DataComms comms(world, /*num_replicas=*/4, /*num_shards=*/1);
    Classifier model;
    sx::Engine engine(model, comms, {.preset = sx::Preset::kDdp}, at::kFloat);
    engine.init_parameters(/*seed=*/1);
    for (int step = 0; step < 60; ++step) {
      // Eight batches, each rank its own quarter: pixels in sixteenths, counted out.
      const std::int64_t batch = 4 * (step % 8) + world.coord();
      const at::Tensor pixels = at::arange(8 * 784) * (2 * batch + 1) + batch;
      const at::Tensor x = pixels.remainder(33).sub(16).to(at::kFloat).div(16).view({8, 784});
      const at::Tensor label = (x.sum(1) * 16).to(at::kLong).remainder(10).view({8, 1});
      engine.begin_step();
      engine.begin_microbatch(/*is_last=*/true);
      const at::Tensor loss =
          sx::cross_entropy_sum(model.forward(x).view({8, 1, 10}), label, {}, 10);
      engine.backward(loss, 1.0 / 32);
      engine.finish_grads();
      for (const sx::OwnedPart& part : engine.owned())
        part.master.narrow(0, 0, part.end).sub_(part.grad, 0.1);
      engine.commit();
      if (world.coord() == 0 && step % 20 == 19)
        fmt::print("step {} loss {:.3f}\n", step + 1, loss.item<double>() / 8);
    }
  });
}
