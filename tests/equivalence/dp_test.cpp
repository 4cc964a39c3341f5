// Data parallelism against one process: the same rows cut into ranks and microbatches in every way
// give the same run.
//
// Bitwise where every rank runs the same local shapes and sums are folded in the same order (W
// ranks with one microbatch, one rank with W); within rounding where the order of sums differs (two
// ranks with two microbatches); bitwise again, whatever the order, for a model whose sums are
// exact.
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/remainder.h>

#include <cmath>
#include <mutex>

#include <fmt/format.h>

#include "sextant/base/rng.h"
#include "sextant/dist/threads.h"
#include "sextant/dp/engine.h"
#include "sextant/train/parallelize.h"
#include "sextant/train/step.h"

namespace sx {
namespace {

struct Cut {
  std::int64_t ranks = 1;
  std::int64_t micro_batches = 1;
};

struct RunBits {
  std::vector<double> losses;
  std::vector<at::Tensor> gradients;  // of the last step
  std::vector<at::Tensor> weights;
};

constexpr std::int64_t kSteps = 20;
constexpr std::int64_t kSeqLen = 16;

std::shared_ptr<const Dataset> make_tokens() {
  std::vector<std::int32_t> tokens(6000);
  const RandomStream random(7, "test.dp_tokens");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(random.u64(i) % 50 + (i % 7));
  }
  std::vector<std::uint64_t> starts;
  for (std::uint64_t at = 0; at < tokens.size(); at += 37) starts.push_back(at);
  return Dataset::from_members(
      {{"tokens", make_memory_source(std::move(tokens), std::move(starts)), 1}});
}

Recipe make_recipe(Dtype dtype, const Cut& cut) {
  Recipe recipe;
  recipe.run.seed = 11;
  recipe.training.dtype = dtype;
  recipe.training.steps = kSteps;
  recipe.training.seq_len = kSeqLen;
  recipe.training.micro_batch_size = 2;
  recipe.training.global_batch_size = 2 * cut.ranks * cut.micro_batches;
  recipe.parallelism.dp_replicate = cut.ranks;
  recipe.parallelism.zero = Zero::kDdp;
  recipe.optimizer.lr = 3e-3;
  return recipe;
}

ModelShape make_shape(Arch arch) {
  ModelShape shape = defaults_for(arch);
  shape.num_layers = 2;
  shape.hidden = 32;
  shape.ffn_hidden = 64;
  shape.num_heads = 4;
  shape.num_heads_kv = arch == Arch::kLlama ? 2 : 4;
  shape.head_dim = 8;
  shape.vocab_size = 60;
  shape.vocab_pad_to = 32;
  shape.max_positions = kSeqLen;
  return shape;
}

RunBits train(Arch arch, Dtype dtype, const Cut& cut, int workers = 1) {
  const auto dataset = make_tokens();
  const Recipe recipe = make_recipe(dtype, cut);
  RunBits bits;
  run_ranks(cut.ranks, [&](Communicator& world) {
    StepRecorder recorder;
    RunContext run{recipe, world, recorder};
    ParallelModel model = parallelize(make_shape(arch), run);
    LoaderOptions options;
    options.seq_len = kSeqLen;
    options.micro_batch_size = recipe.training.micro_batch_size;
    options.micro_batches = cut.micro_batches;
    options.data_rank = world.coord();
    options.data_world = world.degree();
    options.workers = workers;
    Loader loader = Loader::open(dataset, options).value();
    std::vector<double> losses;
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      losses.push_back(train_step(run, model, loader, step, recipe.optimizer.lr, {}).loss);
    }
    if (world.coord() != 0) return;
    bits.losses = losses;
    for (const OwnedPart& part : model.engine->owned()) {
      bits.gradients.push_back(part.grad.clone());
      bits.weights.push_back(part.master.clone());
    }
  });
  return bits;
}

void expect_bit_equal(const RunBits& a, const RunBits& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_EQ(a.losses[i], b.losses[i]) << "step " << i + 1;
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(a.gradients[i], b.gradients[i])) << "gradient " << i;
    EXPECT_TRUE(at::equal(a.weights[i], b.weights[i])) << "weight " << i;
  }
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  const double scale = std::max(1e-30, a.abs().max().item<double>());
  return (a - b).abs().max().item<double>() / scale;
}

void expect_close(const RunBits& a, const RunBits& b, double loss_bound, double gradient_bound) {
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i] / b.losses[i], 1.0, loss_bound) << "step " << i + 1;
  }
  double worst = 0;
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    worst = std::max(worst, largest_difference(a.gradients[i], b.gradients[i]));
  }
  EXPECT_LE(worst, gradient_bound);
  testing::Test::RecordProperty("worst_gradient_difference", fmt::format("{:.3g}", worst));
}

class DataParallelBits : public testing::TestWithParam<std::tuple<Arch, Dtype, std::int64_t>> {};

