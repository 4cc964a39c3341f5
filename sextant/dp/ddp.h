#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sextant/dist/communicator.h"
#include "sextant/shard/named_tensor.h"

namespace sx {

struct DdpOptions {
  /// Elements of one bucket; 0 = max(40,000,000, 1,000,000 * degree).
  std::int64_t bucket_elements = 0;
  /// Dtype main gradients are summed in; undefined = fp32 for 16-bit parameters, else the
  /// parameter's.
  std::optional<at::ScalarType> main_dtype;
};

/// Data parallelism with replicated parameters: gradients are summed over microbatches into bucket
/// buffers, then over ranks.
///
///   Ddp ddp(parameters, comm);
///   ddp.begin_step();
///   for (i < n) { ddp.begin_microbatch(i == n - 1); loss(i).backward(); }
///   ddp.finish_grads();             // waits for the buckets; ddp.grads() and each parameter's
///   .grad hold the sum
///
/// Sums, never averages: the loss is divided by the global number of valid tokens before backward.
/// Order:   microbatches in order (the first contribution is copied), then ranks ascending; so W
/// ranks with one microbatch
///          and one rank with W microbatches give the same bits.
/// Unused:  a parameter without a gradient in this step counts as zero on this rank; the collective
/// is never skipped. Threads: the rank's thread; backward must run on it too. Errors: ContractError
/// when called out of order; DistError from finish_grads.
class Ddp {
 public:
  /// `parameters`: in inventory order, the same on every rank (checked: names, shapes and dtypes
  /// must agree); those without requires_grad get no gradient memory. `comm` must outlive this
  /// object.
  Ddp(std::vector<NamedTensor> parameters, Communicator& comm, DdpOptions options = {});
  ~Ddp();  ///< takes its hooks off the parameters
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;

  /// Copies coord 0's values of parameters (and of `buffers`) to all.
  void broadcast_parameters(std::span<const NamedTensor> buffers = {});

  /// Forgets the last step's gradients: .grad of each parameter becomes undefined.
  void begin_step();
  void begin_microbatch(bool is_last);
  /// Starts what has not been started, waits for every bucket, and sets .grad of each parameter to
  /// its main gradient where the dtypes agree.
  void finish_grads();

  /// Main gradients (views of the buckets, shaped as the parameters), in inventory order; valid
  /// after `finish_grads`.
  std::span<const NamedTensor> grads() const;
  std::int64_t num_buckets() const;
  /// Bytes of one gradient reduction as each rank's buffers count them (padding included).
  std::int64_t reduce_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
