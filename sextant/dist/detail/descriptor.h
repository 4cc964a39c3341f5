#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/dist/collectives.h"

namespace sx::detail {

/// What ranks compare about a call: everything that must agree.
struct Descriptor {
  Collective op = Collective::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  at::ScalarType dtype = at::kByte;
  std::int64_t numel = 0;
  std::int64_t peer = 0;
  std::int64_t tag = 0;
  /// By coord; empty where all are equal (all_to_all: always given).
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> recv_counts;
  std::string unit;
  std::uint64_t sequence = 0;
  std::uint64_t history = 0;  ///< schedule hash: of all calls before this one

  /// "all_reduce sum Float x 1024, unit \"bucket 0\", call 12".
  std::string to_string() const;
  /// The same, or only the operation's name where there is no memory for more.
  std::string to_string_noexcept() const noexcept;
  /// The schedule hash after this call. Allocates nothing.
  std::uint64_t next_history(Purpose purpose) const;
  std::int64_t bytes() const;
};

Descriptor describe(const Operation& operation, const CallOptions& options);

/// Whether the calls that coords `coord_a` and `coord_b` made at the same place belong together.
bool agree(const Descriptor& a, std::int64_t coord_a, const Descriptor& b, std::int64_t coord_b);

}  // namespace sx::detail
