#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sextant/cp/block_attention.h"
#include "sextant/cp/cp_plan.h"
#include "sextant/dist/communicator.h"

namespace sx {

// How keys and values come to the queries: what each kind of context parallelism does, without
// autograd. Every function is collective over its route's communicator. A route is made once for a
// layout of tokens and used by all layers; it keeps pointers to communicators.

/// Keys and values go round; each rank computes on what it holds while the next part comes in.
struct RingRoute {
  RingRoute(std::shared_ptr<const CpPlan> plan, Communicator& comm);

  std::shared_ptr<const CpPlan> plan;
  Communicator* comm = nullptr;
  std::vector<std::vector<AttentionBlock>> blocks;  ///< by index into plan->ring_steps()
};
/// Two buffers for keys and values whatever the degree is; (steps - 1) sends of [K | V].
AttentionState ring_forward(const RingRoute& route, const at::Tensor& q_BTND,
                            const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                            const BlockOptions& options);
/// Keys and values go round again, from the local ones; their gradients go with them in the merge
/// dtype and come home, one send more. `state` is the merged one.
AttentionGrads ring_backward(const RingRoute& route, const at::Tensor& grad_BTND,
                             const at::Tensor& q_BTND, const at::Tensor& k_BTGD,
                             const at::Tensor& v_BTGD, const AttentionState& state,
                             const BlockOptions& options);

/// All keys and values on every rank, in row order; gradients by a reduce-scatter.
struct GatherRoute {
  GatherRoute(std::shared_ptr<const CpPlan> plan, Communicator& comm);

  std::shared_ptr<const CpPlan> plan;
  Communicator* comm = nullptr;
  std::vector<AttentionBlock> blocks;
};
AttentionState gather_forward(const GatherRoute& route, const at::Tensor& q_BTND,
                              const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                              const BlockOptions& options);
AttentionGrads gather_backward(const GatherRoute& route, const at::Tensor& grad_BTND,
                               const at::Tensor& q_BTND, const at::Tensor& k_BTGD,
                               const at::Tensor& v_BTGD, const AttentionState& state,
                               const BlockOptions& options);

/// First head and number of heads of each member of a group.
using HeadSplit = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Query heads [floor(r N / c), floor((r+1) N / c)) for coordinate r, and the key heads they use:
/// the same key head may go to several.
struct HeadShares {
  HeadShares(std::int64_t query_heads, std::int64_t key_heads, std::int64_t degree);
  /// Of one coordinate, counted from its own first heads.
  std::vector<HeadRun> runs(std::int64_t coord) const;

  HeadSplit query, key;
  std::int64_t per_group = 1;  ///< query heads that share a key head
};

/// Ranks of a group exchange heads for tokens: afterwards each has some heads of all the group's
/// tokens (Ulysses, arXiv 2309.14509).
struct ScatterRoute {
  /// `comm`: coordinates [first, first + degree) of the plan. `joined`: the plan with groups as
  /// coordinates.
  ScatterRoute(std::shared_ptr<const CpPlan> plan, const CpPlan& joined, std::int64_t first,
               Communicator& comm);

  std::shared_ptr<const CpPlan> plan;
  Communicator* comm = nullptr;
  std::int64_t first = 0;
  std::int64_t num_tokens = 0;                    ///< of the group
  std::vector<std::vector<std::int64_t>> places;  ///< of each member's tokens among the group's
};
/// Own tokens and all heads -> the group's tokens in row order and own heads; one all-to-all for
/// all of `xs` (one dtype, one B and D).
std::vector<at::Tensor> scatter_heads(const ScatterRoute& route, std::span<const at::Tensor> xs,
                                      std::span<const HeadSplit> splits);
/// The way back; heads that several members have are added in ascending order of members, in the
/// merge dtype. What goes over the wire and comes back is `dtype`.
std::vector<at::Tensor> gather_heads(const ScatterRoute& route, std::span<const at::Tensor> xs,
                                     std::span<const HeadSplit> splits, c10::ScalarType dtype);

}  // namespace sx
