#pragma once

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
#include "sextant/dist/communicator.h"
#include "sextant/shard/named_tensor.h"

namespace sx {

/// A range of one tensor's elements in row-major order, as a rank of a sharded run holds it.
struct TensorPart {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the whole tensor
  std::int64_t begin = 0;           ///< first element
  at::Tensor values;                ///< [count], contiguous
};

/// Everything one checkpoint commits together.
struct CheckpointContent {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  std::int64_t samples = 0;
  std::string fingerprint;                   ///< of the resolved recipe
  std::map<std::string, std::int64_t> mesh;  ///< axis name -> degree
  std::vector<NamedTensor> model;            ///< parameters under their names
  std::vector<NamedTensor> optim;            ///< "optim.<param>.exp_avg" and the like
  /// Instead: what this rank writes of each tensor. The parts of all ranks tile every tensor, and
  /// no rank holds more than its own.
  std::vector<TensorPart> model_parts, optim_parts;
  std::map<std::string, nlohmann::ordered_json>
      states;  ///< "loader", "rng", "lr", "trainer" -> state/<name>.json
  std::map<std::string, std::string>
      files;  ///< further files by relative path: "recipe.resolved.toml", "model.json"
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
  fs::path path;  ///< root/step-NNNNNNN
  std::int64_t bytes = 0;
  std::vector<fs::path> removed;  ///< by retention
};

/// Saves one checkpoint under `root`: temporary folder, files fsynced, parts checked to tile every
/// tensor, manifest last, rename, fsync of the parent, then `root/latest`; afterwards retention.
///
/// Collective over `world`: `model` and `optim` are replicated, coord 0 writes them; parts are
/// written by the ranks that have them, each into a file of its own, at the same time. `root` is a
/// folder that all ranks see. All return the same success or failure. Torn saves leave only a
/// folder `.tmp-step-*`, which is never selected. Errors:  kIo (older checkpoints stay as they
/// are), kInvalid (a name with '@', a dtype the format
///          lacks), on every rank alike.
Result<SaveReport> save_checkpoint(const fs::path& root, const CheckpointContent& content,
                                   Communicator& world, const SaveOptions& options = {});

/// What a load found besides what was asked for.
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

  /// One tensor in its global shape. Errors: kNotFound, kCorrupt, kIo.
  Result<at::Tensor> load(const std::string& name) const;
  /// Copies into existing tensors by name; shapes and dtypes must agree (all disagreements are
  /// listed). Nothing is skipped silently: names on either side alone are errors unless a shell
  /// pattern of `exclude` matches them. `prefix` selects what counts as unexpected: with "optim."
  /// only such names, with "" all that do not begin with "optim.".
  /// Errors:  kInvalid listing all missing and unexpected names and differing shapes, before
  ///          anything is copied.
  Result<LoadReport> load_into(std::span<const NamedTensor> tensors, const std::string& prefix = "",
                               const std::vector<std::string>& exclude = {}) const;
  /// As above for ranges: copies each part's elements out of the stored tensor, whatever cut that
  /// was saved in, one tensor at a time. Parts of all names must be given, empty ones too.
  Result<LoadReport> load_parts(std::span<const TensorPart> parts, const std::string& prefix = "",
                                const std::vector<std::string>& exclude = {}) const;
  /// state/<name>.json. Errors: kNotFound, kCorrupt.
  Result<nlohmann::ordered_json> state(const std::string& name) const;

 private:
  /// A name that a model wants, to be compared with what is stored.
  struct Wanted {
    std::string name;
    std::vector<std::int64_t> shape;
    at::ScalarType dtype;
  };
  Result<LoadReport> compare(const std::vector<Wanted>& wanted, const std::string& prefix,
                             const std::vector<std::string>& exclude) const;

  fs::path path_;
  Manifest manifest_;
};

/// The checkpoint to resume from: the one `root/latest` names, else the newest step-* whose
/// manifest and file sizes hold (with `full_hashes` also every hash). No checkpoint = empty.
/// `rejected` gets one line per folder that was passed over.
Result<std::optional<fs::path>> find_newest_checkpoint(
    const fs::path& root, bool full_hashes = false, std::vector<std::string>* rejected = nullptr);

/// The checkpoint that a person names by its own folder, by a file `latest`, by a folder of
/// checkpoints or by a run folder (its newest one, as above). No checkpoint there = empty.
Result<std::optional<fs::path>> find_checkpoint(const fs::path& named);

/// Committed checkpoints under `root`, oldest first, without looking inside.
std::vector<fs::path> list_checkpoints(const fs::path& root);

/// Every hash, every tiling, every logical checksum; one line per fault. Empty = the checkpoint is
/// whole.
Result<std::vector<std::string>> verify_checkpoint(const fs::path& folder);

/// Tree, shapes, dtypes, sizes and hashes as text for people; with `tensor_name` also min, max,
/// mean, norm and non-finite count of that tensor. Errors: those of `Checkpoint::open`, kNotFound.
Result<std::string> inspect_checkpoint(const fs::path& folder, const std::string& tensor_name = "");

}  // namespace sx
