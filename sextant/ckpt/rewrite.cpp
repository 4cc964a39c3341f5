// Checkpoints written tensor by tensor, from another checkpoint or from anywhere else.
#include "sextant/ckpt/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/clock.h"
#include "sextant/base/hash.h"
#include "sextant/ckpt/commit.h"

namespace sx {
namespace {

/// The elements [begin, end) of one tensor in one file.
struct Slice {
  const StreamedTensor* tensor = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
struct SlicedFile {
  std::string name;
  std::vector<Slice> slices;
};

std::int64_t element_of(const StreamedTensor& tensor) {
  return safetensors::size_bytes(tensor.dtype);
}

void slice_kind(const char* kind, const std::vector<const StreamedTensor*>& tensors,
                std::int64_t num_files, std::vector<SlicedFile>& files) {
  std::int64_t total = 0;
  for (const StreamedTensor* tensor : tensors)
    total += num_elements(tensor->shape) * element_of(*tensor);
  for (std::int64_t k = 0; k < num_files; ++k) {
    const auto bound = [&](std::int64_t i) {
      return total / num_files * i + total % num_files * i / num_files;
    };
    SlicedFile file{fmt::format("{}-{:05}.safetensors", kind, k), {}};
    std::int64_t at = 0;
    for (const StreamedTensor* tensor : tensors) {
      const std::int64_t bytes = num_elements(tensor->shape) * element_of(*tensor);
      const auto place = [&](std::int64_t line) {
        return std::clamp(line - at, std::int64_t{0}, bytes) / element_of(*tensor);
      };
      const std::int64_t begin = place(bound(k)), end = place(bound(k + 1));
      if (begin < end || (bytes == 0 && k == 0)) file.slices.push_back({tensor, begin, end});
      at += bytes;
    }
    if (!file.slices.empty()) files.push_back(std::move(file));
  }
}

std::vector<SlicedFile> slice_files(std::span<const StreamedTensor> tensors,
                                    std::int64_t num_files) {
  SX_CHECK(num_files > 0, "{} files", num_files);
  std::vector<const StreamedTensor*> model, optim;
  for (const StreamedTensor& tensor : tensors)
    (tensor.name.starts_with("optim.") ? optim : model).push_back(&tensor);
  std::vector<SlicedFile> files;
  slice_kind("model", model, num_files, files);
  slice_kind("optim", optim, num_files, files);
  return files;
}

Result<void> write_slices(const fs::path& temp, const SlicedFile& file, Manifest& manifest) {
  std::vector<DataPiece> pieces;
  std::vector<std::string> names;
  const auto block = std::make_shared<std::vector<std::byte>>();
  for (const Slice& slice : file.slices) {
    const StreamedTensor& tensor = *slice.tensor;
    const std::int64_t count = slice.end - slice.begin;
    const Region region = count == num_elements(tensor.shape) ? Region::whole(tensor.shape)
                                                              : Region::flat(slice.begin, count);
    pieces.push_back({entry_name(tensor.name, tensor.shape, region), tensor.dtype, region.size,
                      tensor.shape, region,
                      [&tensor, block, first = slice.begin](
                          std::int64_t begin, std::int64_t n) -> Result<std::string_view> {
                        block->resize(static_cast<std::size_t>(n * element_of(tensor)));
                        SX_TRY_VOID(tensor.read(first + begin, n, *block));
                        return std::string_view(reinterpret_cast<const char*>(block->data()),
                                                block->size());
                      }});
    names.push_back(tensor.name);
  }
  SX_TRY(const WrittenData written, write_data_file(temp / file.name, pieces));
  Manifest part;
  enter_written(file.name, pieces, names, written, part);
  for (auto& [name, tensor] : part.tensors) {
    StoredTensor& into =
        manifest.tensors.try_emplace(name, StoredTensor{tensor.dtype, tensor.shape, 0, {}})
            .first->second;
    into.logical += tensor.logical;
    into.chunks.insert(into.chunks.end(), tensor.chunks.begin(), tensor.chunks.end());
  }
  manifest.files.insert(part.files.begin(), part.files.end());
  return {};
}

Result<void> check_streamed(std::span<const StreamedTensor> tensors) {
  std::set<std::string_view> names;
  for (const StreamedTensor& tensor : tensors) {
    if (tensor.name.empty() || tensor.name.find('@') != std::string::npos)
      return Error{ErrorKind::kInvalid, fmt::format("tensor name \"{}\"", tensor.name), ""};
    if (!names.insert(tensor.name).second)
      return Error{ErrorKind::kInvalid, fmt::format("tensor \"{}\" twice", tensor.name), ""};
  }
  return {};
}

Result<SaveReport> write_all(const Commit& commit, std::span<const StreamedTensor> tensors,
                             std::int64_t num_files) {
  Manifest manifest;
  for (const SlicedFile& file : slice_files(tensors, num_files))
    SX_TRY_VOID(write_slices(commit.temp, file, manifest));
  for (const StreamedTensor& tensor : tensors) {
    const std::uint64_t found = manifest.tensors.at(tensor.name).logical;
    if (tensor.logical && *tensor.logical != found) {
      return Error{ErrorKind::kCorrupt,
                   fmt::format("tensor \"{}\" has logical checksum {} as read, {} was saved",
                               tensor.name, hex64(found), hex64(*tensor.logical)),
                   ""};
    }
  }
  std::vector<Manifest> written;
  written.push_back(std::move(manifest));
  SaveReport report;
  report.path = commit.path;
  SX_TRY(report.bytes, commit_folder(commit, std::move(written)));
  return report;
}

}  // namespace

std::vector<PlannedFile> plan_streamed(std::span<const StreamedTensor> tensors,
                                       std::int64_t num_files) {
  std::vector<PlannedFile> planned;
  for (const SlicedFile& file : slice_files(tensors, num_files)) {
    PlannedFile plan{file.name};
    for (const Slice& slice : file.slices) {
      plan.bytes += (slice.end - slice.begin) * element_of(*slice.tensor);
      plan.chunks += slice.end > slice.begin ? 1 : 0;
    }
    planned.push_back(std::move(plan));
  }
  return planned;
}

Result<SaveReport> write_streamed(const fs::path& folder, const CheckpointFacts& facts,
                                  std::span<const StreamedTensor> tensors, std::int64_t num_files,
                                  const SaveOptions& options) {
  const std::int64_t begin = monotonic_microseconds();
  SX_TRY_VOID(check_streamed(tensors));
  std::error_code code;
  fs::path path = fs::absolute(folder, code).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const Error taken{ErrorKind::kInvalid, fmt::format("{} is there already", path.string()),
                    path.string()};
  if (fs::exists(path, code)) return taken;
  const fs::path temp = path.parent_path() / (".tmp-" + path.filename().string());
  SX_TRY_VOID(make_dirs(path.parent_path()));
  SX_TRY(const FolderLock lock, FolderLock::take(path.parent_path()));
  if (fs::exists(path, code)) return taken;  // made while this waited for the lock
  fs::remove_all(temp, code);
  SX_TRY_VOID(make_dirs(temp));
  Result<SaveReport> report = write_all({temp, path, facts, options}, tensors, num_files);
  if (report.ok()) {
    report->seconds = static_cast<double>(monotonic_microseconds() - begin) * 1e-6;
  } else {
    fs::remove_all(temp, code);
  }
  return report;
}

std::vector<StreamedTensor> streamed_tensors(const Checkpoint& checkpoint) {
  std::vector<StreamedTensor> tensors;
  for (const auto& [name, stored] : checkpoint.manifest().tensors) {
    tensors.push_back({name, stored.dtype, stored.shape,
                       [&checkpoint, name = name](std::int64_t begin, std::int64_t count,
                                                  std::span<std::byte> out) {
                         return checkpoint.read_range(name, begin, count, out);
                       },
                       stored.logical});
  }
  return tensors;
}

Result<CheckpointFacts> facts_of(const Checkpoint& checkpoint) {
  const Manifest& manifest = checkpoint.manifest();
  CheckpointFacts facts;
  facts.step = manifest.step;
  facts.tokens = manifest.tokens;
  facts.samples = manifest.samples;
  facts.fingerprint = manifest.fingerprint;
  facts.mesh = manifest.mesh;
  std::set<std::string> states;
  for (const auto& [name, file] : manifest.states) {
    SX_TRY(facts.states[name], checkpoint.state(name));
    states.insert(file);
  }
  for (const auto& [name, file] : manifest.files) {
    if (states.count(name) != 0 || name.ends_with(".safetensors")) continue;
    SX_TRY(facts.files[name], checkpoint.text(name));
  }
  return facts;
}

}  // namespace sx
