#pragma once

#include <cstdint>
#include <memory>

#include "sextant/dist/communicator.h"
#include "sextant/nn/main_grads.h"

namespace sx {

struct DdpOptions {
  /// Elements of one bucket; 0 = max(40,000,000, 1,000,000 * degree).
  std::int64_t bucket_elements = 0;
};

/// Data parallelism with replicated parameters: the main gradients of all ranks, summed.
///
///   MainGrads grads(model);
///   Ddp ddp(grads, comm);
///   ddp.begin_step();
///   for (i < n) ddp.backward(loss(i), scale, /*is_last=*/i == n - 1);
///   ddp.finish_grads();   // grads.flat() holds the sum over ranks
///
/// Sums, never averages: the loss is divided by the global number of valid tokens before backward.
/// Layout:  buckets are runs of neighbouring slots of `grads.flat()`, padding included; a bucket's
///          all-reduce starts when the last microbatch has written its last slot.
/// Order:   microbatches in order (MainGrads), then ranks ascending; so W ranks with one microbatch
///          and one rank with W microbatches give the same bits.
/// Unused:  a parameter without a gradient counts as zero; the collective is never skipped.
/// Threads: the rank's thread; backward must run on it too.
/// Errors:  ContractError when called out of order; DistError from finish_grads.
class Ddp {
 public:
  /// The slots must be the same on every rank (checked: names, shapes and dtypes must agree).
  /// `grads` and `comm` must outlive this object.
  Ddp(MainGrads& grads, Communicator& comm, DdpOptions options = {});
  ~Ddp();  ///< takes its hook off `grads`
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;

  /// Copies coord 0's values of the parameters to all.
  void broadcast_parameters();

  void begin_step();
  /// One microbatch; `scale` as in MainGrads::backward.
  void backward(const at::Tensor& loss, double scale, bool is_last);
  /// Waits for every bucket.
  void finish_grads();

  std::int64_t num_buckets() const;
  /// Bytes of one gradient reduction as each rank's buffers count them (padding included).
  std::int64_t reduce_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
