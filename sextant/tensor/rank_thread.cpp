// Per-thread and process-wide settings of LibTorch that a rank depends on.
#include "sextant/tensor/rank_thread.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/AutogradState.h>
#include <unistd.h>

#include "sextant/base/check.h"
#include "sextant/tensor/block_cache.h"

namespace sx {

void prepare_process(bool flush_denormals) {
  install_block_cache(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 8);
  at::Context::setFlushDenormal(flush_denormals);
}

void prepare_rank_thread(const RankThreadOptions& options) {
  SX_CHECK(options.intra_op_threads >= 1, "intra_op_threads = {}", options.intra_op_threads);
  at::set_num_threads(options.intra_op_threads);
  at::Context::setFlushDenormal(options.flush_denormals);
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  if (options.intra_op_threads > 1) {
    // The control register belongs to a thread: each worker of this thread's pool sets its own.
    at::parallel_for(0, options.intra_op_threads, 1, [&](std::int64_t, std::int64_t) {
      at::Context::setFlushDenormal(options.flush_denormals);
    });
  }
}

}  // namespace sx
