// Every kind of context parallelism against attention over the whole row, in fp64.
#include "sextant/cp/context_attention.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <array>

#include "sextant/base/check.h"
#include "sextant/cp/every_kind_test.h"
#include "sextant/nn/attention.h"
#include "sextant/tensor/memory_tracker.h"

namespace sx {
namespace {

using testing::CpCase;
using testing::FlatRun;
using enum SeqPartitionKind;

std::vector<CpCase> cases() {
  std::vector<CpCase> out;
  out.push_back({.name = "even", .documents = {48}, .rows = 2});
  out.push_back({.name = "odd", .documents = {37}, .query_heads = 6});
  out.push_back({.name = "packed", .partition = kDocument, .documents = {7, 23, 1, 0, 12}});
  out.push_back(
      {.name = "packed as one", .documents = {7, 23, 1, 12}, .query_heads = 5, .key_heads = 5});
  out.push_back({.name = "full",
                 .partition = kContiguous,
                 .documents = {29},
                 .mask = AttentionMask::full(),
                 .query_heads = 7,
                 .key_heads = 1});
  out.push_back({.name = "full packed",
                 .partition = kDocument,
                 .documents = {11, 20},
                 .mask = AttentionMask::full(),
                 .rows = 2});
  out.push_back({.name = "window", .documents = {60}, .mask = AttentionMask::window(9)});
  out.push_back({.name = "window packed",
                 .partition = kDocument,
                 .documents = {40, 17},
                 .mask = AttentionMask::window(5),
                 .query_heads = 12,
                 .key_heads = 3});
  out.push_back({.name = "both sides", .documents = {33}, .mask = {3, 2}, .rows = 3});
  out.push_back({.name = "few tokens", .documents = {5}, .rows = 2});
  out.push_back({.name = "causal contiguous", .partition = kContiguous, .documents = {19}});
  out.push_back({.name = "sink",
                 .partition = kDocument,
                 .documents = {9, 18},
                 .query_heads = 6,
                 .sink = true});
  return out;
}

TEST(ContextAttention, EqualsFlatAttention) {
  for (const CpCase& c : cases()) {
    const FlatRun flat = testing::flat_run(c);
    for (const std::int64_t ranks : {1, 2, 3, 4, 8}) testing::expect_flat_on(c, flat, ranks);
  }
}

// The ends of the hybrid are the ring and Ulysses, to the bit.
TEST(ContextAttention, HybridEndsAreRingAndUlysses) {
  const CpCase c{.name = "ends", .documents = {41}, .query_heads = 6, .rows = 2};
  const FlatRun flat = testing::flat_run(c);
  rank_test(4, [&](Communicator& world) {
    for (const auto& [kind, inner] :
         {std::pair{CpKind::kRing, 1}, std::pair{CpKind::kUlysses, 4}}) {
      CpComms plain(world), hybrid(world, inner);
      const testing::RankRun a = testing::rank_run(c, flat, kind, plain);
      const testing::RankRun b = testing::rank_run(c, flat, CpKind::kHybrid, hybrid);
      EXPECT_TRUE(at::equal(a.out, b.out) && at::equal(a.dq, b.dq) && at::equal(a.dk, b.dk) &&
                  at::equal(a.dv, b.dv));
    }
  });
}

// One rank: the bits of plain attention, nothing sent, and not one allocation more.
TEST(ContextAttention, IsPlainAttentionOnOneRank) {
  install_memory_tracker();
  const std::vector<std::int64_t> documents = {9, 14};
  const auto make = [](const char* name, std::int64_t heads) {
    return testing::random_normal(name, {2, 23, heads, 8}, at::kFloat).set_requires_grad(true);
  };
  const at::Tensor q = make("q", 4), k = make("k", 2), v = make("v", 2);
  const auto counter = std::make_shared<MemoryCounter>();
  const MemoryAccount account(counter);
  const auto allocations = [&](const auto& body) {
    const std::int64_t before = counter->read().allocations;
    body();
    return counter->read().allocations - before;
  };
  const std::vector<AttentionSegment> segments = {{0, 2, 0, 9}, {0, 2, 9, 14}};
  for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses, CpKind::kHybrid}) {
    Communicator world = Communicator::solo();
    CpComms comms(world);
    const ContextAttention attention(kind, std::make_shared<const CpPlan>(kDocument, documents, 1),
                                     comms);
    at::Tensor ours, plain;
    const std::int64_t a = allocations([&] { ours = attention(q, k, v); });
    const std::int64_t b = allocations([&] { plain = causal_attention(q, k, v, segments); });
    EXPECT_TRUE(at::equal(ours, plain));
    EXPECT_EQ(a, b);
    EXPECT_TRUE(world.session().traffic().empty());
  }
}

