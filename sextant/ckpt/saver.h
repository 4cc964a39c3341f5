#pragma once

#include <memory>
#include <optional>

#include "sextant/ckpt/checkpoint.h"

namespace sx {

/// Saves checkpoints while training goes on: one per rank, for the life of the run.
///
///   CheckpointSaver saver(root, world, options);
///   saver.start(content);               // every rank; returns once the tensors are copied
///   ... steps; now and then: saver.finished() ...
///   saver.wait();                       // every rank
///
/// A save goes through memory that is kept from save to save and holds what this rank writes. A
/// thread of this object writes it, publishes what it wrote (part-NNNNN.json in the temporary
/// folder), and on coord 0 waits for the parts of the others and commits. One save at a time:
/// `wait` comes between two of them. Threads: the rank's thread. `start`, `save` and `wait` are
/// collective.
class CheckpointSaver {
 public:
  enum class Copy {
    kBeforeReturn,
    /// The thread copies: the tensors must not change until `wait_copied` has returned. A training
    /// loop calls it before its optimizer step, which is the first to change them.
    kInBackground,
  };

  CheckpointSaver(fs::path root, Communicator& world, SaveOptions options);
  /// Gives up a save that is not done; it stays torn.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Begins a save. Errors: kIo when it cannot begin, on every rank alike; ContractError when the
  /// one before was not waited for.
  Result<void> start(CheckpointContent content, Copy copy = Copy::kBeforeReturn);
  void wait_copied();
  /// As `save_checkpoint`: done when it returns, nothing is copied.
  Result<SaveReport> save(const CheckpointContent& content);
  /// Ends the save that was started, or returns at once: empty when there is none, or `finished`
  /// has told of it. Errors: of that save, on every rank alike.
  Result<std::optional<SaveReport>> wait();

  /// Once per save, not collective: the report on coord 0 when it was committed, on any rank its
  /// own failure. Empty while nothing is known.
  std::optional<Result<SaveReport>> finished();
  /// True from `start` to the moment its outcome is known here.
  bool busy() const;

  /// Time that the rank's thread spent in `start` and `wait_copied` for the newest save, and in the
  /// newest `wait`.
  double blocked_seconds() const { return blocked_; }
  double waited_seconds() const { return waited_; }
  /// Bytes of memory kept for copies.
  std::int64_t staging_bytes() const;

 private:
  struct Job;
  struct Staging;

  fs::path root_;
  Communicator& world_;
  SaveOptions options_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Job> job_;
  double blocked_ = 0;
  double waited_ = 0;
};

}  // namespace sx
