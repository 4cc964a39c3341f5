// Saving: everything is written and synced under a temporary name, the manifest last; one rename
// makes it a checkpoint. A process that dies anywhere leaves the older checkpoints and at most one
// temporary folder.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include "sextant/base/clock.h"
#include "sextant/base/hash.h"
#include "sextant/base/log.h"
#include "sextant/base/version.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/ckpt/checkpoint_list.h"
#include "sextant/ckpt/logical_checksum.h"
#include "sextant/ckpt/safetensors.h"

namespace sx {
namespace {

std::string run_id_of(const SaveOptions& options) {
  return options.run_id.empty() ? "run" : options.run_id;
}

/// Temporary folders of this run's earlier attempts.
void remove_torn(const fs::path& root, const std::string& run_id) {
  std::error_code code;
  std::vector<fs::path> torn;
  for (fs::directory_iterator it(root, code), end; !code && it != end; it.increment(code)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(".tmp-step-") && name.ends_with("-" + run_id)) torn.push_back(it->path());
  }
  for (const fs::path& path : torn) fs::remove_all(path, code);
}

Result<void> check_names(const CheckpointContent& content) {
  std::set<std::string_view> names;
  for (const auto* tensors : {&content.model, &content.optim}) {
    for (const NamedTensor& named : *tensors) {
      if (named.name.empty() || named.name.find('@') != std::string::npos) {
        return Error{ErrorKind::kInvalid, fmt::format("tensor name \"{}\"", named.name), ""};
      }
      if (!names.insert(named.name).second) {
        return Error{ErrorKind::kInvalid, fmt::format("tensor \"{}\" twice", named.name), ""};
      }
    }
  }
  return {};
}

/// Writes one data file and enters its tensors, each as one box that is the whole tensor.
Result<void> write_tensors(const fs::path& folder, const std::string& file,
                           std::span<const NamedTensor> tensors, Manifest& manifest) {
  if (tensors.empty()) return {};
  SX_TRY(const WrittenFile written, save_safetensors(folder / file, tensors));
  manifest.files[file] = {written.bytes, written.xxh3};
  std::map<std::string_view, const at::Tensor*> by_name;
  for (const NamedTensor& named : tensors) by_name[named.name] = &named.tensor;
  for (const auto& [entry, xxh3] : written.entries) {
    StoredTensor stored{.dtype = entry.dtype, .shape = entry.shape};
    if (entry.num_bytes() > 0) {
      const at::Tensor whole = by_name.at(entry.name)->detach().contiguous();
      stored.logical =
          logical_checksum({static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()},
                           safetensors::size_bytes(entry.dtype));
      stored.chunks.push_back({.file = file,
                               .kind = Chunk::Kind::kBox,
                               .offset = std::vector<std::int64_t>(entry.shape.size(), 0),
                               .size = entry.shape,
                               .begin = written.data_begin + entry.begin,
                               .end = written.data_begin + entry.end,
                               .xxh3 = xxh3});
    }
    manifest.tensors[entry.name] = std::move(stored);
  }
  return {};
}

Result<void> write_small_file(const fs::path& folder, const std::string& name,
                              std::string_view bytes, Manifest& manifest) {
  SX_TRY_VOID(make_dirs((folder / name).parent_path()));
  SX_TRY_VOID(write_file_atomic(folder / name, bytes));
  manifest.files[name] = {bytes.size(), xxh3_64(bytes)};
  return {};
}

Manifest begin_manifest(const CheckpointContent& content, const SaveOptions& options) {
  Manifest manifest;
  manifest.step = content.step;
  manifest.tokens = content.tokens;
  manifest.samples = content.samples;
  manifest.created = options.created.empty() ? utc_timestamp(unix_microseconds()) : options.created;
  manifest.sextant = version().version;
  manifest.git = version().git_commit;
  manifest.fingerprint = content.fingerprint;
  manifest.mesh = content.mesh;
  return manifest;
}

/// Fills the temporary folder; returns its size.
Result<std::int64_t> write_folder(const fs::path& folder, const CheckpointContent& content,
                                  const SaveOptions& options) {
  SX_TRY_VOID(make_dirs(folder / "state"));
  Manifest manifest = begin_manifest(content, options);
  SX_TRY_VOID(write_tensors(folder, "model-00000.safetensors", content.model, manifest));
  SX_TRY_VOID(write_tensors(folder, "optim-00000.safetensors", content.optim, manifest));
  for (const auto& [name, state] : content.states) {
    const std::string file = fmt::format("state/{}.json", name);
    SX_TRY_VOID(write_small_file(folder, file, state.dump() + "\n", manifest));
    manifest.states[name] = file;
  }
  for (const auto& [name, bytes] : content.files)
    SX_TRY_VOID(write_small_file(folder, name, bytes, manifest));
  for (const auto& [name, tensor] : manifest.tensors) SX_TRY_VOID(check_tiling(name, tensor));

  const std::string text = format_manifest(manifest);
  SX_TRY_VOID(write_file_atomic(folder / kManifestName, text));  // syncs the folder too
  std::int64_t bytes = static_cast<std::int64_t>(text.size());
  for (const auto& [name, file] : manifest.files) bytes += static_cast<std::int64_t>(file.bytes);
  return bytes;
}

Error rename_error(const fs::path& path, int code) {
  return {ErrorKind::kIo, fmt::format("cannot rename {}: {}", path.string(), std::strerror(code)),
          path.string()};
}

/// Gives the finished folder its name. A checkpoint of the same step is exchanged in one step, so
/// there is never a moment without either; the old one is left under the temporary name.
Result<void> commit_folder(const fs::path& temp, const fs::path& target) {
  if (rename(temp.c_str(), target.c_str()) == 0) return {};
  if (errno != EEXIST && errno != ENOTEMPTY) return rename_error(temp, errno);
  if (syscall(SYS_renameat2, AT_FDCWD, temp.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) ==
      0)
    return {};
  if (errno != EINVAL && errno != ENOSYS) return rename_error(temp, errno);
  // A file system that cannot exchange: the manifest goes first, so what is left of the old one is
  // no checkpoint.
  std::error_code code;
  fs::remove(target / kManifestName, code);
  if (!code) fs::remove_all(target, code);
  if (code) return rename_error(target, code.value());
  if (rename(temp.c_str(), target.c_str()) != 0) return rename_error(temp, errno);
  return {};
}

/// Removes what `keep` and `keep_every` do not keep. A folder gets a temporary name first: half
/// removed it is no checkpoint.
std::vector<fs::path> apply_retention(const fs::path& root, const fs::path& saved,
                                      const SaveOptions& options) {
  std::vector<fs::path> removed;
  if (options.keep <= 0) return removed;
  const std::vector<fs::path> all = list_checkpoints(root);
  std::error_code code;
  std::int64_t num_newest = 1;  // the one just saved, whatever its step
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (*it == saved) continue;
    const std::int64_t step = *step_of(it->filename().string());
    const bool newest = num_newest < options.keep;
    if (newest) ++num_newest;
    const bool regular = options.keep_every > 0 && step % options.keep_every == 0;
    const bool loaded =
        !options.loaded_from.empty() && fs::equivalent(*it, options.loaded_from, code);
    if (newest || regular || loaded) continue;
    const fs::path temp =
        root / fmt::format(".tmp-{}-{}", it->filename().string(), run_id_of(options));
    fs::remove_all(temp, code);
    fs::rename(*it, temp, code);
    if (code) continue;
    fs::remove_all(temp, code);
    removed.push_back(*it);
  }
  return removed;
}

