#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/ckpt/manifest.h"
#include "sextant/ckpt/region.h"
#include "sextant/dist/communicator.h"
#include "sextant/mesh/device_mesh.h"
#include "sextant/mesh/shard_spec.h"
#include "sextant/shard/named_tensor.h"

namespace sx {

/// What one rank holds of a tensor, as its layout has it: a box, or a range of the row-major order.
struct TensorPart {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the whole tensor
  Region region;
  at::Tensor values;  ///< the region's elements, packed and contiguous, whatever its own shape
  /// The part is the `copy`-th of `copies` equal ones on different ranks: each writes a share.
  /// Parts of one `copy_group` have their copies on the same ranks, in the same order there.
  std::int64_t copy = 0;
  std::int64_t copies = 1;
  std::uint64_t copy_group = 0;
};

/// The part of `rank` when a tensor lies on `mesh` as `spec` says: any mixture of axes.
/// `holders`: the ranks that have the tensor at all, as those of one pipeline stage; empty = all.
/// Errors: ContractError for a spec with a reduction still due, `values` of another size.
TensorPart part_on_mesh(std::string name, const ShardSpec& spec, const DeviceMesh& mesh,
                        std::int64_t rank, at::Tensor values,
                        std::span<const std::int64_t> holders = {});

/// Everything one checkpoint commits besides tensors.
struct CheckpointFacts {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  std::int64_t samples = 0;
  std::string fingerprint;                   ///< of the resolved recipe
  std::map<std::string, std::int64_t> mesh;  ///< axis name -> degree
  std::map<std::string, nlohmann::ordered_json>
      states;  ///< "loader", "rng", "lr", "trainer" -> state/<name>.json
  std::map<std::string, std::string>
      files;  ///< further files by relative path: "recipe.resolved.toml", "model.json"
};

/// What one rank brings to a checkpoint. The parts of all ranks tile every tensor.
struct CheckpointContent : CheckpointFacts {
  std::vector<NamedTensor> model;  ///< parameters under their names, whole on every rank
  std::vector<NamedTensor> optim;  ///< "optim.<param>.exp_avg" and the like, whole on every rank
  std::vector<TensorPart> model_parts, optim_parts;  ///< beside them: what this rank holds
};

struct SaveOptions {
  std::string run_id;   ///< names the temporary folder; torn folders of the same run are removed at
                        ///< its next save
  std::string created;  ///< "2026-08-31T12:00:00Z"; empty = now
  std::int64_t keep = 0;        ///< newest checkpoints to keep; 0 = all
  std::int64_t keep_every = 0;  ///< besides, keep steps that are multiples of it; 0 = none
  fs::path loaded_from;         ///< checkpoint the run was started from: never deleted
};

struct SaveReport {
  fs::path path;                  ///< root/step-NNNNNNN
  std::int64_t bytes = 0;         ///< of the whole checkpoint
  double seconds = 0;             ///< from the beginning to the commit
  std::vector<fs::path> removed;  ///< by retention
};

/// Saves one checkpoint under `root`: temporary folder, files fsynced, parts checked to tile every
/// tensor, manifest last, rename, fsync of the parent, then `root/latest`; afterwards retention.
///
/// Collective over `world`: every rank writes its parts into a file of its own at the same time,
/// and of parts that several ranks hold its share; nothing is gathered. `root` is a folder that all
/// ranks see. All return the same success or failure. Torn saves leave only a folder `.tmp-step-*`,
/// which is never selected. Savers of one root wait for each other, at most 15 s.
/// Errors:  kIo (older checkpoints stay as they are), kInvalid (a name with '@', a dtype the format
///          lacks), on every rank alike.
Result<SaveReport> save_checkpoint(const fs::path& root, const CheckpointContent& content,
                                   Communicator& world, const SaveOptions& options = {});

/// How strictly names are compared when loading.
struct LoadOptions {
  std::string prefix;  ///< what counts as unexpected: names with it; "" = all but "optim."
  std::vector<std::string> exclude;  ///< shell patterns of names that are not loaded
  /// False: names on one side alone are reported, not errors; differing shapes still are.
  bool strict = true;
};

/// What a load found besides what was asked for: excluded names, or all when not strict.
struct LoadReport {
  std::vector<std::string> missing;     ///< asked for, not in the checkpoint
  std::vector<std::string> unexpected;  ///< in the checkpoint, not asked for
};

/// A committed checkpoint opened for reading.
class Checkpoint {
 public:
  /// Reads the manifest and compares every file's size with it.
  /// Errors:  kNotFound (no manifest: not committed), kCorrupt, kUnsupported (newer version, with
  /// both numbers).
  static Result<Checkpoint> open(const fs::path& folder);

