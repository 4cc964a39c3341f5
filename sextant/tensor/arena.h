#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sextant/base/rng.h"
#include "sextant/tensor/memory_tracker.h"

namespace sx {

/// What a block is for; each is counted by itself.
enum class MemoryClass : std::uint8_t { kParams, kGrads, kOptimizer, kTransient };
inline constexpr int kNumMemoryClasses = 4;
const char* to_string(MemoryClass what);

class Arena;

/// A block of an arena, held until the lease ends. Move-only. 128-byte aligned, a multiple of 128
/// bytes long.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  explicit operator bool() const { return block_ != nullptr; }
  void* data() const;
  std::int64_t bytes() const;
  /// [numel] elements of the block from `offset` on (elements), as a tensor that does not own them:
  /// it must not outlive the lease (`LeaseCheck` in debugging finds those that do).
  at::Tensor view(c10::ScalarType dtype, std::int64_t offset, std::int64_t numel) const;
  void reset();

 private:
  friend class Arena;
  struct Block;
  Lease(std::shared_ptr<Arena> arena, Block* block);
  std::shared_ptr<Arena> arena_;  ///< a lease keeps its arena alive
  Block* block_ = nullptr;
};

/// What finds mistakes in the use of leases; key comm.debug.
struct ArenaDebug {
  bool poison = false;     ///< a block is NaN when it is handed out and when it comes back
  bool check = false;      ///< a returned block must still hold its poison when handed out again
  double max_delay = 0.0;  ///< seconds; each hand-out waits a random time up to it
  std::uint64_t seed = 0;
};

struct ArenaStats {
  std::array<std::int64_t, kNumMemoryClasses> live{};  ///< bytes in leases
  std::array<std::int64_t, kNumMemoryClasses> peak{};
  std::int64_t live_total = 0;
  std::int64_t peak_total = 0;
  std::int64_t held = 0;  ///< bytes taken from the allocator, in leases or kept for reuse
  std::int64_t peak_held = 0;
  std::int64_t allocations = 0;  ///< calls of the allocator
  std::int64_t leases = 0;       ///< blocks handed out
};

/// The memory of one rank's engine: blocks are handed out as leases and reused.
///
/// Deterministic: the same calls give the same blocks. A returned block is kept for a lease of the
/// same length; `held` never exceeds the largest sum of leases there has been since `trim`, so a
/// plan of leases predicts the peak exactly.
/// Threads: one owner thread, for leases too.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  static std::shared_ptr<Arena> make(ArenaDebug debug = {});
  ~Arena();

  /// `bytes` is rounded up to a multiple of 128; 0 gives an empty lease. The content is not
  /// defined. `what` for the messages of debugging: "layers.3 gathered".
  /// `category`: what the memory tracker counts it for; unset: what the purpose suggests.
  Lease acquire(std::int64_t bytes, MemoryClass purpose, std::string what,
                std::optional<MemoryCategory> category = {});
  /// As above, for `numel` elements.
  Lease acquire(std::int64_t numel, c10::ScalarType dtype, MemoryClass purpose, std::string what,
                std::optional<MemoryCategory> category = {});

  const ArenaStats& stats() const { return stats_; }
  const ArenaDebug& debug() const { return debug_; }
  /// Peaks begin anew at what is live now.
  void reset_peaks();
  /// Gives kept blocks back to the allocator. Called before each step, it makes equal steps take
  /// equal memory at every moment, whatever came before.
  void trim();
  /// What every live lease is for, oldest first.
  std::vector<std::string> live_leases() const;

 private:
  friend class Lease;
  explicit Arena(ArenaDebug debug);
  void give_back(Lease::Block* block);
  void drop(std::multimap<std::int64_t, std::unique_ptr<Lease::Block>>::iterator kept);

  ArenaDebug debug_;
  RandomStream random_;
  std::uint64_t draws_ = 0;
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Lease::Block>> live_;
  std::multimap<std::int64_t, std::unique_ptr<Lease::Block>> kept_;  ///< by length
  std::int64_t most_leased_ = 0;                                     ///< since `trim`
  ArenaStats stats_;
};

}  // namespace sx