Result<SaveReport> save_here(const fs::path& root, const CheckpointContent& content,
                             const SaveOptions& options) {
  SX_TRY_VOID(check_names(content));
  SX_TRY_VOID(make_dirs(root));
  remove_torn(root, run_id_of(options));
  const fs::path temp =
      root / fmt::format(".tmp-{}-{}", checkpoint_name(content.step), run_id_of(options));
  SaveReport report;
  report.path = root / checkpoint_name(content.step);
  const auto cleanup = [&temp] {
    std::error_code code;
    fs::remove_all(temp, code);
  };
  auto bytes = write_folder(temp, content, options);
  if (!bytes.ok()) {
    cleanup();
    return std::move(bytes).error();
  }
  report.bytes = *bytes;
  auto committed = commit_folder(temp, report.path);
  cleanup();  // what the name stands for now: nothing, or the checkpoint that was replaced
  if (!committed.ok()) return std::move(committed).error();
  SX_TRY_VOID(sync_dir(root));
  SX_TRY_VOID(write_file_atomic(root / "latest", checkpoint_name(content.step) + "\n"));
  report.removed = apply_retention(root, report.path, options);
  return report;
}

/// What coord 0 found, on every rank: the error's kind and text, or the bytes written.
Result<SaveReport> share_outcome(Result<SaveReport> outcome, const fs::path& path,
                                 Communicator& world) {
  const bool here = world.coord() == 0;
  const at::Tensor head = at::zeros({4}, at::kLong);  // failed, kind, length of the text, bytes
  auto* h = head.mutable_data_ptr<std::int64_t>();
  std::string text;
  if (here && outcome.ok()) h[3] = outcome->bytes;
  if (here && !outcome.ok()) {
    text = outcome.error().message;
    h[0] = 1;
    h[1] = static_cast<std::int64_t>(outcome.error().kind);
    h[2] = static_cast<std::int64_t>(text.size());
  }
  world.start_broadcast(head, 0, {.unit = "checkpoint outcome"}).wait();
  if (h[0] == 0) {
    if (here) return outcome;
    SaveReport report;
    report.path = path;
    report.bytes = h[3];
    return report;
  }
  const at::Tensor message = at::empty({h[2]}, at::kByte);
  if (here) std::memcpy(message.mutable_data_ptr(), text.data(), text.size());
  world.start_broadcast(message, 0, {.unit = "checkpoint error"}).wait();
  if (here) return outcome;
  return Error{static_cast<ErrorKind>(h[1]),
               std::string(static_cast<const char*>(message.const_data_ptr()),
                           static_cast<std::size_t>(h[2])),
               path.string()};
}

}  // namespace

Result<SaveReport> save_checkpoint(const fs::path& root, const CheckpointContent& content,
                                   Communicator& world, const SaveOptions& options) {
  const fs::path path = root / checkpoint_name(content.step);
  Result<SaveReport> outcome = SaveReport{};
  if (world.coord() == 0) outcome = save_here(root, content, options);
  return share_outcome(std::move(outcome), path, world);
}

}  // namespace sx
