#pragma once

namespace sx {

struct RankThreadOptions {
  int intra_op_threads = 1;
  bool flush_denormals = true;  ///< key run.flush_denormals
};

/// What `main` does before any other thread exists and before the first tensor: threads made later
/// inherit the setting of denormals, and large freed blocks are kept for the next tensors
/// (block_cache.h), up to an eighth of the machine's memory while unused.
void prepare_process(bool flush_denormals);

/// The first act of every rank thread, `main` included when it is one: intra-op threads (the
/// setting belongs to the calling thread), denormals here and in the workers of the pool, and
/// backward on this very thread, so that a hook that waits for a peer cannot hold another rank's
/// backward.
void prepare_rank_thread(const RankThreadOptions& options);

}  // namespace sx
