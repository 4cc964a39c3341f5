// Reading a committed checkpoint: what is asked for is compared with what is stored before a single
// byte is copied.
#include "sextant/ckpt/checkpoint.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include "sextant/base/mmap.h"
#include "sextant/ckpt/safetensors.h"
#include "sextant/ckpt/tiling.h"

namespace sx {
namespace {

constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30;

/// Data files of one checkpoint, mapped when first needed.
class MappedFiles {
 public:
  explicit MappedFiles(const fs::path& folder) : folder_(folder) {}

  Result<std::string_view> text(const std::string& name) {
    auto it = files_.find(name);
    if (it == files_.end()) {
      SX_TRY(MappedFile file, MappedFile::open(folder_ / name));
      it = files_.emplace(name, std::move(file)).first;
    }
    return it->second.text();
  }

 private:
  fs::path folder_;
  std::map<std::string, MappedFile> files_;
};

/// Puts the elements [begin, begin + count) of a tensor into `to`.
Result<void> copy_range(const StoredTensor& tensor, MappedFiles& files, std::int64_t begin,
                        std::int64_t count, char* to) {
  const auto element = safetensors::size_bytes(tensor.dtype);
  for (const Chunk& chunk : tensor.chunks) {
    SX_TRY(const std::string_view file, files.text(chunk.file));
    if (chunk.end > file.size()) {
      return Error{ErrorKind::kCorrupt,
                   fmt::format("{} has shrunk to {} bytes", chunk.file, file.size()), chunk.file};
    }
    const char* from = file.data() + chunk.begin;
    for_each_run(tensor, chunk, [&](std::int64_t first, std::int64_t n) {
      const std::int64_t low = std::max(first, begin), high = std::min(first + n, begin + count);
      if (low < high) {
        std::memcpy(to + (low - begin) * element, from + (low - first) * element,
                    static_cast<std::size_t>((high - low) * element));
      }
      from += n * element;
    });
  }
  return {};
}

Result<at::Tensor> read_tensor(const StoredTensor& stored, MappedFiles& files) {
  at::Tensor tensor = at::empty(stored.shape, to_scalar_type(stored.dtype));
  if (tensor.numel() > 0) {
    SX_TRY_VOID(copy_range(stored, files, 0, tensor.numel(),
                           static_cast<char*>(tensor.mutable_data_ptr())));
  }
  return tensor;
}

bool excluded(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

bool belongs(const std::string& name, const std::string& prefix) {
  return prefix.empty() ? !name.starts_with("optim.") : name.starts_with(prefix);
}

std::string list_names(const char* title, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("; {}: {}", title, fmt::join(names, ", "));
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const fs::path& folder) {
  SX_TRY(const std::string text, read_file(folder / kManifestName, kMaxManifestBytes));
  auto manifest = parse_manifest(text);
  if (!manifest.ok()) {
    Error error = std::move(manifest).error();
    error.where = (folder / kManifestName).string();
    return error;
  }
  for (const auto& [name, file] : manifest->files) {
    std::error_code code;
    const std::uint64_t bytes = fs::file_size(folder / name, code);
    if (code || bytes != file.bytes) {
      return Error{ErrorKind::kCorrupt,
                   code ? fmt::format("{} is missing", name)
                        : fmt::format("{} has {} bytes, {} were saved", name, bytes, file.bytes),
                   folder.string()};
    }
  }
  Checkpoint checkpoint;
  checkpoint.path_ = folder;
  checkpoint.manifest_ = *std::move(manifest);
  return checkpoint;
}

Result<at::Tensor> Checkpoint::load(const std::string& name) const {
  const auto it = manifest_.tensors.find(name);
  if (it == manifest_.tensors.end()) {
    return Error{ErrorKind::kNotFound, fmt::format("no tensor \"{}\"", name), path_.string()};
  }
  MappedFiles files(path_);
  return read_tensor(it->second, files);
}

Result<LoadReport> Checkpoint::compare(const std::vector<Wanted>& wanted, const std::string& prefix,
                                       const std::vector<std::string>& exclude) const {
  LoadReport report;
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> different;
  std::set<std::string> names;
  for (const Wanted& want : wanted) {
    names.insert(want.name);
    const auto it = manifest_.tensors.find(want.name);
    if (it == manifest_.tensors.end()) {
      (excluded(want.name, exclude) ? report.missing : missing).push_back(want.name);
    } else if (!excluded(want.name, exclude) &&
               (it->second.shape != want.shape || to_scalar_type(it->second.dtype) != want.dtype)) {
      different.push_back(fmt::format("{} (stored {} [{}], wanted {} [{}])", want.name,
                                      toString(to_scalar_type(it->second.dtype)),
                                      fmt::join(it->second.shape, ", "), toString(want.dtype),
                                      fmt::join(want.shape, ", ")));
    }
  }
  for (const auto& [name, stored] : manifest_.tensors) {
    if (!belongs(name, prefix) || names.count(name) != 0) continue;
    (excluded(name, exclude) ? report.unexpected : unexpected).push_back(name);
  }
  if (!missing.empty() || !unexpected.empty() || !different.empty()) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("checkpoint and model differ{}{}{}", list_names("missing", missing),
                             list_names("unexpected", unexpected),
                             list_names("of another shape or dtype", different)),
                 path_.string()};
  }
  return report;
}

Result<LoadReport> Checkpoint::load_into(std::span<const NamedTensor> tensors,
                                         const std::string& prefix,
                                         const std::vector<std::string>& exclude) const {
  std::vector<Wanted> wanted;
  for (const NamedTensor& want : tensors)
    wanted.push_back({want.name, want.tensor.sizes().vec(), want.tensor.scalar_type()});
  SX_TRY(const LoadReport report, compare(wanted, prefix, exclude));
  const c10::AutoGradMode no_grad(false);
  MappedFiles files(path_);
  for (const NamedTensor& want : tensors) {
    const auto it = manifest_.tensors.find(want.name);
    if (it == manifest_.tensors.end() || excluded(want.name, exclude)) continue;
    if (want.tensor.is_contiguous() && want.tensor.is_cpu()) {
      if (want.tensor.numel() == 0) continue;
      SX_TRY_VOID(copy_range(it->second, files, 0, want.tensor.numel(),
                             static_cast<char*>(want.tensor.mutable_data_ptr())));
    } else {
      SX_TRY(const at::Tensor whole, read_tensor(it->second, files));
      at::Tensor target = want.tensor.detach();
      target.copy_(whole);
    }
  }
  return report;
}

Result<LoadReport> Checkpoint::load_parts(std::span<const TensorPart> parts,
                                          const std::string& prefix,
                                          const std::vector<std::string>& exclude) const {
  std::vector<Wanted> wanted;
  for (const TensorPart& part : parts)
    wanted.push_back({part.name, part.shape, part.values.scalar_type()});
  SX_TRY(const LoadReport report, compare(wanted, prefix, exclude));
  MappedFiles files(path_);
  for (const TensorPart& part : parts) {
    const auto it = manifest_.tensors.find(part.name);
    if (it == manifest_.tensors.end() || excluded(part.name, exclude)) continue;
    if (part.values.numel() == 0) continue;
    SX_TRY_VOID(copy_range(it->second, files, part.begin, part.values.numel(),
                           static_cast<char*>(part.values.mutable_data_ptr())));
  }
  return report;
}

Result<nlohmann::ordered_json> Checkpoint::state(const std::string& name) const {
  const auto it = manifest_.states.find(name);
  if (it == manifest_.states.end()) {
    return Error{ErrorKind::kNotFound, fmt::format("no state \"{}\"", name), path_.string()};
  }
  SX_TRY(const std::string text, read_file(path_ / it->second));
  auto state = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (state.is_discarded()) {
    return Error{ErrorKind::kCorrupt, fmt::format("{} is not JSON", it->second), path_.string()};
  }
  return state;
}

}  // namespace sx
