#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sextant/dist/communicator.h"
#include "sextant/ep/balance.h"
#include "sextant/ep/capacity.h"
#include "sextant/ep/dispatch.h"
#include "sextant/ep/grouped_mlp.h"
#include "sextant/ep/router.h"
#include "sextant/mesh/spmd_type.h"
#include "sextant/nn/layers.h"

namespace sx {

struct MoeOptions {
  RouterOptions router;  ///< num_experts and topk come from the shape
  BalanceOptions balance;
  CapacityOptions capacity;
  DispatchKind dispatch = DispatchKind::kAllToAll;
  SumOrder order = SumOrder::kSlot;
  bool shared_gate = false;  ///< the shared expert's result times sigmoid(x . w)
};

/// The ranks of a layer. The tokens of all of them are disjoint, but for those of ranks outside
/// `ep`, `etp` and `sequence`, about which the layer knows nothing.
struct MoeGroups {
  Communicator& ep;
  Communicator& etp;
  Communicator& sequence;  ///< ranks with the parts of the same sequences: cp x tp
};

/// What a forward pass is told.
struct MoeContext {
  at::Tensor padding_BS{};  ///< bool, true = padding; undefined: none
  at::Tensor
      positions_BS{};     ///< int64 places in the sequence, for capacity where parts are not in row
  RoutedTokens routed{};  ///< of the whole step
  std::int64_t num_microbatches = 1;
  double grad_seed = 1.0;  ///< of the balance losses: the scale of an fp16 loss, else 1
};

/// What a layer counted since `take_stats` was last called, own tokens only.
struct MoeStats {
  std::vector<std::int64_t> choices;  ///< by expert, before capacity
  std::int64_t dropped = 0;           ///< pairs without a place
  double aux = 0.0, z = 0.0;          ///< sums of the losses, before their coefficients
};

/// The experts that every token passes: gate, up, down without bias, and optionally a sigmoid gate.
class SharedExperts : public Module {
 public:
  SharedExperts(Module& parent, std::string name, const ModelShape& shape, bool gated);
  at::Tensor forward(const at::Tensor& x) const;
  Linear* scale() const { return scale_.get(); }

 private:
  Activation activation_;
  std::unique_ptr<Linear> gate_;
  Linear up_, down_;
  std::unique_ptr<Linear> scale_;
};

/// A layer of experts in place of a decoder block's feed-forward network: gate, choice, capacity,
/// dispatch, experts, combine, and what every token passes beside.
///
/// y(x) = sum over the chosen experts e of weight_e(x) expert_e(x) + shared(x), on every layout of
/// ep and etp up to the order of sums. Gradients: those of the experts are complete within ep and
/// etp; those of router and shared expert are the own tokens' part, to be summed over all ranks
/// with other tokens. Threads: the rank's thread; the groups must outlive the layer.
class MoeLayer : public Module {
 public:
  MoeLayer(Module& parent, std::string name, const ModelShape& shape, const MoeOptions& options,
           MoeGroups groups);

  /// Shapes:  x [B, S, H], S own tokens of each of the B sequences, 0 included.
  at::Tensor forward(const at::Tensor& x_BSH, const MoeContext& context);

  /// Fills all parameters, the same values on every layout.
  void init(std::uint64_t seed, int num_threads = 1);
  /// After the optimizer's step: shares and score bias from what all of `tokens` counted.
  /// Collective.
  void finish_step(Communicator& tokens);
  MoeStats take_stats();
  BalanceState& balance() { return state_; }

  /// Types of the parameters: R beside varying tokens on the dense axes; experts divided over ep
  /// and etp.
  std::vector<ParamUse> dense_uses();
  std::vector<ParamUse> expert_uses();

 private:
  void record(const Routing& routing, const at::Tensor& kept_TK, std::int64_t num_sequences);
  Routing routed(const at::Tensor& x_TH, const at::Tensor& padding_T, const MoeContext& context,
                 std::int64_t num_sequences);

  MoeOptions options_;
  MoeGroups groups_;
  Router router_;
  Experts experts_;
  std::unique_ptr<SharedExperts> shared_;
  BalanceState state_;
  MoeStats stats_;
};

}  // namespace sx