  const fs::path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  std::int64_t step() const { return manifest_.step; }

  /// One tensor in its global shape, compared with its logical checksum. Errors: kNotFound,
  /// kCorrupt, kIo.
  Result<at::Tensor> load(const std::string& name) const;
  /// Copies into existing whole tensors by name; shapes and dtypes must agree. Nothing is skipped
  /// silently. Every tensor is compared with its logical checksum.
  /// Errors:  kInvalid listing all missing and unexpected names and differing shapes, before
  ///          anything is copied; kCorrupt, kIo.
  Result<LoadReport> load_into(std::span<const NamedTensor> tensors,
                               const LoadOptions& options = {}) const;
  /// As above for parts: copies each part's elements out of the stored tensor, whatever cut that
  /// was saved in. Parts of all names must be given, empty ones too. With `world` it is collective
  /// and the ranks together compare every tensor, as it lies in their layout, with its logical
  /// checksum: a wrong offset on either side is kCorrupt on every rank.
  Result<LoadReport> load_parts(std::span<const TensorPart> parts, const LoadOptions& options = {},
                                Communicator* world = nullptr) const;
  /// The elements [begin, begin + count) of a stored tensor in row-major order. Reads little more
  /// than these. Errors: kNotFound, kInvalid (outside), kCorrupt, kIo.
  Result<void> read_range(const std::string& name, std::int64_t begin, std::int64_t count,
                          std::span<std::byte> out) const;
  /// Compares a whole tensor's values, row-major, with its logical checksum. Errors: kCorrupt.
  Result<void> check_values(const std::string& name, std::span<const std::byte> values) const;
  /// state/<name>.json, its hash compared. Errors: kNotFound, kCorrupt.
  Result<nlohmann::ordered_json> state(const std::string& name) const;
  /// A file of the checkpoint, its hash compared ("model.json"). Errors: kNotFound, kCorrupt, kIo.
  Result<std::string> text(const std::string& file) const;

 private:
  /// A name that a model wants, to be compared with what is stored.
  struct Wanted {
    std::string name;
    std::vector<std::int64_t> shape;
    at::ScalarType dtype;
  };
  Result<LoadReport> compare(const std::vector<Wanted>& wanted, const LoadOptions& options) const;

  Result<LoadReport> read_parts(std::span<const TensorPart> parts,
                                const LoadOptions& options) const;
  std::map<std::string, std::uint64_t> sums_of(std::span<const TensorPart> parts,
                                               const LoadOptions& options) const;

  fs::path path_;
  Manifest manifest_;
};

/// The checkpoint to resume from: the one `root/latest` names, else the newest step-* whose
/// manifest and file sizes hold (with `full_hashes` also every hash). No checkpoint = empty.
/// `rejected` gets one line per folder that was passed over.
/// Errors: kUnsupported when the first that is looked at is of a newer format: going on from an
///         older one would silently give up steps.
Result<std::optional<fs::path>> find_newest_checkpoint(
    const fs::path& root, bool full_hashes = false, std::vector<std::string>* rejected = nullptr);

/// The checkpoint that a person names by its own folder, by a file `latest`, by a folder of
/// checkpoints or by a run folder (its newest one, as above). No checkpoint there = empty.
Result<std::optional<fs::path>> find_checkpoint(const fs::path& named,
                                                std::vector<std::string>* rejected = nullptr);
/// The folder of checkpoints in that case; empty when `named` is a checkpoint itself.
std::optional<fs::path> checkpoint_root(const fs::path& named);

/// Committed checkpoints under `root`, oldest first, without looking inside; none where there is no
/// such folder. Errors: kIo.
Result<std::vector<fs::path>> list_checkpoints(const fs::path& root);

/// Every hash, every tiling, every logical checksum; one line per fault. Empty = the checkpoint is
/// whole.
Result<std::vector<std::string>> verify_checkpoint(const fs::path& folder);

/// Tree, shapes, dtypes, sizes and hashes as text for people; with `tensor_name` also min, max,
/// mean, norm and non-finite count of that tensor. Errors: those of `Checkpoint::open`, kNotFound.
Result<std::string> inspect_checkpoint(const fs::path& folder, const std::string& tensor_name = "");
/// The same facts for programs.
Result<nlohmann::ordered_json> inspect_checkpoint_json(const fs::path& folder,
                                                       const std::string& tensor_name = "");

}  // namespace sx
