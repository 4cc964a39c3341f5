#include "sextant/ep/capacity.h"

#include <ATen/ops/arange.h>

#include "tests/equivalence/moe_plain.h"

namespace sx {
namespace {

at::Tensor ints(const std::vector<std::int64_t>& values, std::int64_t topk) {
  return testing::long_tensor(values, {static_cast<std::int64_t>(values.size()) / topk, topk})
      .to(c10::kInt);
}

TEST(Capacity, PlacesAsPublished) {
  EXPECT_EQ(expert_capacity(4096, 8, 256, 1.25), 160);
  EXPECT_EQ(expert_capacity(10, 2, 8, 1.0), 3);
  EXPECT_EQ(expert_capacity(100, 1, 1, 1.1), 110)
      << "not 111, as the rounding of 1.1 would have it";
  EXPECT_EQ(expert_capacity(0, 2, 8, 1.0), 0);
}

TEST(Capacity, DropsTheSmallestWeightsTiesByPosition) {
  Communicator solo = Communicator::solo();
  CapacityInput input{.experts_TK = ints({0, 0, 0, 1, 0, 1}, 1), .num_experts = 3};
  input.weights_TK = at::empty({6, 1}, c10::kFloat);
  const float weights[] = {0.5f, 0.9f, 0.5f, 0.1f, 0.7f, 0.2f};
  std::copy_n(weights, 6, input.weights_TK.mutable_data_ptr<float>());
  // ceil(6 / 3 * 1.5) = 3 places: token 2 loses to token 0 with the same weight.
  EXPECT_TRUE(
      at::equal(apply_capacity(input, {.factor = 1.5}, solo), ints({0, 0, -1, 1, 0, 1}, 1)));
  EXPECT_TRUE(
      at::equal(apply_capacity(input, {.factor = 1.5, .policy = CapacityPolicy::kPosition}, solo),
                ints({0, 0, 0, 1, -1, 1}, 1)));
  EXPECT_TRUE(at::equal(apply_capacity(input, {.factor = 3.0}, solo), input.experts_TK))
      << "no drop if there is a place for every token";
  EXPECT_TRUE(at::equal(apply_capacity(input, {}, solo), input.experts_TK));
}

TEST(Capacity, EachSequenceByItselfAndPaddingTakesNoPlace) {
  Communicator solo = Communicator::solo();
  CapacityInput input{
      .experts_TK = ints({0, 0, 0, 0, 0, -1}, 1), .num_sequences = 2, .num_experts = 3};
  input.weights_TK = at::ones({6, 1}, c10::kFloat);
  input.padding_T = at::zeros({6}, c10::kBool);
  input.padding_T[5] = true;
  // One place a sequence: 3 or 2 tokens, 3 experts, factor 1.
  EXPECT_TRUE(
      at::equal(apply_capacity(input, {.factor = 1.0}, solo), ints({0, -1, -1, 0, -1, -1}, 1)));
  EXPECT_TRUE(at::equal(apply_capacity(input, {.factor = 1.0, .scope = CapacityScope::kRank}, solo),
                        ints({0, 0, -1, -1, -1, -1}, 1)))
      << "two places for the five tokens of the rank";
}

TEST(Capacity, ASplitSequenceLosesTheSamePairs) {
  constexpr std::int64_t kBatch = 2, kTokens = 13, kTopk = 2, kExperts = 5;
  const at::Tensor logits =
      testing::random_normal("logits", {kBatch, kTokens, kExperts}, c10::kFloat);
  const Routing routing =
      route(logits.view({-1, kExperts}).mul(2.0), {}, {}, {.num_experts = kExperts, .topk = kTopk});
  const at::Tensor experts = routing.experts_TK.view({kBatch, kTokens, kTopk});
  const at::Tensor weights = routing.weights_TK.view({kBatch, kTokens, kTopk});
  for (const CapacityPolicy policy : {CapacityPolicy::kProbs, CapacityPolicy::kPosition}) {
    const CapacityOptions options{.factor = 0.8, .policy = policy};
    Communicator solo = Communicator::solo();
    const at::Tensor whole =
        apply_capacity({routing.experts_TK, routing.weights_TK, kBatch, {}, {}, kExperts}, options,
                       solo)
            .view({kBatch, kTokens, kTopk});
    EXPECT_GT(whole.eq(-1).sum().item<std::int64_t>(), 4);
    // Contiguous parts of 3, 0, 9 and 1 tokens; and parts that lie scattered, by positions.
    const std::vector<std::int64_t> cuts{0, 3, 3, 12, 13};
    rank_test(4, [&](Communicator& world) {
      const auto part = [&](const at::Tensor& all, const at::Tensor& places) {
        return all.index_select(1, places).reshape({-1, all.size(2)});
      };
      const auto at = static_cast<std::size_t>(world.coord());
      const at::Tensor row = at::arange(cuts[at], cuts[at + 1], c10::kLong);
      EXPECT_TRUE(at::equal(
          apply_capacity({part(experts, row), part(weights, row), kBatch, {}, {}, kExperts},
                         options, world),
          part(whole, row)));
      const at::Tensor scattered = at::arange(world.coord(), kTokens, 4, c10::kLong);
      EXPECT_TRUE(at::equal(apply_capacity({part(experts, scattered),
                                            part(weights, scattered),
                                            kBatch,
                                            {},
                                            scattered.repeat({kBatch}),
                                            kExperts},
                                           options, world),
                            part(whole, scattered)));
    });
  }
}

}  // namespace
}  // namespace sx
