#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sextant/base/units.h"
#include "sextant/mesh/purpose.h"

namespace sx {

/// The collective calls there are. `coord` counts the ranks of one communicator from 0; W is their
/// number (degree).
enum class Collective : std::uint8_t {
  kBroadcast,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kSend,
  kRecv,
  kBarrier,
};
const char* to_string(Collective op);

/// No average: scaling is explicit where gradients are made, because back ends disagree about it.
/// kMax and kMin hand on NaN.
enum class ReduceOp : std::uint8_t { kSum, kMax, kMin };
const char* to_string(ReduceOp op);

/// One collective call as data: what `Communicator::start` and `start_batch` take. Made by the
/// functions below.
struct Operation {
  Collective op = Collective::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  at::Tensor out;
  at::Tensor in;
  std::vector<std::int64_t> send_counts;  ///< elements to each coord; empty = even
  std::vector<std::int64_t> recv_counts;  ///< elements from each coord; empty = even
  std::int64_t peer = 0;  ///< root of a broadcast, other end of send and recv (coord)
  std::int64_t tag = 0;
};

/// Options of one call.
struct CallOptions {
  std::string unit;  ///< what is moved ("layers.3", "bucket 2"); must agree on all ranks
  std::optional<Seconds> timeout;  ///< instead of the communicator's own
};

/// Tensors are contiguous and on the communicator's device; their element count may be 0.
/// Reductions take fp64 fp32 bf16 fp16 int64 int32 int8 uint8 (and bool for kMax, kMin); other
/// calls move any dtype.
namespace collective {
/// `tensor` of coord `root` to all.
Operation broadcast(at::Tensor tensor, std::int64_t root);
/// In place; same bits as reduce_scatter followed by all_gather.
Operation all_reduce(at::Tensor tensor, ReduceOp op);
/// out[n] on coord c = fold over coords 0..W-1 of their in[c*n, (c+1)*n); with `counts` coord c
/// gets counts[c] elements. `out` may be the own slice of `in`.
Operation reduce_scatter(at::Tensor out, at::Tensor in, ReduceOp op,
                         std::vector<std::int64_t> counts = {});
/// out[W*n] = the `in` of coords 0..W-1 in order; with `counts` coord c gives counts[c] elements.
/// `in` may be the own slice of `out`.
Operation all_gather(at::Tensor out, at::Tensor in, std::vector<std::int64_t> counts = {});
/// Slice j of coord i's `in` becomes slice i of coord j's `out`. `out` and `in` do not overlap.
Operation all_to_all(at::Tensor out, at::Tensor in, std::vector<std::int64_t> send_counts = {},
                     std::vector<std::int64_t> recv_counts = {});
/// Matched by (pair, tag) in order of the calls. Waiting for a send does not wait for its receive
/// to be posted.
Operation send(at::Tensor tensor, std::int64_t to, std::int64_t tag = 0);
Operation recv(at::Tensor tensor, std::int64_t from, std::int64_t tag = 0);
}  // namespace collective

}  // namespace sx
