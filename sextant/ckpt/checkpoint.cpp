// Reading a committed checkpoint: what is asked for is compared with what is stored before a single
// byte is copied.
#include "sextant/ckpt/checkpoint.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/ckpt/agree.h"
#include "sextant/ckpt/chunk_reader.h"
#include "sextant/ckpt/commit.h"
#include "sextant/ckpt/logical_checksum.h"
#include "sextant/ckpt/safetensors.h"
#include "sextant/ckpt/save_plan.h"

namespace sx {
namespace {

constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30;

std::uint64_t logical_of(const StoredTensor& stored, const Region& region, std::int64_t begin,
                         std::int64_t end, const std::byte* values) {
  const std::int64_t element = safetensors::size_bytes(stored.dtype);
  std::uint64_t sum = 0;
  for_each_run(stored.shape, region, [&](std::int64_t first, std::int64_t local, std::int64_t n) {
    const std::int64_t from = std::max(local, begin), to = std::min(local + n, end);
    if (from >= to) return;
    sum +=
        logical_checksum({values + from * element, static_cast<std::size_t>((to - from) * element)},
                         element, static_cast<std::uint64_t>(first + (from - local)));
  });
  return sum;
}

Result<void> check_logical(const std::string& name, std::uint64_t stored, std::uint64_t found,
                           const fs::path& path) {
  if (found == stored) return {};
  return Error{ErrorKind::kCorrupt,
               fmt::format("tensor \"{}\" has logical checksum {} as loaded, {} was saved", name,
                           hex64(found), hex64(stored)),
               path.string()};
}

Result<at::Tensor> read_tensor(const std::string& name, const StoredTensor& stored,
                               ChunkReader& reader, const fs::path& path) {
  at::Tensor tensor = at::empty(stored.shape, to_scalar_type(stored.dtype));
  if (tensor.numel() == 0) return tensor;
  auto* out = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const Region whole = Region::whole(stored.shape);
  SX_TRY_VOID(reader.read(stored, whole, out));
  SX_TRY_VOID(
      check_logical(name, stored.logical, logical_of(stored, whole, 0, tensor.numel(), out), path));
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
    if (code && code != std::errc::no_such_file_or_directory) {
      return Error{ErrorKind::kIo, fmt::format("cannot look at {}: {}", name, code.message()),
                   folder.string()};
    }
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
  ChunkReader reader(path_);
  return read_tensor(name, it->second, reader, path_);
}

Result<LoadReport> Checkpoint::compare(const std::vector<Wanted>& wanted,
                                       const LoadOptions& options) const {
  LoadReport report;
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> different;
  std::set<std::string> names;
  const auto allowed = [&](const std::string& name) {
    return !options.strict || excluded(name, options.exclude);
  };
  for (const Wanted& want : wanted) {
    names.insert(want.name);
    const auto it = manifest_.tensors.find(want.name);
    if (it == manifest_.tensors.end()) {
      (allowed(want.name) ? report.missing : missing).push_back(want.name);
    } else if (!excluded(want.name, options.exclude) &&
               (it->second.shape != want.shape || to_scalar_type(it->second.dtype) != want.dtype)) {
      different.push_back(fmt::format("{} (stored {} [{}], wanted {} [{}])", want.name,
                                      toString(to_scalar_type(it->second.dtype)),
                                      fmt::join(it->second.shape, ", "), toString(want.dtype),
                                      fmt::join(want.shape, ", ")));
    }
  }
  for (const auto& [name, stored] : manifest_.tensors) {
    if (!belongs(name, options.prefix) || names.count(name) != 0) continue;
    (allowed(name) ? report.unexpected : unexpected).push_back(name);
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
                                         const LoadOptions& options) const {
  std::vector<Wanted> wanted;
  for (const NamedTensor& want : tensors)
    wanted.push_back({want.name, want.tensor.sizes().vec(), want.tensor.scalar_type()});
  SX_TRY(const LoadReport report, compare(wanted, options));
  const c10::AutoGradMode no_grad(false);
  ChunkReader reader(path_);
  for (const NamedTensor& want : tensors) {
    const auto it = manifest_.tensors.find(want.name);
    if (it == manifest_.tensors.end() || excluded(want.name, options.exclude)) continue;
    if (want.tensor.numel() == 0) continue;
    if (want.tensor.is_contiguous() && want.tensor.is_cpu()) {
      const StoredTensor& stored = it->second;
      const Region whole = Region::whole(stored.shape);
      auto* out = static_cast<std::byte*>(want.tensor.mutable_data_ptr());
      SX_TRY_VOID(reader.read(stored, whole, out));
      SX_TRY_VOID(check_logical(want.name, stored.logical,
                                logical_of(stored, whole, 0, want.tensor.numel(), out), path_));
    } else {
      SX_TRY(const at::Tensor whole, read_tensor(want.name, it->second, reader, path_));
      at::Tensor target = want.tensor.detach();
      target.copy_(whole);
    }
  }
  return report;
}

Result<LoadReport> Checkpoint::read_parts(std::span<const TensorPart> parts,
                                          const LoadOptions& options) const {
  std::vector<Wanted> wanted;
  for (const TensorPart& part : parts)
    wanted.push_back({part.name, part.shape, part.values.scalar_type()});
  SX_TRY(LoadReport report, compare(wanted, options));
  ChunkReader reader(path_);
  for (const TensorPart& part : parts) {
    const auto it = manifest_.tensors.find(part.name);
    if (it == manifest_.tensors.end() || excluded(part.name, options.exclude)) continue;
    if (part.values.numel() == 0) continue;
    SX_CHECK(part.values.is_contiguous() && part.values.numel() == part.region.num_elements(),
             "{}: {} values for a part of {}", part.name, part.values.numel(),
             part.region.num_elements());
    SX_TRY_VOID(reader.read(it->second, part.region,
                            static_cast<std::byte*>(part.values.mutable_data_ptr())));
  }
  return report;
}

/// By name: this rank's share of the sums over what the ranks hold now.
std::map<std::string, std::uint64_t> Checkpoint::sums_of(std::span<const TensorPart> parts,
                                                         const LoadOptions& options) const {
  std::map<std::string, std::uint64_t> sums;
  for (const auto& [name, stored] : manifest_.tensors) {
    if (belongs(name, options.prefix) && !excluded(name, options.exclude)) sums[name] = 0;
  }
  for (const PlannedWrite& share : plan_writes(parts)) {
    const TensorPart& part = parts[share.part];
    const auto sum = sums.find(part.name);
    if (sum == sums.end()) continue;
    sum->second += logical_of(manifest_.tensors.at(part.name), part.region, share.begin, share.end,
                              static_cast<const std::byte*>(part.values.const_data_ptr()));
  }
  return sums;
}

Result<LoadReport> Checkpoint::load_parts(std::span<const TensorPart> parts,
                                          const LoadOptions& options, Communicator* world) const {
  if (world == nullptr) return read_parts(parts, options);
  Result<LoadReport> report = read_parts(parts, options);
  // Ranks that failed take part with their error; the first one's is everybody's. Sums are any
  // bytes, so a letter of their own goes before them.
  constexpr char kSums = 's';
  std::string own;
  if (!report.ok()) {
    own = encode_part(report.error());
  } else {
    own = kSums;
    for (const auto& [name, sum] : sums_of(parts, options)) {
      for (int byte = 0; byte < 8; ++byte) own += static_cast<char>(sum >> (8 * byte));
    }
  }
  std::vector<std::uint64_t> total;
  for (const std::string& text : gather_texts(own, *world)) {
    if (is_failed_part(text)) return report.ok() ? decode_part(text).error() : report;
    const std::string_view sums = std::string_view(text).substr(1);
    total.resize(sums.size() / 8);
    for (std::size_t i = 0; i < sums.size(); ++i)
      total[i / 8] += std::uint64_t{static_cast<unsigned char>(sums[i])} << (8 * (i % 8));
  }
  std::size_t i = 0;
  std::set<std::string_view> named;
  for (const TensorPart& part : parts) named.insert(part.name);
  for (const auto& [name, stored] : manifest_.tensors) {
    if (!belongs(name, options.prefix) || excluded(name, options.exclude)) continue;
    const std::uint64_t found = total[i++];
    if (named.count(name) != 0) SX_TRY_VOID(check_logical(name, stored.logical, found, path_));
  }
  return report;
}

Result<void> Checkpoint::read_range(const std::string& name, std::int64_t begin, std::int64_t count,
                                    std::span<std::byte> out) const {
  const auto it = manifest_.tensors.find(name);
  if (it == manifest_.tensors.end())
    return Error{ErrorKind::kNotFound, fmt::format("no tensor \"{}\"", name), path_.string()};
  const std::int64_t total = num_elements(it->second.shape);
  const std::int64_t element = safetensors::size_bytes(it->second.dtype);
  if (begin < 0 || count < 0 || begin > total || count > total - begin ||
      out.size() != static_cast<std::size_t>(count * element)) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("{} elements at {} of {} in \"{}\"", count, begin, total, name),
                 path_.string()};
  }
  ChunkReader reader(path_);
  return reader.read(it->second, Region::flat(begin, count), out.data());
}

Result<void> Checkpoint::check_values(const std::string& name,
                                      std::span<const std::byte> values) const {
  const StoredTensor& stored = manifest_.tensors.at(name);
  const std::int64_t count = num_elements(stored.shape);
  SX_CHECK(values.size() == static_cast<std::size_t>(count * safetensors::size_bytes(stored.dtype)),
           "{} bytes for \"{}\"", values.size(), name);
  const Region whole = Region::whole(stored.shape);
  return check_logical(name, stored.logical, logical_of(stored, whole, 0, count, values.data()),
                       path_);
}

Result<std::string> Checkpoint::text(const std::string& file) const {
  const auto it = manifest_.files.find(file);
  if (it == manifest_.files.end())
    return Error{ErrorKind::kNotFound, fmt::format("no file {}", file), path_.string()};
  SX_TRY(std::string text, read_file(path_ / file));
  const std::uint64_t hash = xxh3_64(text);
  if (hash != it->second.xxh3) {
    return Error{
        ErrorKind::kCorrupt,
        fmt::format("{}: hash {}, {} was saved", file, hex64(hash), hex64(it->second.xxh3)),
        (path_ / file).string()};
  }
  return text;
}

Result<nlohmann::ordered_json> Checkpoint::state(const std::string& name) const {
  const auto it = manifest_.states.find(name);
  if (it == manifest_.states.end()) {
    return Error{ErrorKind::kNotFound, fmt::format("no state \"{}\"", name), path_.string()};
  }
  SX_TRY(const std::string text, this->text(it->second));
  auto state = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (state.is_discarded()) {
    return Error{ErrorKind::kCorrupt, fmt::format("{} is not JSON", it->second), path_.string()};
  }
  return state;
}

}  // namespace sx
