// The file side of a save: everything is written and synced under a temporary name, the manifest
// last; one rename makes it a checkpoint. A process that dies anywhere leaves the older checkpoints
// and at most one temporary folder.
#include "sextant/ckpt/commit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "sextant/base/check.h"
#include "sextant/base/clock.h"
#include "sextant/base/hash.h"
#include "sextant/base/version.h"
#include "sextant/ckpt/checkpoint_list.h"

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

/// Adds what another rank has written: files, and chunks with their share of the checksum.
Result<void> merge(Manifest part, Manifest& into) {
  for (auto& [name, file] : part.files) into.files[name] = file;
  for (auto& [name, tensor] : part.tensors) {
    const auto [at, fresh] = into.tensors.emplace(name, tensor);
    if (fresh) continue;
    StoredTensor& there = at->second;
    if (there.shape != tensor.shape || there.dtype != tensor.dtype) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("ranks differ in shape or dtype of \"{}\"", name), ""};
    }
    there.logical += tensor.logical;
    there.chunks.insert(there.chunks.end(), tensor.chunks.begin(), tensor.chunks.end());
  }
  return {};
}

Result<void> write_small_file(const fs::path& folder, const std::string& name,
                              std::string_view bytes, Manifest& manifest) {
  SX_CHECK(is_inner_file_name(name), "\"{}\" is not a file inside the checkpoint", name);
  SX_TRY_VOID(make_dirs((folder / name).parent_path()));
  SX_TRY_VOID(write_file_atomic(folder / name, bytes));
  manifest.files[name] = {bytes.size(), xxh3_64(bytes)};
  return {};
}

Manifest begin_manifest(const CheckpointFacts& content, const SaveOptions& options) {
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

Error rename_error(const fs::path& path, int code) {
  return {ErrorKind::kIo, fmt::format("cannot rename {}: {}", path.string(), std::strerror(code)),
          path.string()};
}

/// Gives the finished folder its name. A checkpoint of the same step is exchanged in one step, so
/// there is never a moment without either; the old one is left under the temporary name.
Result<void> give_name(const fs::path& temp, const fs::path& target) {
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
  const auto all = list_checkpoints(root);
  if (!all.ok()) return removed;
  std::error_code code;
  std::int64_t num_newest = 1;  // the one just saved, whatever its step
  for (auto it = all->rbegin(); it != all->rend(); ++it) {
    // One that is damaged takes no other's place and stays for whoever wants to look into it.
    if (*it == saved || !Checkpoint::open(*it).ok()) continue;
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

}  // namespace

Result<FolderLock> FolderLock::take(const fs::path& folder, Seconds patience) {
  FolderLock lock;
  lock.fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock.fd_ < 0) {
    return Error{ErrorKind::kIo,
                 fmt::format("cannot open folder {}: {}", folder.string(), std::strerror(errno)),
                 folder.string()};
  }
  const std::int64_t end =
      monotonic_microseconds() + static_cast<std::int64_t>(patience.value * 1e6);
  while (flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return lock;  // a file system without locks
    if (monotonic_microseconds() >= end) {
      return Error{ErrorKind::kIo,
                   fmt::format("another program has been saving into {} for {:.0f} s",
                               folder.string(), patience.value),
                   folder.string()};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

fs::path temp_folder(const fs::path& root, std::int64_t step, const SaveOptions& options) {
  return root / fmt::format(".tmp-{}-{}", checkpoint_name(step), run_id_of(options));
}

Result<FolderLock> open_temp(const fs::path& root, const fs::path& temp,
                             const SaveOptions& options) {
  SX_TRY_VOID(make_dirs(root));
  SX_TRY(FolderLock lock, FolderLock::take(root));
  remove_torn(root, run_id_of(options));
  SX_TRY_VOID(make_dirs(temp));
  return lock;
}

Result<std::int64_t> commit_folder(const Commit& commit, std::vector<Manifest> written) {
  SX_TRY_VOID(make_dirs(commit.temp / "state"));
  Manifest manifest = begin_manifest(commit.facts, commit.options);
  for (Manifest& part : written) SX_TRY_VOID(merge(std::move(part), manifest));
  for (const auto& [name, state] : commit.facts.states) {
    const std::string file = fmt::format("state/{}.json", name);
    SX_TRY_VOID(write_small_file(commit.temp, file, state.dump() + "\n", manifest));
    manifest.states[name] = file;
  }
  for (const auto& [name, bytes] : commit.facts.files)
    SX_TRY_VOID(write_small_file(commit.temp, name, bytes, manifest));
  for (const auto& [name, tensor] : manifest.tensors) SX_TRY_VOID(check_tiling(name, tensor));
  std::error_code code;
  for (const std::string& name : commit.part_files) fs::remove(commit.temp / name, code);

  const std::string text = format_manifest(manifest);
  SX_TRY_VOID(write_file_atomic(commit.temp / kManifestName, text));  // syncs the folder too
  std::int64_t bytes = static_cast<std::int64_t>(text.size());
  for (const auto& [name, file] : manifest.files) bytes += static_cast<std::int64_t>(file.bytes);
  SX_TRY_VOID(give_name(commit.temp, commit.path));
  fs::remove_all(commit.temp, code);  // the checkpoint that was replaced, if there was one
  SX_TRY_VOID(sync_dir(commit.path.has_parent_path() ? commit.path.parent_path() : fs::path(".")));
  return bytes;
}

Result<SaveReport> commit_step(const fs::path& root, const Commit& commit,
                               std::vector<Manifest> written) {
  SaveReport report;
  report.path = commit.path;
  SX_TRY(report.bytes, commit_folder(commit, std::move(written)));
  SX_TRY_VOID(write_file_atomic(root / "latest", commit.path.filename().string() + "\n"));
  report.removed = apply_retention(root, report.path, commit.options);
  return report;
}

}  // namespace sx