// Keys and values travel in two buffers, whatever the number of ranks.
TEST(ContextAttention, RingHasTwoBuffers) {
  install_memory_tracker();
  const std::int64_t tokens = 64, heads = 2, d = 16;
  for (const std::int64_t ranks : {2, 4, 8}) {
    rank_test(ranks, [&](Communicator& world) {
      const CpCase c{.name = "buffers", .documents = {tokens * ranks}, .head_dim = d};
      CpComms comms(world);
      const auto plan = std::make_shared<const CpPlan>(c.partition, c.documents, ranks, c.mask);
      const ContextAttention attention(CpKind::kRing, plan, comms);
      const auto make = [&](std::int64_t n) {
        return testing::random_normal("x", {1, tokens, n, d}, at::kFloat).set_requires_grad(true);
      };
      const at::Tensor q = make(4), k = make(heads), v = make(heads);
      const auto counter = std::make_shared<MemoryCounter>();
      const MemoryAccount account(counter);
      const at::Tensor out = attention(q, k, v);
      const std::int64_t key_values = 2 * tokens * heads * d * 4;
      const auto at = static_cast<std::size_t>(MemoryCategory::kCommBuffers);
      EXPECT_EQ(counter->read().at_peak[at], 2 * key_values) << ranks << " ranks";
      EXPECT_EQ(counter->read().live[at], 0);
      counter->reset_peaks();
      out.sum().backward();
      EXPECT_EQ(counter->read().at_peak[at], 5 * key_values) << ranks << " ranks";
      // Keys and their gradients are on their way at the same time.
      if (ranks > 2) {
        EXPECT_GE(world.session().max_in_flight(), 2);
      }
    });
  }
}

TEST(ContextAttention, SaysWhatDoesNotFit) {
  Communicator world = Communicator::solo();
  CpComms comms(world);
  const std::vector<std::int64_t> documents = {8};
  const auto plan = std::make_shared<const CpPlan>(kZigzag, documents, 1);
  const ContextAttention attention(CpKind::kRing, plan, comms);
  const auto make = [](std::int64_t tokens, std::int64_t heads) {
    return testing::random_normal("x", {1, tokens, heads, 4}, at::kFloat);
  };
  EXPECT_THROW(attention(make(7, 2), make(7, 2), make(7, 2)), ContractError);
  EXPECT_THROW(attention(make(8, 3), make(8, 2), make(8, 2)), ContractError);
  EXPECT_THROW(attention(make(8, 2), make(8, 2), make(8, 2), make(8, 2)), ContractError);
  EXPECT_THROW(CpComms(world, 2), ContractError);
  EXPECT_THROW(
      ContextAttention(CpKind::kRing, std::make_shared<const CpPlan>(kZigzag, documents, 2), comms),
      ContractError);
  EXPECT_FALSE(parse_cp_kind("p2p"));
  for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses, CpKind::kHybrid}) {
    EXPECT_EQ(parse_cp_kind(to_string(kind)).value(), kind);
  }
}

}  // namespace
}  // namespace sx
