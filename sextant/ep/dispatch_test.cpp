#include "sextant/ep/dispatch.h"

#include "tests/equivalence/moe_plain.h"

namespace sx {
namespace {

using testing::MoeRanks;
using testing::random_normal;

/// Tokens of each of n coordinates: uneven, none on some.
std::vector<std::int64_t> token_cuts(std::int64_t n, std::int64_t total) {
  std::vector<std::int64_t> cuts{0};
  for (std::int64_t c = 0; c < n; ++c) {
    const std::int64_t given = c + 1 == n ? total - cuts.back() : (c * 5 + 3) % 7 % (total + 1);
    cuts.push_back(std::min(total, cuts.back() + (n > 1 && c == 1 ? 0 : given)));
  }
  cuts.back() = total;
  return cuts;
}

struct Given {
  at::Tensor x, weights, experts, g;  // all tokens
};

/// Random distinct experts per token; with `few` only the first two experts get any.
Given random_given(std::uint64_t seed, std::int64_t tokens, std::int64_t topk, std::int64_t experts,
                   c10::ScalarType dtype, bool few) {
  const std::string name = "given" + std::to_string(seed);
  at::Tensor scores = random_normal(name + "s", {tokens, experts}, c10::kDouble);
  if (few) scores.narrow(1, 0, 2).add_(100.0);
  Given given{
      random_normal(name + "x", {tokens, 4}, dtype),
      random_normal(name + "w", {tokens, topk}, dtype == c10::kDouble ? c10::kDouble : c10::kFloat),
      std::get<1>(at::topk(scores, topk, 1)).to(c10::kInt),
      random_normal(name + "g", {tokens, 4}, dtype)};
  const RandomStream stream(seed, "test.unrouted");
  for (std::int64_t t = 0; t < tokens; ++t) {
    if (stream.u64(static_cast<std::uint64_t>(t)) % 5 == 0) given.experts[t][topk - 1] = -1;
    if (few && topk > 2) given.experts[t].narrow(0, 2, topk - 2).fill_(-1);
  }
  return given;
}

struct Passed {
  at::Tensor y, dx, dw;
};

/// Experts that multiply by their number: equal bits whoever does it.
Passed pass(Communicator& ep, Communicator& etp, const Given& given, std::int64_t begin,
            std::int64_t end, std::int64_t num_experts, DispatchOptions options) {
  const auto own = [&](const at::Tensor& t) { return t.narrow(0, begin, end - begin).clone(); };
  at::Tensor x = own(given.x).set_requires_grad(true);
  at::Tensor weights = own(given.weights).set_requires_grad(true);
  const auto dispatch = make_dispatch({ep, etp}, num_experts, options);
  dispatch->start_dispatch(x, weights, own(given.experts));
  const ExpertRows rows = dispatch->finish_dispatch();
  const std::int64_t first = ep.coord() * (num_experts / ep.degree());
  std::vector<at::Tensor> factors;
  for (std::size_t e = 0; e < rows.rows_of_expert.size(); ++e) {
    factors.push_back(
        at::full({rows.rows_of_expert[e]},
                 1.0 + 0.37 * static_cast<double>(first + static_cast<std::int64_t>(e)),
                 rows.weights_R.options()));
  }
  const at::Tensor out =
      rows.rows_RH.mul(rows.weights_R.mul(at::cat(factors)).unsqueeze(1)).to(x.scalar_type());
  dispatch->start_combine(out);
  const at::Tensor y = dispatch->finish_combine();
  torch::autograd::backward({y}, {own(given.g)});
  return {y.detach(), x.grad(), weights.grad()};
}

void expect_same(const Passed& a, const Passed& b, const std::string& what) {
  EXPECT_TRUE(at::equal(a.y, b.y)) << what;
  EXPECT_TRUE(at::equal(a.dx, b.dx)) << what;
  EXPECT_TRUE(at::equal(a.dw, b.dw)) << what;
}

TEST(Dispatch, SlotOrderDoesNotDependOnTheNumberOfRanks) {
  for (const c10::ScalarType dtype : {c10::kDouble, c10::kBFloat16}) {
    const Given given = random_given(1, 19, 4, 8, dtype, false);
    Communicator solo = Communicator::solo(), solo2 = Communicator::solo();
    const Passed whole = pass(solo, solo2, given, 0, 19, 8, {});
    for (const std::int64_t n : {2, 4, 8}) {
      const auto cuts = token_cuts(n, 19);
      rank_test(n, [&](Communicator& world) {
        Communicator etp = Communicator::solo();
        const auto at = static_cast<std::size_t>(world.coord());
        const Passed own = pass(world, etp, given, cuts[at], cuts[at + 1], 8, {});
        const auto part = [&](const at::Tensor& t) {
          return t.narrow(0, cuts[at], cuts[at + 1] - cuts[at]);
        };
        expect_same(own, {part(whole.y), part(whole.dx), part(whole.dw)}, std::to_string(n));
      });
    }
  }
}

TEST(Dispatch, BothKindsGiveTheSameBitsOverRandomRoutings) {
  for (std::uint64_t seed = 10; seed < 26; ++seed) {
    const c10::ScalarType dtypes[] = {c10::kDouble, c10::kFloat, c10::kBFloat16};
    const c10::ScalarType dtype = dtypes[seed % 3];
    const std::int64_t tokens = static_cast<std::int64_t>(seed * 7 % 23);
    const Given given = random_given(seed, tokens, 4, 8, dtype, seed % 4 == 1);
    const std::int64_t n = seed % 2 == 0 ? 2 : 4;
    const auto cuts = token_cuts(n, tokens);
    rank_test(n, [&](Communicator& world) {
      Communicator etp = Communicator::solo();
      const auto at = static_cast<std::size_t>(world.coord());
      const auto run = [&](DispatchOptions options) {
        return pass(world, etp, given, cuts[at], cuts[at + 1], 8, options);
      };
      expect_same(run({.order = SumOrder::kCoordinate}), run({.kind = DispatchKind::kAllGather}),
                  "seed " + std::to_string(seed) + " rank " + std::to_string(at));
    });
  }
}

TEST(Dispatch, TwoChoicesHaveTheSameBitsInEveryOrder) {
  const Given given = random_given(3, 17, 2, 8, c10::kFloat, false);
  const auto cuts = token_cuts(4, 17);
  rank_test(4, [&](Communicator& world) {
    Communicator etp = Communicator::solo();
    const auto at = static_cast<std::size_t>(world.coord());
    const auto run = [&](DispatchKind kind) {
      return pass(world, etp, given, cuts[at], cuts[at + 1], 8, {.kind = kind});
    };
    expect_same(run(DispatchKind::kAllToAll), run(DispatchKind::kAllGather), "k 2");
  });
}

TEST(Dispatch, ExpertsGetTheirRowsByCoordinateThenToken) {
  rank_test(2, [&](Communicator& world) {
    for (const DispatchKind kind : {DispatchKind::kAllToAll, DispatchKind::kAllGather}) {
      Communicator etp = Communicator::solo();
      const auto dispatch = make_dispatch({world, etp}, 4, {.kind = kind});
      // Rank 0 has tokens 0 and 1, rank 1 has token 10.
      const bool first = world.coord() == 0;
      const std::int64_t tokens = first ? 2 : 1;
      at::Tensor x = at::full({tokens, 1}, first ? 0.0 : 10.0, c10::kFloat);
      if (first) x[1][0] = 1.0;
      const at::Tensor experts = first ? testing::long_tensor({3, 0, 2, 3}, {2, 2})
                                       : testing::long_tensor({2, -1}, {1, 2});
      dispatch->start_dispatch(x, at::ones({tokens, 2}, c10::kFloat), experts.to(c10::kInt));
      const ExpertRows rows = dispatch->finish_dispatch();
      const at::Tensor want =
          first ? testing::long_tensor({0}, {1, 1}) : testing::long_tensor({1, 10, 0, 1}, {4, 1});
      EXPECT_TRUE(at::equal(rows.rows_RH.to(c10::kLong), want));
      EXPECT_EQ(rows.rows_of_expert,
                first ? (std::vector<std::int64_t>{1, 0}) : (std::vector<std::int64_t>{2, 2}));
      dispatch->start_combine(rows.rows_RH);
      EXPECT_TRUE(at::equal(dispatch->finish_combine(), first ? x.mul(2.0) : x));
    }
  });
}

}  // namespace
}  // namespace sx
