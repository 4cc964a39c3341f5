#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sextant/tensor/init.h"

namespace sx {

class Module;

/// A parameter: described at construction, given memory by `Module::allocate`. The tensor object of
/// a parameter is never replaced after that; its memory may be.
struct Parameter {
  Module* owner = nullptr;
  std::string name;  ///< within its module: "weight"
  std::string fqn;   ///< "layers.0.attention.wq.weight"; checkpoint key and initialisation stream
  std::vector<std::int64_t> shape;
  InitSpec init;
  bool decay = true;                     ///< takes weight decay by default
  bool trainable = true;                 ///< false: frozen, no gradient and no optimizer state
  std::optional<c10::ScalarType> dtype;  ///< instead of the model's
  bool initialized = false;              ///< written by init_parameters or by a loaded checkpoint
  at::Tensor tensor;                     ///< leaf with requires_grad; undefined before allocate()

  std::int64_t numel() const;
};

/// A second name for a parameter that another module owns, such as a head tied to the embedding.
struct ParameterAlias {
  std::string fqn;           ///< "output.weight"
  Module* module = nullptr;  ///< uses the parameter under this name
  Parameter* parameter = nullptr;
};

/// Moments of a unit. The backward points are identity nodes of autograd: pre_backward on the
/// unit's output fires when its gradient arrives, post_backward on its input when everything inside
/// is done, gradients of parameters included. A unit whose input needs no gradient (an embedding)
/// has no post_backward; who waits for it takes the end of the backward pass instead.
enum class HookPoint { kPreForward, kPostForward, kPreBackward, kPostBackward };
inline constexpr HookPoint kAllHookPoints[] = {HookPoint::kPreForward, HookPoint::kPostForward,
                                               HookPoint::kPreBackward, HookPoint::kPostBackward};
const char* to_string(HookPoint point);

/// A named node of the model tree: ordered children, ordered parameters, hooks on units.
///
/// Own base instead of torch::nn::Module, which costs the JIT headers and has no forward hooks in
/// C++. A module knows nothing of ranks. Construction sets up names and shapes only; `allocate`
/// makes memory, then parameters are filled. Names are stable: they are checkpoint keys and key the
/// initial values. Threads: a tree belongs to one thread (its rank's).
class Module {
 public:
  using Hook = std::function<void(Module& unit, const at::Tensor& tensor)>;

  /// The root of a tree.
  Module();
  /// A child; `name` may hold dots ("layers.0"). The parent must outlive it.
  Module(Module& parent, std::string name);
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& fqn() const { return fqn_; }
  const std::vector<Module*>& children() const { return children_; }

  /// All parameters of this subtree, depth first in order of registration: the checkpoint order.
  /// Pointers stay valid.
  std::vector<Parameter*> parameters();
  /// By full name. Errors: ContractError naming the nearest fact when there is none.
  Parameter& parameter(const std::string& fqn);

  /// Gives every parameter of this subtree its own zero-filled block (128-byte padded). Once per
  /// parameter.
  void allocate(c10::ScalarType dtype);

  /// Marks this module as the boundary for hooks, sharding and recompute (decoder block, embedding,
  /// head).
  void mark_unit() { unit_ = true; }
  bool is_unit() const { return unit_; }
  std::vector<Module*> units();
  /// The nearest unit at or above each parameter's owner, in the order of `parameters()`; null when
  /// there is none.
  std::vector<Module*> units_of_parameters();
  /// Second names in this subtree, in order of registration.
  std::vector<ParameterAlias> aliases();
  /// The nearest unit at or above `module`, which belongs to this subtree; null when there is none.
  Module* unit_of(const Module& module);

  /// This unit's forward keeps its inputs only and is run again in backward. Its hooks do not run a
  /// second time. Off by default.
  void set_recompute(bool on);
  bool recomputes() const { return recompute_; }

  /// This unit's floating input is cast before its forward, and its output after, unless that is a
  /// single number (a loss). Hooks see the cast tensors. Unset: left as they are.
  void set_casts(std::optional<c10::ScalarType> input, std::optional<c10::ScalarType> output);

  /// Hooks of one point run in order of registration. Errors: ContractError if this is not a unit.
  void add_hook(HookPoint point, std::string owner, Hook hook);
  /// Removes every hook that `owner` added in this subtree.
  void remove_hooks(const std::string& owner);
  /// One line "point unit owner" per hook of this subtree, in the order they run within a unit.
  std::vector<std::string> describe_hooks();

 protected:
  Parameter& add_parameter(std::string name, std::vector<std::int64_t> shape, InitSpec init,
                           bool decay);
  /// Enters a second name for a parameter owned elsewhere in the tree.
  void add_alias(std::string name, Parameter& parameter);
  /// Runs `forward(input)` between this unit's hooks; each concrete forward of a unit goes through
  /// it. With recompute `forward` outlives this call: it captures by value.
  at::Tensor call(const at::Tensor& input,
                  const std::function<at::Tensor(const at::Tensor&)>& forward);

 private:
  struct HookEntry {
    HookPoint point;
    std::string owner;
    Hook run;
  };
  void collect(std::vector<Module*>& out);
  void collect_units(Module* above, std::vector<std::pair<Module*, Module*>>& out);
  void run_hooks(HookPoint point, const at::Tensor& tensor);
  bool has_hook(HookPoint point) const;
  at::Tensor mark(HookPoint point, const at::Tensor& tensor);

  std::string fqn_;
  std::vector<Module*> children_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<ParameterAlias> aliases_;
  std::vector<HookEntry> hooks_;
  bool unit_ = false;
  bool recompute_ = false;
  std::optional<c10::ScalarType> input_dtype_, output_dtype_;
};

/// Fills every parameter of the tree (whole, unsharded) from its InitSpec. Errors: ContractError if
/// one has no memory.
void init_parameters(Module& root, std::uint64_t seed, int num_threads = 1);

/// Names of parameters that nothing has written; a run starts only when it is empty.
std::vector<std::string> uninitialized_parameters(Module& root);

}  // namespace sx
