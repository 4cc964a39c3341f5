#pragma once

#include <cstdint>
#include <map>

#include "sextant/plan/memory.h"

namespace sx {

/// A rank's memory while a step is replayed: the arena of sextant/tensor/arena.h, block by block
/// with its rule of reuse, and beside it what comes from the allocator directly.
class ArenaModel {
 public:
  /// Spare blocks go back, peaks begin anew.
  void begin_step();
  void at(std::string moment) { moment_ = std::move(moment); }

  /// A lease of `bytes` (a multiple of 128, or 0) and its end.
  void lease(DpBox box, std::int64_t bytes);
  void end_lease(DpBox box, std::int64_t bytes);
  /// Memory beside the arena.
  void take(DpBox box, std::int64_t bytes);
  void give(DpBox box, std::int64_t bytes) { other_[static_cast<std::size_t>(box)] -= bytes; }

  /// In leases, and beside the arena.
  DpBoxes live() const;
  const MemoryPeak& states() const { return states_; }        ///< of the step, without activations
  const MemoryPeak& allocated() const { return allocated_; }  ///< of the step

 private:
  void note();

  DpBoxes leased_{}, other_{};
  std::map<std::int64_t, std::int64_t> kept_;        ///< number of spare blocks by length
  std::int64_t held_ = 0, num_held_ = 0;             ///< blocks in leases and spare ones
  std::int64_t leased_total_ = 0, most_leased_ = 0;  // the latter of the step
  MemoryPeak states_, allocated_;
  std::string moment_;
};

}  // namespace sx
