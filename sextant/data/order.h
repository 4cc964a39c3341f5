#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/base/rng.h"
#include "sextant/data/blend_native.h"
#include "sextant/data/dataset.h"
#include "sextant/data/megatron_dataset.h"

namespace sx {

/// What stands at one position of the order: inputs are tokens [first, first + length) of the
/// member, targets are one further.
struct OrderBlock {
  std::uint32_t member = 0;
  std::uint64_t epoch = 0;
  std::uint64_t unit = 0;  ///< block of the epoch, in file order
  std::uint64_t first = 0;
  std::uint64_t length =
      0;  ///< block_tokens; less only for the last block of a member in a sequential pass
  friend bool operator==(const OrderBlock&, const OrderBlock&) = default;
};

/// The native order of blocks: position -> block, a pure function of (data, seed, position).
/// Endless; every epoch of a member gives each of its blocks once, in an order of its own
/// (docs/notes/data_order.md).
class NativeOrder {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::uint64_t block_tokens = 0;
    bool shuffle = true;
  };
  /// Errors: kInvalid when a member with weight > 0 has fewer than block_tokens + 1 tokens (names
  /// both numbers).
  static Result<NativeOrder> make(std::shared_ptr<const Dataset> dataset, const Options& options);

  OrderBlock at(std::uint64_t position) const;
  /// Where a unit stands; nothing for a member that is not drawn any more. unit < blocks_per_epoch.
  std::optional<std::uint64_t> position_of(std::uint32_t member, std::uint64_t epoch,
                                           std::uint64_t unit) const;
  std::uint64_t blocks_per_epoch(std::uint32_t member) const { return members_[member].blocks; }
  const NativeBlend& blend() const { return blend_; }
  NativeBlend& blend() { return blend_; }

 private:
  struct Member {
    RandomStream order;
    RandomStream phase;
    std::uint64_t tokens;
    std::uint64_t blocks;
  };
  NativeOrder(Options options, std::vector<Member> members, NativeBlend blend)
      : options_(options), members_(std::move(members)), blend_(std::move(blend)) {}
  Options options_;
  std::vector<Member> members_;
  NativeBlend blend_;
};

/// One pass in file order in which each token but a member's first is a target exactly once.
class SequentialOrder {
 public:
  SequentialOrder(const Dataset& dataset, std::uint64_t block_tokens);
  std::uint64_t size() const { return starts_.back(); }
  std::uint64_t num_targets() const { return num_targets_; }
  OrderBlock at(std::uint64_t position) const;

 private:
  std::uint64_t block_tokens_;
  std::uint64_t num_targets_ = 0;
  std::vector<std::uint64_t> tokens_;
  std::vector<std::uint64_t> starts_{0};  ///< first position of each member, then the size
};

/// The order of Megatron-LM: position = sample. Blocks are samples: `unit` is the row of the
/// member's sample index, `epoch` and `first` are 0.
class MegatronOrder {
 public:
  explicit MegatronOrder(std::shared_ptr<const MegatronDataset> dataset)
      : dataset_(std::move(dataset)) {}
  std::uint64_t size() const;
  /// A cache that changed on disk since it was opened is a contract error.
  OrderBlock at(std::uint64_t position) const;
  const MegatronDataset& dataset() const { return *dataset_; }

 private:
  std::shared_ptr<const MegatronDataset> dataset_;
};

}  // namespace sx
