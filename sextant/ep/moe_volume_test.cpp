// Bytes that a rank sends for one layer and microbatch, counted, against the planner's formulas.
#include <ATen/ops/ones_like.h>

#include "sextant/ep/moe_layer.h"
#include "sextant/plan/ep_volume.h"
#include "tests/equivalence/moe_plain.h"

namespace sx {
namespace {

/// Choices such that all experts get equally many.
at::Tensor balanced(const EpChoice& choice) {
  at::Tensor experts = at::empty({choice.tokens, choice.topk}, c10::kInt);
  auto* to = experts.mutable_data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < experts.numel(); ++i)
    to[i] = static_cast<std::int32_t>(i % choice.num_experts);
  return experts;
}

std::int64_t sent(Communicator& world) {
  std::int64_t bytes = 0;
  for (const TrafficRow& row : world.session().traffic()) bytes += row.traffic.bytes;
  world.session().reset_traffic();
  return bytes;
}

TEST(MoeVolume, PublishedSizes) {
  EpChoice choice{.ep = 8, .tokens = 4096, .topk = 8, .hidden = 7168, .num_experts = 256};
  EXPECT_EQ(ep_layer_traffic(choice).rows, 822'083'584);
  choice.all_gather = true;
  EXPECT_EQ(ep_layer_traffic(choice).rows, 822'083'584) << "equal because k = ep";
}

TEST(MoeVolume, CountedBytesAreTheFormula) {
  int layouts = 0;
  const std::pair<c10::ScalarType, std::int64_t> dtypes[] = {{c10::kBFloat16, 2},
                                                             {c10::kDouble, 8}};
  for (const auto& [dtype, item] : dtypes) {
    for (const bool all_gather : {false, true}) {
      for (const testing::MoeRanks ranks : {testing::MoeRanks{},
                                            {.ep = 2},
                                            {.etp = 2},
                                            {.ep = 4},
                                            {.ep = 2, .etp = 2},
                                            {.edp = 2, .ep = 2},
                                            {.ep = 8},
                                            {.ep = 4, .etp = 2}}) {
        EpChoice choice{.ep = ranks.ep, .etp = ranks.etp, .all_gather = all_gather, .tokens = 48};
        choice.topk = 4;
        choice.hidden = 32;
        choice.num_experts = 16;
        choice.stream_bytes = item;
        const EpTraffic want = ep_layer_traffic(choice);
        ++layouts;
        rank_test(ranks.size(), [&, dtype = dtype](Communicator& world) {
          testing::MoeComms comms = testing::make_comms(world, ranks);
          at::Tensor x = testing::random_normal("x", {48, 32}, dtype).set_requires_grad(true);
          at::Tensor weights =
              testing::random_normal("w", {48, 4}, c10::kFloat).set_requires_grad(true);
          const auto dispatch = make_dispatch(
              {comms.ep, comms.etp}, 16,
              {.kind = all_gather ? DispatchKind::kAllGather : DispatchKind::kAllToAll});
          world.session().reset_traffic();
          dispatch->start_dispatch(x, weights, balanced(choice));
          const ExpertRows rows = dispatch->finish_dispatch();
          dispatch->start_combine(rows.rows_RH.mul(rows.weights_R.unsqueeze(1)).to(dtype));
          const at::Tensor y = dispatch->finish_combine();
          EXPECT_EQ(sent(world), want.forward()) << ranks.name() << " gather " << all_gather;
          torch::autograd::backward({y}, {at::ones_like(y)});
          EXPECT_EQ(sent(world), want.backward()) << ranks.name() << " gather " << all_gather;
        });
      }
    }
  }
  EXPECT_EQ(layouts, 32);
}

}  // namespace
}  // namespace sx
