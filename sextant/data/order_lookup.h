#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sextant/base/hash.h"
#include "sextant/base/result.h"
#include "sextant/data/batch_maker.h"
#include "sextant/data/loader.h"

namespace sx {

/// Which unit of which member: "MEMBER:EPOCH:UNIT" in text, as `sextant data order` prints it.
struct UnitKey {
  std::uint32_t member = 0;
  std::uint64_t epoch = 0;
  std::uint64_t unit = 0;
  friend bool operator==(const UnitKey&, const UnitKey&) = default;
  std::string to_string() const;
};
/// Errors: kInvalid.
Result<UnitKey> parse_unit_key(std::string_view text);

/// The order of a training run, looked at from outside: what stands at a position, at which
/// positions a unit stands, and what a run must have consumed. Immutable.
class OrderLookup {
 public:
  /// Options as for a loader of rank 0 of 1. Errors: as Loader::open.
  static Result<OrderLookup> make(std::shared_ptr<const Dataset> dataset,
                                  const LoaderOptions& options);

  /// Positions there are; nothing = no end (the native order).
  std::optional<std::uint64_t> size() const;
  /// Positions that a step of the run takes.
  std::uint64_t positions_per_step() const;

  struct Entry {
    UnitKey key;
    SampleKey sample;  ///< with token and document
    std::vector<std::int32_t> tokens;
  };
  /// `position` below size(). Errors: those of reading.
  Result<Entry> at(std::uint64_t position) const;
  /// Ascending. Native order: none or one, O(log) blends; Megatron-LM's: looks at every position.
  /// Errors: kInvalid for a member or unit that is not there.
  Result<std::vector<std::uint64_t>> positions_of(const UnitKey& key) const;
  /// LoaderState::consumed_hash behind `steps` steps from the start.
  Hash128 hash_of_steps(std::uint64_t steps) const;

 private:
  OrderLookup(std::shared_ptr<const Dataset> dataset, LoaderOptions options, AnyOrder order)
      : dataset_(std::move(dataset)), options_(std::move(options)), order_(std::move(order)) {}
  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  AnyOrder order_;
};

}  // namespace sx
