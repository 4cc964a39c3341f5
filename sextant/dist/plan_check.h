#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sextant/base/units.h"
#include "sextant/dist/communicator.h"
#include "sextant/dist/rendezvous.h"

namespace sx {

/// What must be the same on all ranks before the first collective, as lines a person can read:
/// versions, recipe, mesh, groups, the checkpoint that is gone on from.
struct StartFacts {
  std::vector<std::string> lines;
  void add(const std::string& name, const std::string& value) {
    lines.push_back(name + " " + value);
  }
  /// The lines joined by newlines.
  std::string text() const;
  std::uint64_t hash() const;
};

/// The first line in which two fact lists differ: "a: ... | b: ..."; empty when they are equal.
std::string first_difference(const StartFacts& a, const std::string& name_a, const StartFacts& b,
                             const std::string& name_b);

/// "2.15.0": the LibTorch this program was compiled with.
std::string libtorch_version();

/// Every rank of the world calls it with its own facts; returns when all are known to be equal.
///
/// Rank 0 collects all and decides, so that every rank ends with the same message.
/// Errors:  ConfigError SX2-019 on every rank (which rank differs, and the first differing line),
///          FatalError SX4-001 on every rank (ranks that did not come within `timeout`, named).
/// `give_up`: asked while waiting; true = another rank has failed, the wait is of no use.
void check_start_facts(RankStore& store, std::int64_t global_rank, std::int64_t world_size,
                       const StartFacts& facts, Seconds timeout,
                       const std::function<bool()>& give_up = {});

/// The same over a communicator of ranks that have met: one sum of 16 bytes; only when it shows a
/// difference do the ranks exchange their lines. Collective.
/// Errors: ConfigError SX2-019 on every rank.
void check_start_facts(Communicator& world, const StartFacts& facts);

}  // namespace sx