TEST_P(DataParallelBits, RanksEqualMicrobatches) {
  const auto [arch, dtype, degree] = GetParam();
  const RunBits one = train(arch, dtype, {.ranks = 1, .micro_batches = degree});
  const RunBits many = train(arch, dtype, {.ranks = degree, .micro_batches = 1});
  EXPECT_LT(one.losses.back(), one.losses.front());
  expect_bit_equal(one, many);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, DataParallelBits,
                         testing::Combine(testing::Values(Arch::kLlama, Arch::kGpt2),
                                          testing::Values(Dtype::kFp64, Dtype::kFp32),
                                          testing::Values<std::int64_t>(2, 4)));

// (0+1)+(2+3) against 0+1+2+3: another order of the same sums.
TEST(DataParallelOrder, TwoByTwoWithinRounding) {
  const RunBits one = train(Arch::kLlama, Dtype::kFp64, {.ranks = 1, .micro_batches = 4});
  const RunBits two = train(Arch::kLlama, Dtype::kFp64, {.ranks = 2, .micro_batches = 2});
  expect_close(one, two, 1e-12, 1e-11);
  // The first step's loss has no history of rounding, and is folded in batch order on every layout.
  EXPECT_EQ(one.losses.front(), two.losses.front());
  const RunBits four = train(Arch::kLlama, Dtype::kFp64, {.ranks = 4, .micro_batches = 1});
  expect_close(four, two, 1e-12, 1e-11);
}

TEST(DataParallelOrder, TwoByTwoWithinRoundingFp32) {
  const RunBits one = train(Arch::kLlama, Dtype::kFp32, {.ranks = 1, .micro_batches = 4});
  const RunBits two = train(Arch::kLlama, Dtype::kFp32, {.ranks = 2, .micro_batches = 2});
  EXPECT_EQ(one.losses.front(), two.losses.front());
  // Twenty steps of Adam carry first roundings along: losses stay within 1e-4 of each other.
  for (std::size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(one.losses[i] / two.losses[i], 1.0, 1e-4);
}

TEST(DataParallelLoader, ThreadsDoNotChangeBits) {
  const RunBits reference = train(Arch::kLlama, Dtype::kFp32, {.ranks = 2, .micro_batches = 2}, 0);
  for (const int workers : {1, 2, 5}) {
    SCOPED_TRACE(workers);
    expect_bit_equal(reference,
                     train(Arch::kLlama, Dtype::kFp32, {.ranks = 2, .micro_batches = 2}, workers));
  }
}

// loss = sum over (x W) * t with x, W, t small multiples of 1/16: every product and sum is exact in
// fp32, so a wrong, missing or doubled term shows without any tolerance, under every order.
class ExactModel : public Module {
 public:
  ExactModel() : weight_(add_parameter("weight", {8, 24}, {.kind = InitKind::kZeros}, true)) {}
  at::Tensor loss(std::int64_t row) {
    const auto small = [](std::int64_t count, std::int64_t salt) {
      return (at::remainder(at::arange(count, at::kLong) * (2 * salt + 1) + salt, 33) - 16)
                 .to(at::kFloat) /
             16;
    };
    const at::Tensor x = small(4 * 8, row).view({4, 8});
    const at::Tensor t = small(4 * 24, row + 100).view({4, 24});
    return (x.matmul(weight_.tensor) * t).sum();
  }
  at::Tensor weight() { return weight_.tensor; }

 private:
  Parameter& weight_;
};

at::Tensor train_exact(const Cut& cut) {
  at::Tensor weights;
  run_ranks(cut.ranks, [&](Communicator& world) {
    ExactModel model;
    DataComms comms(world, world.degree(), 1);
    Engine engine(model, comms, {.preset = Preset::kDdp}, at::kFloat);
    engine.init_parameters(1);
    for (std::int64_t step = 0; step < 3; ++step) {
      engine.begin_step();
      for (std::int64_t m = 0; m < cut.micro_batches; ++m) {
        const std::int64_t row = (step * cut.micro_batches + m) * world.degree() + world.coord();
        engine.begin_microbatch(m + 1 == cut.micro_batches);
        engine.backward(model.loss(row), 1.0);
      }
      engine.finish_grads();
      const OwnedPart& part = engine.owned()[0];
      part.master.narrow(0, 0, part.end).sub_(part.grad, 1.0 / 16);
      engine.commit();
    }
    if (world.coord() == 0) weights = model.weight().detach().clone();
  });
  return weights;
}

TEST(DataParallelExact, EveryCutGivesTheSameBits) {
  const at::Tensor reference = train_exact({.ranks = 1, .micro_batches = 8});
  EXPECT_GT(reference.abs().max().item<double>(), 0);
  for (const Cut cut : {Cut{8, 1}, Cut{4, 2}, Cut{2, 4}}) {
    EXPECT_TRUE(at::equal(reference, train_exact(cut))) << cut.ranks << " x " << cut.micro_batches;
  }
}

}  // namespace
}  // namespace sx
