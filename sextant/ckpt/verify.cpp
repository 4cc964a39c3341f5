// Looking at checkpoints: does every byte hold (verify), what is inside (inspect).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sextant/base/hash.h"
#include "sextant/base/mmap.h"
#include "sextant/base/units.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/ckpt/logical_checksum.h"
#include "sextant/ckpt/safetensors.h"
#include "sextant/ckpt/tiling.h"

namespace sx {
namespace {

/// The name a chunk has inside its safetensors file.
std::string entry_name(const std::string& tensor, const StoredTensor& stored, const Chunk& chunk) {
  if (chunk.kind == Chunk::Kind::kFlat) return fmt::format("{}@flat:{}", tensor, chunk.offset[0]);
  if (chunk.size == stored.shape) return tensor;
  return fmt::format("{}@{}", tensor, fmt::join(chunk.offset, ","));
}

class Verifier {
 public:
  Verifier(fs::path folder, const Manifest& manifest)
      : folder_(std::move(folder)), manifest_(manifest) {}

  std::vector<std::string> run() {
    for (const auto& [name, file] : manifest_.files) check_file(name, file);
    for (const auto& [name, tensor] : manifest_.tensors) check_tensor(name, tensor);
    return std::move(faults_);
  }

 private:
  void check_file(const std::string& name, const StoredFile& stored) {
    auto file = MappedFile::open(folder_ / name);
    if (!file.ok()) {
      faults_.push_back(file.error().message);
      return;
    }
    if (file->size() != stored.bytes) {
      faults_.push_back(
          fmt::format("{} has {} bytes, {} were saved", name, file->size(), stored.bytes));
      return;
    }
    const std::uint64_t hash = xxh3_64(file->text());
    if (hash != stored.xxh3) {
      faults_.push_back(
          fmt::format("{}: hash {}, {} was saved", name, hex64(hash), hex64(stored.xxh3)));
    }
    files_.emplace(name, *std::move(file));
    if (!name.ends_with(".safetensors")) return;
    auto opened = safetensors::File::open(folder_ / name);
    if (opened.ok()) {
      headers_.emplace(name, opened->header());
    } else {
      faults_.push_back(fmt::format("{}: {}", name, opened.error().message));
    }
  }

  void check_tensor(const std::string& name, const StoredTensor& tensor) {
    const std::int64_t element = safetensors::size_bytes(tensor.dtype);
    std::uint64_t logical = 0;
    bool all_there = true;
    for (const Chunk& chunk : tensor.chunks) {
      const auto file = files_.find(chunk.file);
      if (file == files_.end()) {
        all_there = false;  // told by its file
        continue;
      }
      const auto bytes = file->second.bytes().subspan(chunk.begin, chunk.end - chunk.begin);
      const std::uint64_t hash =
          xxh3_64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      if (hash != chunk.xxh3) {
        faults_.push_back(fmt::format("{}: chunk in {} has hash {}, {} was saved", name, chunk.file,
                                      hex64(hash), hex64(chunk.xxh3)));
      }
      check_entry(name, tensor, chunk);
      std::size_t position = 0;
      for_each_run(tensor, chunk, [&](std::int64_t first, std::int64_t count) {
        const auto size = static_cast<std::size_t>(count * element);
        logical += logical_checksum(bytes.subspan(position, size), element,
                                    static_cast<std::uint64_t>(first));
        position += size;
      });
    }
    if (all_there && logical != tensor.logical) {
      faults_.push_back(fmt::format("{}: logical checksum {}, {} was saved", name, hex64(logical),
                                    hex64(tensor.logical)));
    }
  }

  /// The data file alone must say the same as the manifest.
  void check_entry(const std::string& name, const StoredTensor& tensor, const Chunk& chunk) {
    const auto header = headers_.find(chunk.file);
    if (header == headers_.end()) return;
    const std::string wanted = entry_name(name, tensor, chunk);
    const auto& entries = header->second.entries;
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const auto& candidate) {
      return candidate.name == wanted;
    });
    if (entry == entries.end()) {
      faults_.push_back(fmt::format("{}: no entry \"{}\"", chunk.file, wanted));
    } else if (entry->dtype != tensor.dtype || entry->shape != chunk.size ||
               header->second.data_begin + entry->begin != chunk.begin) {
      faults_.push_back(
          fmt::format("{}: entry \"{}\" differs from the manifest", chunk.file, wanted));
    }
  }

