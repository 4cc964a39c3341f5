// What is inside a checkpoint, for people and for programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sextant/base/hash.h"
#include "sextant/base/units.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/safetensors/safetensors.h"

namespace sx {
namespace {

std::uint64_t bytes_of(const StoredTensor& tensor) {
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : tensor.chunks) bytes += chunk.end - chunk.begin;
  return bytes;
}

std::string size_text(std::uint64_t bytes) {
  return format_bytes(Bytes(static_cast<std::int64_t>(bytes)));
}

struct Statistics {
  std::int64_t elements = 0;
  std::int64_t finite = 0;
  double low = INFINITY;
  double high = -INFINITY;
  double sum = 0.0;
  double squares = 0.0;

  double mean() const { return sum / static_cast<double>(finite); }
  double norm() const { return std::sqrt(squares); }
};

Result<Statistics> statistics_of(const Checkpoint& checkpoint, const std::string& name) {
  SX_TRY(const at::Tensor stored, checkpoint.load(name));
  const at::Tensor x = stored.to(at::kDouble).flatten();
  Statistics s;
  s.elements = x.numel();
  const double* p = x.const_data_ptr<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (!std::isfinite(p[i])) continue;
    ++s.finite;
    s.low = std::min(s.low, p[i]);
    s.high = std::max(s.high, p[i]);
    s.sum += p[i];
    s.squares += p[i] * p[i];
  }
  return s;
}

std::string region_text(const Region& region) {
  return region.kind == Region::Kind::kFlat
             ? fmt::format("elements {} to {}", region.offset[0], region.offset[0] + region.size[0])
             : fmt::format("box [{}] at [{}]", fmt::join(region.size, ", "),
                           fmt::join(region.offset, ", "));
}

Result<std::string> tensor_text(const Checkpoint& checkpoint, const std::string& name) {
  SX_TRY(const Statistics s, statistics_of(checkpoint, name));
  const StoredTensor& tensor = checkpoint.manifest().tensors.at(name);
  std::string text = fmt::format("{}  {} [{}]\n", name, safetensors::to_string(tensor.dtype),
                                 fmt::join(tensor.shape, ", "));
  if (s.elements == 0) return text + "  no elements\n";
  text += fmt::format("  elements {}  not finite {}\n", s.elements, s.elements - s.finite);
  if (s.finite > 0) {
    text += fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}  norm {:.6g}\n", s.low, s.high,
                        s.mean(), s.norm());
  }
  for (const Chunk& chunk : tensor.chunks) {
    text += fmt::format("  {}  bytes {} to {}  {}  {}\n", chunk.file, chunk.begin, chunk.end,
                        hex64(chunk.xxh3), region_text(chunk));
  }
  return text;
}

nlohmann::ordered_json tensor_json(const std::string& name, const StoredTensor& tensor) {
  return {{"name", name},
          {"dtype", safetensors::to_string(tensor.dtype)},
          {"shape", tensor.shape},
          {"bytes", bytes_of(tensor)},
          {"logical", hex64(tensor.logical)},
          {"chunks", tensor.chunks.size()}};
}

}  // namespace

Result<std::string> inspect_checkpoint(const fs::path& folder, const std::string& tensor_name) {
  SX_TRY(const Checkpoint checkpoint, Checkpoint::open(folder));
  if (!tensor_name.empty()) return tensor_text(checkpoint, tensor_name);
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

Result<nlohmann::ordered_json> inspect_checkpoint_json(const fs::path& folder,
                                                       const std::string& tensor_name) {
  SX_TRY(const Checkpoint checkpoint, Checkpoint::open(folder));
  const Manifest& m = checkpoint.manifest();
  if (!tensor_name.empty()) {
    SX_TRY(const Statistics s, statistics_of(checkpoint, tensor_name));
    nlohmann::ordered_json out = tensor_json(tensor_name, m.tensors.at(tensor_name));
    out["finite"] = s.finite;
    if (s.finite > 0) {
      out["min"] = s.low;
      out["max"] = s.high;
      out["mean"] = s.mean();
      out["norm"] = s.norm();
    }
    return out;
  }
  nlohmann::ordered_json out{{"path", folder.string()},
                             {"step", m.step},
                             {"tokens", m.tokens},
                             {"samples", m.samples},
                             {"created", m.created},
                             {"sextant", m.sextant},
                             {"git", m.git},
                             {"fingerprint", m.fingerprint},
                             {"mesh", m.mesh}};
  out["files"] = nlohmann::ordered_json::array();
  for (const auto& [name, file] : m.files)
    out["files"].push_back({{"name", name}, {"bytes", file.bytes}, {"xxh3", hex64(file.xxh3)}});
  out["tensors"] = nlohmann::ordered_json::array();
  for (const auto& [name, tensor] : m.tensors) out["tensors"].push_back(tensor_json(name, tensor));
  return out;
}

}  // namespace sx
