#pragma once

// Every kind of context parallelism over rank threads, against flat attention.

#include <gtest/gtest.h>

#include <string>

#include "sextant/cp/testing.h"
#include "tests/equivalence/rank_test.h"

namespace sx::testing {

/// Compares within relative errors 1e-12 (results) and 1e-11 (gradients).
inline void expect_flat(const CpCase& c, const FlatRun& flat, CpKind kind, CpComms& comms) {
  const RankRun run = rank_run(c, flat, kind, comms);
  const CpPlan plan(c.partition, c.documents, comms.cp().degree(), c.mask);
  const at::Tensor own = index_tensor(plan.tokens(comms.cp().coord()));
  const auto part = [&](const at::Tensor& x) { return x.index_select(1, own); };
  const std::string where =
      c.name + " " + to_string(kind) + " on " + std::to_string(comms.cp().coord()) + " of " +
      std::to_string(comms.cp().degree()) + ", inner " + std::to_string(comms.inner_degree());
  EXPECT_LE(relative_error(run.out, part(flat.out)), 1e-12) << where;
  EXPECT_LE(relative_error(run.dq, part(flat.dq)), 1e-11) << where << ", dq";
  EXPECT_LE(relative_error(run.dk, part(flat.dk)), 1e-11) << where << ", dk";
  EXPECT_LE(relative_error(run.dv, part(flat.dv)), 1e-11) << where << ", dv";
  if (c.sink) {
    EXPECT_LE(relative_error(run.d_sink, flat.d_sink), 1e-11) << where << ", d sink";
  }
}

/// Every kind on `ranks` threads, hybrids with every inner degree.
inline void expect_flat_on(const CpCase& c, const FlatRun& flat, std::int64_t ranks) {
  rank_test(ranks, [&](Communicator& world) {
    for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses}) {
      CpComms comms(world);
      expect_flat(c, flat, kind, comms);
    }
    for (std::int64_t inner = 2; inner < ranks; ++inner) {
      if (ranks % inner != 0) continue;
      CpComms comms(world, inner);
      expect_flat(c, flat, CpKind::kHybrid, comms);
    }
  });
}

}  // namespace sx::testing
