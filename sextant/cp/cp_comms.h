#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sextant/base/result.h"
#include "sextant/dist/communicator.h"

namespace sx {

/// How keys and values come to the queries (key parallelism.cp_kind).
enum class CpKind : std::uint8_t { kRing, kAllGather, kUlysses, kHybrid };
/// "ring", "allgather", "ulysses", "hybrid". Errors: kNotFound.
Result<CpKind> parse_cp_kind(std::string_view name);
const char* to_string(CpKind kind);

/// The communicators of the context-parallel axis. Kept by the owner of the rank for as long as
/// graphs that used them may run backward.
class CpComms {
 public:
  /// `inner`: ranks that exchange heads under kHybrid; coordinates [o inner, (o + 1) inner) are a
  /// group, and those with the same place in their groups a ring. 1 is a ring over all, the degree
  /// itself plain Ulysses. Collective over `cp`, which this does not own.
  /// Errors: contract error where it does not divide the degree (a recipe is refused before).
  explicit CpComms(Communicator& cp, std::int64_t inner = 1);

  Communicator& cp() { return *cp_; }
  std::int64_t inner_degree() const { return inner_degree_; }
  /// The own group; the own ring. Each is `cp()` or a solo communicator at the ends.
  Communicator& inner() { return inner_ ? *inner_ : *cp_; }
  Communicator& outer() { return outer_ ? *outer_ : *cp_; }
  /// Of one rank, for the ring inside plain Ulysses.
  Communicator& solo() { return solo_; }

 private:
  Communicator* cp_;
  std::int64_t inner_degree_;
  std::optional<Communicator> inner_, outer_;
  Communicator solo_;
};

}  // namespace sx