  fs::path folder_;
  const Manifest& manifest_;
  std::map<std::string, MappedFile> files_;
  std::map<std::string, safetensors::Header> headers_;
  std::vector<std::string> faults_;
};

std::uint64_t bytes_of(const StoredTensor& tensor) {
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : tensor.chunks) bytes += chunk.end - chunk.begin;
  return bytes;
}

std::string size_text(std::uint64_t bytes) {
  return format_bytes(Bytes(static_cast<std::int64_t>(bytes)));
}

Result<std::string> tensor_statistics(const Checkpoint& checkpoint, const std::string& name) {
  SX_TRY(const at::Tensor stored, checkpoint.load(name));
  const at::Tensor x = stored.to(at::kDouble).flatten();
  std::string text = fmt::format("{}  {} [{}]\n", name, toString(stored.scalar_type()),
                                 fmt::join(stored.sizes().vec(), ", "));
  if (x.numel() == 0) return text + "  no elements\n";
  const double* p = x.const_data_ptr<double>();
  double low = INFINITY;
  double high = -INFINITY;
  double sum = 0.0;
  double squares = 0.0;
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (!std::isfinite(p[i])) continue;
    ++finite;
    low = std::min(low, p[i]);
    high = std::max(high, p[i]);
    sum += p[i];
    squares += p[i] * p[i];
  }
  text += fmt::format("  elements {}  not finite {}\n", x.numel(), x.numel() - finite);
  if (finite > 0) {
    text += fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}  norm {:.6g}\n", low, high,
                        sum / static_cast<double>(finite), std::sqrt(squares));
  }
  return text;
}

}  // namespace

Result<std::vector<std::string>> verify_checkpoint(const fs::path& folder) {
  SX_TRY(const std::string text, read_file(folder / kManifestName));
  auto manifest = parse_manifest(text);
  if (!manifest.ok()) {
    if (manifest.error().kind == ErrorKind::kUnsupported) return std::move(manifest).error();
    return std::vector<std::string>{manifest.error().message};
  }
  return Verifier(folder, *manifest).run();
}

Result<std::string> inspect_checkpoint(const fs::path& folder, const std::string& tensor_name) {
  SX_TRY(const Checkpoint checkpoint, Checkpoint::open(folder));
  if (!tensor_name.empty()) return tensor_statistics(checkpoint, tensor_name);
  const Manifest& m = checkpoint.manifest();
  std::string text = fmt::format(
      "{}\n  step {}  tokens {}  samples {}  created {}\n  sextant {} ({})  fingerprint {}\n",
      folder.string(), m.step, m.tokens, m.samples, m.created, m.sextant, m.git,
      m.fingerprint.empty() ? "-" : m.fingerprint);
  if (!m.mesh.empty()) {
    text += "  mesh";
    for (const auto& [axis, degree] : m.mesh) text += fmt::format(" {} {}", axis, degree);
    text += '\n';
  }
  text += "\nfiles\n";
  for (const auto& [name, file] : m.files) {
    text += fmt::format("  {:<40} {:>10}  {}\n", name, size_text(file.bytes), hex64(file.xxh3));
  }
  std::uint64_t total = 0;
  text += "\ntensors\n";
  for (const auto& [name, tensor] : m.tensors) {
    total += bytes_of(tensor);
    text += fmt::format("  {:<56} {:<5} {:<16} {:>10}  {}\n", name,
                        safetensors::to_string(tensor.dtype),
                        fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                        size_text(bytes_of(tensor)), hex64(tensor.logical));
  }
  return text + fmt::format("  {} tensors, {}\n", m.tensors.size(), size_text(total));
}

}  // namespace sx
