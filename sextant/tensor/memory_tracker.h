#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sx {

/// What a tensor's memory is for. Activations are what autograd, kernels and their results hold
/// while nobody says otherwise.
enum class MemoryCategory : std::uint8_t {
  kActivations,
  kParams,         ///< shards and replicas of parameters in their compute type
  kMaster,         ///< masters in the main type
  kMoments,        ///< optimizer state
  kMainGrads,      ///< gradients that live across microbatches
  kGathered,       ///< whole parameters of a unit
  kGradUnsharded,  ///< whole gradients of a unit on their way to a reduction
  kCommBuffers,    ///< other inputs and outputs of collectives
  kSpare,          ///< blocks of the arena between two uses
  kInputs,
};
inline constexpr int kNumMemoryCategories = 10;
const char* to_string(MemoryCategory category);  ///< "params", "grad_unsharded", ...

/// Bytes as tensors ask for them, without the allocator's rounding.
struct MemoryNumbers {
  using ByCategory = std::array<std::int64_t, kNumMemoryCategories>;
  ByCategory live{};
  std::int64_t live_total = 0;
  std::int64_t peak_total = 0;
  ByCategory at_peak{};          ///< by category at the moment of peak_total
  std::int64_t peak_states = 0;  ///< highest sum of all but activations, spare blocks and inputs
  std::int64_t allocations = 0;

  std::int64_t of(MemoryCategory category) const {
    return live[static_cast<std::size_t>(category)];
  }
};

/// The memory of one rank. A block counts for the rank whose thread asked for it, whoever frees it.
/// Threads: one thread allocates; any may free and read.
class MemoryCounter {
 public:
  MemoryNumbers read() const;
  /// Peaks begin anew at what is live now.
  void reset_peaks();

 private:
  friend class MemoryBooks;
  void add(MemoryCategory category, std::int64_t bytes);
  void remove(MemoryCategory category, std::int64_t bytes);
  void take_peaks();

  std::array<std::atomic<std::int64_t>, kNumMemoryCategories> live_{};
  std::atomic<std::int64_t> peak_total_{0}, peak_states_{0}, allocations_{0};
  std::array<std::atomic<std::int64_t>, kNumMemoryCategories> at_peak_{};
};

/// Puts a counting allocator in front of LibTorch's CPU allocator, for the rest of the process.
/// Call it before the tensors that shall be counted; calling it again does nothing. Memory that
/// libraries take through malloc (MKL scratch, MPI) does not pass it.
/// Source: c10::SetCPUAllocator with a higher priority than the default's.
void install_memory_tracker();

/// While it lives, allocations of this thread count for `counter`; without one they are not
/// counted.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::shared_ptr<MemoryCounter> counter);
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

 private:
  std::shared_ptr<MemoryCounter> before_;
};

/// While it lives, allocations of this thread are of this category. Scopes nest.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryCategory before_;
};

/// The block that begins at `data` is of another category from now on. Nothing happens for null or
/// a block that is not counted.
void retag_memory(const void* data, MemoryCategory category);

}  // namespace sx
