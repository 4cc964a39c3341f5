#include "sextant/ep/permute.h"

#include "tests/equivalence/moe_plain.h"

namespace sx {
namespace {

using testing::random_normal;

/// Random choices of distinct experts; some pairs are not routed, some experts get nothing.
std::vector<std::int32_t> random_choices(std::uint64_t seed, std::int64_t tokens, std::int64_t topk,
                                         std::int64_t experts) {
  const RandomStream stream(seed, "test.choices");
  std::uint64_t at = 0;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(stream.u64(at++) % static_cast<std::uint64_t>(n));
  };
  const std::int64_t used = 1 + below(experts);  // experts that take part at all
  std::vector<std::int32_t> out;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<std::int32_t> all;
    for (std::int32_t e = 0; e < used; ++e) all.push_back(e);
    for (std::int64_t k = 0; k < topk; ++k) {
      if (all.empty() || below(8) == 0) {
        out.push_back(-1);
        continue;
      }
      const auto i = below(static_cast<std::int64_t>(all.size()));
      out.push_back(all[static_cast<std::size_t>(i)]);
      all.erase(all.begin() + i);
    }
  }
  return out;
}

TEST(Permute, SortsByExpertThenToken) {
  const std::vector<std::int32_t> experts{2, 0, /**/ -1, 2, /**/ 0, 1};
  const ExpertSort sorted = sort_by_expert(experts, 2, {0, 4, 4}, SumOrder::kSlot);
  EXPECT_EQ(sorted.rows_of_expert, (std::vector<std::int64_t>{2, 1, 2, 0}));
  EXPECT_EQ(sorted.tokens->source_of_row, (std::vector<std::int64_t>{0, 2, 2, 0, 1}));
  EXPECT_EQ(sorted.pairs->source_of_row, (std::vector<std::int64_t>{1, 4, 5, 0, 3}));
  EXPECT_EQ(sorted.tokens->term, (std::vector<std::int64_t>{3, 0, 4, 1, 2})) << "in slot order";
  const ExpertSort upper = sort_by_expert(experts, 2, {2, 2, 2}, SumOrder::kSlot);
  EXPECT_EQ(upper.rows_of_expert, (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(upper.tokens->source_of_row, (std::vector<std::int64_t>{0, 1}));
  EXPECT_THROW(sort_by_expert(std::vector<std::int32_t>{1, 1}, 2, {0, 4, 4}, SumOrder::kSlot),
               ContractError);
}

TEST(Permute, PermuteThenUnpermuteIsTheIdentityBitForBit) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::int64_t tokens = static_cast<std::int64_t>(seed % 9) * 3, experts = 7;
    const auto choices = random_choices(seed, tokens, 1, experts);
    const ExpertSort sorted = sort_by_expert(choices, 1, {0, experts, experts}, SumOrder::kSlot);
    const at::Tensor x = random_normal("x", {tokens, 5}, c10::kDouble);
    const at::Tensor back = sum_rows(copy_rows(x, sorted.tokens), sorted.tokens);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const bool routed = choices[static_cast<std::size_t>(t)] >= 0;
      EXPECT_TRUE(at::equal(back[t], routed ? x[t] : at::zeros_like(x[t]))) << "seed " << seed;
    }
  }
}

TEST(Permute, RandomRoutingsKeepCountsAndSumInOrder) {
  for (std::uint64_t seed = 100; seed < 160; ++seed) {
    const std::int64_t tokens = static_cast<std::int64_t>(seed % 11) * 2, topk = 4, experts = 9;
    const auto choices = random_choices(seed, tokens, topk, experts);
    const ExpertSort sorted = sort_by_expert(
        choices, topk, {0, experts, 3}, seed % 2 == 0 ? SumOrder::kSlot : SumOrder::kCoordinate);
    std::int64_t routed = 0, total = 0;
    for (const std::int32_t e : choices) routed += e >= 0 ? 1 : 0;
    for (const std::int64_t n : sorted.rows_of_expert) total += n;
    EXPECT_EQ(total, routed) << "seed " << seed;
    for (const c10::ScalarType dtype : {c10::kDouble, c10::kFloat, c10::kBFloat16, c10::kHalf}) {
      const at::Tensor rows = random_normal("rows", {total, 3}, dtype);
      const at::Tensor sum = sum_rows(rows, sorted.tokens);
      const auto wide = dtype == c10::kDouble ? c10::kDouble : c10::kFloat;
      std::vector<std::int64_t> row_of_pair(choices.size(), -1);
      for (std::int64_t r = 0; r < total; ++r)
        row_of_pair[static_cast<std::size_t>(
            sorted.pairs->source_of_row[static_cast<std::size_t>(r)])] = r;
      for (std::int64_t t = 0; t < tokens; ++t) {
        at::Tensor all = at::zeros({3}, wide);
        const std::int64_t step = seed % 2 == 0 ? experts : 3;
        for (std::int64_t c = 0; c < experts / step; ++c) {
          at::Tensor partial = at::zeros({3}, wide);
          for (std::int64_t k = 0; k < topk; ++k) {
            const auto pair = static_cast<std::size_t>(t * topk + k);
            if (choices[pair] >= 0 && choices[pair] / step == c)
              partial = partial.add(rows[row_of_pair[pair]].to(wide));
          }
          all = all.add(partial.to(dtype).to(wide));
        }
        EXPECT_TRUE(at::equal(sum[t], all.to(dtype))) << "seed " << seed << " token " << t;
      }
    }
  }
}

TEST(Permute, GradientsAreTheAdjoints) {
  const auto choices = random_choices(5, 12, 3, 6);
  const ExpertSort sorted = sort_by_expert(choices, 3, {0, 6, 6}, SumOrder::kSlot);
  at::Tensor x = random_normal("x", {12, 4}, c10::kDouble).set_requires_grad(true);
  const at::Tensor rows = copy_rows(x, sorted.tokens);
  const at::Tensor g = random_normal("g", rows.sizes().vec(), c10::kDouble);
  torch::autograd::backward({rows}, {g});
  EXPECT_TRUE(at::equal(x.grad(), sum_rows(g, sorted.tokens)));
  at::Tensor y = g.clone().set_requires_grad(true);
  const at::Tensor seed = random_normal("s", {12, 4}, c10::kDouble);
  torch::autograd::backward({sum_rows(y, sorted.tokens)}, {seed});
  EXPECT_TRUE(at::equal(y.grad(), copy_rows(seed, sorted.tokens)));
}

TEST(Permute, BlocksChangePlaces) {
  const auto map = transpose_blocks({{2, 0, 1}, {1, 3, 0}});
  EXPECT_EQ(map->source_of_row, (std::vector<std::int64_t>{0, 1, 3, 4, 5, 6, 2}));
  const at::Tensor x = random_normal("x", {7, 2}, c10::kFloat);
  EXPECT_TRUE(at::equal(sum_rows(copy_rows(x, map), map), x));
}

}  // namespace
}  // namespace sx
