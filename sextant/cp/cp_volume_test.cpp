// Bytes on the wire: what the communicators count against the closed forms.
#include "sextant/cp/cp_volume.h"

#include <gtest/gtest.h>

#include "sextant/cp/routes.h"
#include "sextant/cp/testing.h"
#include "tests/equivalence/rank_test.h"

namespace sx {
namespace {

using testing::CpCase;
using enum SeqPartitionKind;

TEST(CpVolume, KnownAnswers) {
  const CpPlan plan(kZigzag, std::vector<std::int64_t>{8192}, 4);
  CpSizes sizes{.rows = 1, .query_heads = 32, .key_heads = 8, .head_dim = 128};
  EXPECT_EQ(cp_volume(CpKind::kRing, plan, 1, sizes), (CpVolume{25165824, 92274688}));
  EXPECT_EQ(cp_volume(CpKind::kAllGather, plan, 1, sizes), (CpVolume{25165824, 75497472}));
  EXPECT_EQ(cp_volume(CpKind::kUlysses, plan, 1, sizes), (CpVolume{31457280, 31457280}));
  sizes.key_grad_bytes = 2;
  EXPECT_EQ(cp_volume(CpKind::kRing, plan, 1, sizes), (CpVolume{25165824, 58720256}));
}

/// c equal parts, no window: KV and Q are bytes of one part.
CpVolume closed_form(CpKind kind, std::int64_t c, std::int64_t kv, std::int64_t q,
                     std::int64_t inner) {
  switch (kind) {
    case CpKind::kRing: return {(c - 1) * kv, (c - 1) * kv + c * kv};
    case CpKind::kAllGather: return {(c - 1) * kv, 2 * (c - 1) * kv};
    case CpKind::kUlysses: {
      const std::int64_t bytes = (c - 1) * (2 * q + kv) / c;
      return {bytes, bytes};
    }
    case CpKind::kHybrid: {
      const std::int64_t bytes = (inner - 1) * (2 * q + kv) / inner, ring = c / inner;
      return {bytes + (ring - 1) * kv, bytes + (2 * ring - 1) * kv};
    }
  }
  return {};
}

std::int64_t sent(Communicator& world) {
  std::int64_t bytes = 0;
  for (const TrafficRow& row : world.session().traffic()) bytes += row.traffic.bytes;
  world.session().reset_traffic();
  return bytes;
}

void expect_counted(const CpCase& c, CpKind kind, CpComms& comms, bool even) {
  Communicator& world = comms.cp();
  const auto plan =
      std::make_shared<const CpPlan>(c.partition, c.documents, world.degree(), c.mask);
  const ContextAttention attention(kind, plan, comms);
  const auto make = [&](std::int64_t heads) {
    return testing::random_normal("x", {c.rows, plan->num_tokens(world.coord()), heads, c.head_dim},
                                  at::kDouble)
        .set_requires_grad(true);
  };
  const at::Tensor q = make(c.query_heads), k = make(c.key_heads), v = make(c.key_heads);
  sent(world);
  const at::Tensor out = attention(q, k, v);
  CpVolume counted;
  counted.forward = sent(world);
  out.sum().backward();
  counted.backward = sent(world);
  const CpVolume predicted =
      cp_volume(kind, *plan, world.coord(), {c.rows, c.query_heads, c.key_heads, c.head_dim, 8, 8},
                comms.inner_degree());
  const std::string where = c.name + " " + to_string(kind) + ", coordinate " +
                            std::to_string(world.coord()) + " of " + std::to_string(world.degree());
  EXPECT_EQ(counted.forward, predicted.forward) << where;
  EXPECT_EQ(counted.backward, predicted.backward) << where;
  if (!even) return;
  const std::int64_t token = c.rows * c.head_dim * 8 * c.length() / world.degree();
  const CpVolume closed = closed_form(kind, world.degree(), 2 * c.key_heads * token,
                                      c.query_heads * token, comms.inner_degree());
  EXPECT_EQ(counted.forward, closed.forward) << where;
  EXPECT_EQ(counted.backward, closed.backward) << where;
}

// 4 layouts x 4 numbers of ranks x 3 to 5 kinds.
TEST(CpVolume, CommunicatorsCountTheClosedForms) {
  const std::vector<std::pair<CpCase, bool>> cases = {
      {{.name = "even",
        .documents = {96},
        .query_heads = 48,
        .key_heads = 24,
        .rows = 2,
        .head_dim = 2},
       true},
      {{.name = "odd", .documents = {37}, .query_heads = 7, .key_heads = 1}, false},
      {{.name = "packed",
        .partition = kDocument,
        .documents = {7, 23, 1, 12},
        .query_heads = 12,
        .key_heads = 3},
       false},
      {{.name = "window", .documents = {60}, .mask = AttentionMask::window(5), .query_heads = 6},
       false},
  };
  for (const auto& [c, even] : cases) {
    for (const std::int64_t ranks : {2, 3, 4, 8}) {
      rank_test(ranks, [&, &c = c, even = even](Communicator& world) {
        for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses}) {
          CpComms comms(world);
          expect_counted(c, kind, comms, even);
        }
        for (std::int64_t inner = 2; inner < ranks; ++inner) {
          if (ranks % inner != 0) continue;
          CpComms comms(world, inner);
          expect_counted(c, CpKind::kHybrid, comms, even);
        }
      });
    }
  }
}

TEST(HeadShares, CoverEveryHead) {
  for (const auto& [n, g] :
       {std::pair<std::int64_t, std::int64_t>{12, 3}, {7, 1}, {8, 2}, {6, 6}}) {
    for (std::int64_t c = 1; c <= 9; ++c) {
      const HeadShares shares(n, g, c);
      std::int64_t next = 0;
      for (std::int64_t r = 0; r < c; ++r) {
        const auto [first, count] = shares.query[static_cast<std::size_t>(r)];
        EXPECT_EQ(first, next);
        next += count;
        std::int64_t covered = 0;
        for (const HeadRun& run : shares.runs(r)) {
          EXPECT_EQ(run.query, covered);
          for (std::int64_t h = 0; h < run.num_query; ++h) {
            const std::int64_t key = run.key + h / (run.num_query / run.num_key);
            EXPECT_EQ(shares.key[static_cast<std::size_t>(r)].first + key,
                      (first + run.query + h) / (n / g));
          }
          covered += run.num_query;
        }
        EXPECT_EQ(covered, count);
      }
      EXPECT_EQ(next, n);
    }
  }
}

}  // namespace
}  // namespace sx
