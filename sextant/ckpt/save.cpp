// Saving: everything is written and synced under a temporary name, the manifest last; one rename
// makes it a checkpoint. A process that dies anywhere leaves the older checkpoints and at most one
// temporary folder.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>
#include <tuple>
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
  for (const auto* parts : {&content.model_parts, &content.optim_parts}) {
    for (const TensorPart& part : *parts) {
      if (part.name.empty() || part.name.find('@') != std::string::npos ||
          !names.insert(part.name).second) {
        return Error{ErrorKind::kInvalid, fmt::format("tensor name \"{}\"", part.name), ""};
      }
    }
  }
  return {};
}

/// Writes one data file of parts and enters them. A part that is its whole tensor is a box, another
/// one a flat range.
Result<void> write_parts(const fs::path& folder, const std::string& file,
                         std::span<const TensorPart> parts, Manifest& manifest) {
  std::vector<NamedTensor> tensors;
  std::map<std::string, const TensorPart*> by_name;
  for (const TensorPart& part : parts) {
    std::int64_t whole = 1;
    for (const std::int64_t extent : part.shape) whole *= extent;
    const bool all = part.values.numel() == whole;
    if (part.values.numel() == 0 && !all) continue;
    if (all) {
      tensors.push_back({part.name, part.values.view(part.shape)});
    } else {
      tensors.push_back({fmt::format("{}@flat:{}", part.name, part.begin), part.values});
    }
    by_name[tensors.back().name] = &part;
  }
  if (tensors.empty()) return {};
  SX_TRY(const WrittenFile written, save_safetensors(folder / file, tensors));
  manifest.files[file] = {written.bytes, written.xxh3};
  for (const auto& [entry, xxh3] : written.entries) {
    const TensorPart& part = *by_name.at(entry.name);
    StoredTensor stored{.dtype = entry.dtype, .shape = part.shape};
    if (entry.num_bytes() > 0) {
      const at::Tensor values = part.values.detach().contiguous();
      stored.logical = logical_checksum(
          {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()},
          safetensors::size_bytes(entry.dtype), static_cast<std::uint64_t>(part.begin));
      Chunk chunk{.file = file,
                  .begin = written.data_begin + entry.begin,
                  .end = written.data_begin + entry.end,
                  .xxh3 = xxh3};
      if (entry.shape == part.shape) {
        chunk.kind = Chunk::Kind::kBox;
        chunk.offset.assign(part.shape.size(), 0);
        chunk.size = part.shape;
      } else {
        chunk.kind = Chunk::Kind::kFlat;
        chunk.offset = {part.begin};
        chunk.size = {values.numel()};
      }
      stored.chunks.push_back(std::move(chunk));
    }
    manifest.tensors[part.name] = std::move(stored);
  }
  return {};
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

std::vector<TensorPart> as_parts(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorPart> parts;
  for (const NamedTensor& named : tensors) {
    parts.push_back(
        {named.name, named.tensor.sizes().vec(), 0, named.tensor.detach().contiguous().view({-1})});
  }
  return parts;
}

/// What this rank writes: its parts, and on coord 0 what is replicated.
Result<Manifest> write_own_tensors(const fs::path& folder, const CheckpointContent& content,
                                   std::int64_t coord) {
  Manifest manifest;
  for (const auto& [kind, replicated, parts] :
       {std::tuple{"model", &content.model, &content.model_parts},
        std::tuple{"optim", &content.optim, &content.optim_parts}}) {
    std::vector<TensorPart> own = *parts;
    if (coord == 0) {
      for (TensorPart& part : as_parts(*replicated)) own.push_back(std::move(part));
    }
    SX_TRY_VOID(
        write_parts(folder, fmt::format("{}-{:05}.safetensors", kind, coord), own, manifest));
  }
  return manifest;
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

/// Adds to the data files in the temporary folder what makes it a checkpoint; returns its size.
Result<std::int64_t> write_folder(const fs::path& folder, const CheckpointContent& content,
                                  const SaveOptions& options, std::vector<Manifest> written) {
  SX_TRY_VOID(make_dirs(folder / "state"));
  Manifest manifest = begin_manifest(content, options);
  for (Manifest& part : written) SX_TRY_VOID(merge(std::move(part), manifest));
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

Result<SaveReport> commit(const fs::path& root, const fs::path& temp,
                          const CheckpointContent& content, const SaveOptions& options,
                          std::vector<Manifest> written) {
  SaveReport report;
  report.path = root / checkpoint_name(content.step);
  SX_TRY(report.bytes, write_folder(temp, content, options, std::move(written)));
  SX_TRY_VOID(commit_folder(temp, report.path));
  std::error_code code;
  fs::remove_all(temp, code);  // the checkpoint that was replaced, if there was one
  SX_TRY_VOID(sync_dir(root));
  SX_TRY_VOID(write_file_atomic(root / "latest", checkpoint_name(content.step) + "\n"));
  report.removed = apply_retention(root, report.path, options);
  return report;
}

Result<void> prepare(const fs::path& root, const fs::path& temp, const SaveOptions& options) {
  SX_TRY_VOID(make_dirs(root));
  remove_torn(root, run_id_of(options));
  return make_dirs(temp);
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

namespace {

/// Every rank's text on coord 0, in the order of coords; elsewhere nothing.
std::vector<std::string> gather_texts(const std::string& own, Communicator& world) {
  const at::Tensor sizes = at::empty({world.degree()}, at::kLong);
  world
      .start_all_gather(sizes, at::full({1}, static_cast<std::int64_t>(own.size()), at::kLong), {},
                        {.unit = "checkpoint parts"})
      .wait();
  const auto* n = sizes.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> counts(n, n + world.degree());
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  const at::Tensor all = at::empty({total}, at::kByte);
  const at::Tensor mine = at::empty({static_cast<std::int64_t>(own.size())}, at::kByte);
  if (!own.empty()) std::memcpy(mine.mutable_data_ptr(), own.data(), own.size());
  world.start_all_gather(all, mine, counts, {.unit = "checkpoint parts"}).wait();
  std::vector<std::string> texts;
  const auto* at = static_cast<const char*>(all.const_data_ptr());
  for (const std::int64_t count : counts) {
    texts.emplace_back(at, static_cast<std::size_t>(count));
    at += count;
  }
  return texts;
}

constexpr char kFailed = '!';  // first letter of a rank's text that is an error: kind, message

/// A rank's manifest of its own files, or its error, as text and back.
std::string encode(const Result<Manifest>& written) {
  if (written.ok()) return format_manifest(*written);
  return fmt::format("{}{}{}", kFailed,
                     static_cast<char>('0' + static_cast<int>(written.error().kind)),
                     written.error().message);
}

Result<Manifest> decode(const std::string& text) {
  if (text.size() >= 2 && text[0] == kFailed) {
    return Error{static_cast<ErrorKind>(text[1] - '0'), text.substr(2), ""};
  }
  return parse_manifest_part(text);
}

}  // namespace

Result<SaveReport> save_checkpoint(const fs::path& root, const CheckpointContent& content,
                                   Communicator& world, const SaveOptions& options) {
  const fs::path path = root / checkpoint_name(content.step);
  const fs::path temp =
      root / fmt::format(".tmp-{}-{}", checkpoint_name(content.step), run_id_of(options));
  const auto clean = [&] {
    std::error_code code;
    if (world.coord() == 0) fs::remove_all(temp, code);
  };
  // Coord 0 makes the folder, every rank writes into it, coord 0 commits; after each part all know
  // whether to go on.
  Result<SaveReport> outcome = SaveReport{};
  if (world.coord() == 0) {
    const auto prepared = prepare(root, temp, options);
    if (!prepared.ok()) outcome = prepared.error();
  }
  outcome = share_outcome(std::move(outcome), path, world);
  if (!outcome.ok()) return outcome;

  Result<Manifest> own = Manifest{};
  if (const auto names = check_names(content); !names.ok()) {
    own = names.error();
  } else {
    own = write_own_tensors(temp, content, world.coord());
  }
  const std::vector<std::string> texts = gather_texts(encode(own), world);
  if (world.coord() == 0) {
    std::vector<Manifest> written;
    for (const std::string& text : texts) {
      auto part = decode(text);
      if (!part.ok()) {
        outcome = std::move(part).error();
        break;
      }
      written.push_back(*std::move(part));
    }
    if (outcome.ok()) outcome = commit(root, temp, content, options, std::move(written));
    if (!outcome.ok()) clean();
  }
  return share_outcome(std::move(outcome), path, world);
}

}  // namespace sx
