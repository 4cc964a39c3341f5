#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sextant/dist/communicator.h"
#include "sextant/ep/permute.h"

namespace sx {

/// How rows get to the coordinates that have their experts.
enum class DispatchKind : std::uint8_t {
  kAllToAll,   ///< each row to the coordinates that want it, once per expert: 2 k T h f(ep) numbers
  kAllGather,  ///< every row to everybody, sums back: 2 (ep - 1) T h; pays when k is near ep or
               ///< above
};

/// The ranks of a layer of experts. The tokens of the coordinates of ep x etp are disjoint; expert
/// e of E lies on coordinate e / (E / ep) of ep, its features cut over etp.
struct ExpertGroups {
  Communicator& ep;
  Communicator& etp;
};

struct DispatchOptions {
  DispatchKind kind = DispatchKind::kAllToAll;
  SumOrder order = SumOrder::kSlot;  ///< of kAllToAll; kAllGather has that of its reduce_scatter
  std::string unit = "experts";      ///< name of the collectives
};

/// What the experts of one coordinate have to do.
struct ExpertRows {
  at::Tensor rows_RH;    ///< by local expert, then coordinate of origin, then token
  at::Tensor weights_R;  ///< share of the row in its token's result; router's dtype
  std::vector<std::int64_t> rows_of_expert;  ///< of the local experts; sums to R
};

/// The way of one microbatch's rows to the experts of a layer and back. Each call once, in order;
/// other work may stand between a start and its finish, forward and backward. A coordinate without
/// tokens, and an expert without rows, take part in everything.
///
/// With the same experts and weights both kinds give an expert the same rows in the same order;
/// with SumOrder::kCoordinate they also add a token's rows in the same order, so results and
/// gradients are equal to the bit. With SumOrder::kSlot those of kAllToAll do not depend on ep.
class Dispatch {
 public:
  virtual ~Dispatch() = default;

  /// Shapes:  x [T, H] own tokens; weights [T, K]; experts [T, K] int32, -1 = not routed.
  virtual void start_dispatch(const at::Tensor& x_TH, const at::Tensor& weights_TK,
                              const at::Tensor& experts_TK) = 0;
  virtual ExpertRows finish_dispatch() = 0;
  /// `rows`: results of the experts, weighted, in the order of `finish_dispatch`.
  virtual void start_combine(const at::Tensor& rows_RH) = 0;
  /// Sum over its experts for each own token, [T, H].
  virtual at::Tensor finish_combine() = 0;
};

/// Errors:  ContractError if ep does not divide the number of experts.
std::unique_ptr<Dispatch> make_dispatch(ExpertGroups groups, std::int64_t num_experts,
                                        DispatchOptions options = {});

}  // namespace sx
