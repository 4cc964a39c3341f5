// What FSDP costs the host per unit and step: blocks of two small linear layers, each a unit, on
// one rank of a fake world whose collectives are done at once; the same model without it beside it.
// The peer is bench/peers/fsdp2_overhead.py. One JSON line.
//
//   bench_fsdp_overhead [units 24] [steps 50]
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "sextant/dist/fake.h"
#include "sextant/dp/engine.h"
#include "sextant/tensor/rank_thread.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kWidth = 16, kWorld = 8;

class Block : public sx::Module {
 public:
  Block(sx::Module& parent, std::string name) : Module(parent, std::move(name)) {
    for (const char* layer : {"a", "b"}) {
      weights_.push_back(&add_parameter(std::string(layer) + ".weight", {kWidth, kWidth},
                                        {sx::InitKind::kNormal, 0.0, 0.1}, true));
      biases_.push_back(
          &add_parameter(std::string(layer) + ".bias", {kWidth}, {sx::InitKind::kZeros}, false));
    }
    mark_unit();
  }
  at::Tensor forward(const at::Tensor& x) {
    return call(x, [this](const at::Tensor& in) {
      const at::Tensor h = at::relu(at::linear(in, weights_[0]->tensor, biases_[0]->tensor));
      return at::linear(h, weights_[1]->tensor, biases_[1]->tensor);
    });
  }

 private:
  std::vector<sx::Parameter*> weights_, biases_;
};

class Stack : public sx::Module {
 public:
  explicit Stack(std::int64_t units) {
    for (std::int64_t i = 0; i < units; ++i)
      blocks_.push_back(std::make_unique<Block>(*this, "blocks." + std::to_string(i)));
    mark_unit();
  }
  at::Tensor loss(const at::Tensor& input) {
    return call(input, [this](at::Tensor x) {
      for (const auto& block : blocks_) x = block->forward(x);
      return x.sum();
    });
  }

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
};

double median_us(std::int64_t steps, const std::function<void()>& step) {
  for (int i = 0; i < 5; ++i) step();
  std::vector<double> times;
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    step();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t units = argc > 1 ? std::atoll(argv[1]) : 24;
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 50;
  sx::prepare_process(true);
  sx::prepare_rank_thread({});
  const at::Tensor x = at::ones({4, kWidth});

  Stack plain(units);
  plain.allocate(at::kFloat);
  sx::init_parameters(plain, 1);
  const double without = median_us(steps, [&] {
    plain.loss(x).backward();
    for (sx::Parameter* parameter : plain.parameters()) parameter->tensor.mutable_grad().reset();
  });

  sx::Communicator world = sx::fake_world(kWorld, 0, {.fill = sx::FakeOptions::Fill::kNothing});
  sx::DataComms comms(world, 1, kWorld);
  Stack model(units);
  sx::Engine engine(model, comms,
                    {.preset = sx::Preset::kFsdp2, .layout = sx::LayoutKind::kPerParam},
                    at::kFloat);
  engine.init_parameters(1);
  const double with = median_us(steps, [&] {
    engine.begin_step();
    engine.begin_microbatch(true);
    engine.backward(model.loss(x), 1.0);
    engine.finish_grads();
  });
  const auto n = static_cast<double>(units);
  std::printf(
      "{\"bench\": \"fsdp_overhead\", \"system\": \"sextant\", \"units\": %ld, \"with_us\": "
      "%.1f, \"without_us\": %.1f, \"us_per_unit\": %.2f}\n",
      units, with, without, (with - without) / n);
  return 0;
}
