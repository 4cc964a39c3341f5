#include "sextant/hf/hf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "sextant/base/staged_folder.h"
#include "sextant/shape/hf_config.h"

namespace sx {
namespace {

/// One tensor of theirs and the parameters of ours it is made of.
struct Assembly {
  std::string tensor;
  std::vector<std::int64_t> shape;
  std::vector<const HfParam*> parts;
  std::uint64_t bytes = 0;
};

std::vector<Assembly> assemblies(const std::vector<HfParam>& params, std::int64_t element) {
  std::vector<Assembly> list;
  for (const HfParam& param : params) {
    const auto same = std::find_if(list.begin(), list.end(), [&](const Assembly& assembly) {
      return assembly.tensor == param.tensor;
    });
    if (same != list.end()) {
      same->parts.push_back(&param);
      continue;
    }
    Assembly assembly{param.tensor, param.tensor_shape, {&param}};
    assembly.bytes = static_cast<std::uint64_t>(element);
    for (const std::int64_t extent : param.tensor_shape) {
      assembly.bytes *= static_cast<std::uint64_t>(extent);
    }
    list.push_back(std::move(assembly));
  }
  return list;
}

/// In order, a new file when the next tensor would pass the limit.
std::vector<std::vector<const Assembly*>> into_files(const std::vector<Assembly>& list,
                                                     std::uint64_t limit) {
  std::vector<std::vector<const Assembly*>> files;
  std::uint64_t bytes = 0;
  for (const Assembly& assembly : list) {
    if (files.empty() || (bytes > 0 && bytes + assembly.bytes > limit)) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(&assembly);
    bytes += assembly.bytes;
  }
  return files;
}

/// Puts rows of ours, contiguous in `from`, to their places in a [in, out] tensor.
template <std::size_t kBytes>
void put_turned(const HfParam& part, const std::byte* from, std::byte* to) {
  constexpr std::int64_t kTile = 32;
  const std::int64_t width = part.tensor_shape[1], columns = part.columns();
  for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
    for (std::int64_t r0 = 0; r0 < part.rows; r0 += kTile) {
      const std::int64_t c1 = std::min(c0 + kTile, columns), r1 = std::min(r0 + kTile, part.rows);
      for (std::int64_t c = c0; c < c1; ++c) {
        for (std::int64_t r = r0; r < r1; ++r) {
          std::memcpy(to + static_cast<std::size_t>(c * width + part.first + r) * kBytes,
                      from + static_cast<std::size_t>(r * columns + c) * kBytes, kBytes);
        }
      }
    }
  }
}

Result<void> assemble(const Assembly& assembly, const HfSource& source,
                      std::vector<std::byte>& tensor, std::vector<std::byte>& part_bytes) {
  tensor.resize(assembly.bytes);
  const auto element = static_cast<std::size_t>(safetensors::size_bytes(source.dtype));
  for (const HfParam* part : assembly.parts) {
    const std::int64_t count = part->rows * part->columns();
    if (!part->transposed) {
      const auto first = static_cast<std::size_t>(part->first * part->columns());
      SX_TRY_VOID(source.read(*part, 0, count, tensor.data() + first * element));
      continue;
    }
    part_bytes.resize(static_cast<std::size_t>(count) * element);
    SX_TRY_VOID(source.read(*part, 0, count, part_bytes.data()));
    if (element == 2) put_turned<2>(*part, part_bytes.data(), tensor.data());
    if (element == 4) put_turned<4>(*part, part_bytes.data(), tensor.data());
    if (element == 8) put_turned<8>(*part, part_bytes.data(), tensor.data());
  }
  return {};
}

Result<void> write_file(const fs::path& path, const std::vector<const Assembly*>& list,
                        const HfSource& source) {
  std::vector<safetensors::Entry> entries;
  std::map<std::string, const Assembly*> by_name;
  for (const Assembly* assembly : list) {
    entries.push_back({assembly->tensor, source.dtype, assembly->shape});
    by_name[assembly->tensor] = assembly;
  }
  SX_TRY(const safetensors::Layout layout,
         safetensors::plan_layout(std::move(entries), {{"format", "pt"}}));
  SX_TRY(FileWriter writer, FileWriter::create(path));
  SX_TRY_VOID(writer.write(layout.head));
  std::vector<std::byte> tensor, part;
  for (const safetensors::Entry& entry : layout.header.entries) {
    SX_TRY_VOID(assemble(*by_name.at(entry.name), source, tensor, part));
    SX_TRY_VOID(writer.write({reinterpret_cast<const char*>(tensor.data()), tensor.size()}));
  }
  return writer.commit();
}

const char* dtype_word(safetensors::Dtype dtype) {
  switch (dtype) {
    case safetensors::Dtype::kF64: return "float64";
    case safetensors::Dtype::kF16: return "float16";
    case safetensors::Dtype::kBF16: return "bfloat16";
    default: return "float32";
  }
}

}  // namespace

std::string hf_weight_file(std::size_t idx, std::size_t count) {
  if (count == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", idx + 1, count);
}

Result<void> write_hf_index(const fs::path& folder, const nlohmann::ordered_json& weight_map,
                            std::uint64_t bytes) {
  const nlohmann::ordered_json index{{"metadata", {{"total_size", bytes}}},
                                     {"weight_map", weight_map}};
  return write_file_atomic(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

Result<HfWritten> write_hf_folder(const fs::path& folder, const ModelShape& shape,
                                  const HfSource& source, const HfWriteOptions& options) {
  SX_TRY(const nlohmann::ordered_json config,
         format_hf_config(shape, dtype_word(source.dtype), options.base_config));
  const std::vector<HfParam> params = hf_params(shape);
  const std::vector<Assembly> list = assemblies(params, safetensors::size_bytes(source.dtype));
  const auto files = into_files(list, options.shard_bytes);
  SX_TRY(StagedFolder staged, StagedFolder::create(folder));

  HfWritten written;
  nlohmann::ordered_json weight_map = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = hf_weight_file(i, files.size());
    SX_TRY_VOID(write_file(staged.path() / name, files[i], source));
    for (const Assembly* assembly : files[i]) {
      weight_map[assembly->tensor] = name;
      written.bytes += assembly->bytes;
      ++written.tensors;
    }
  }
  written.files = static_cast<std::int64_t>(files.size());
  if (files.size() > 1) {
    SX_TRY_VOID(write_hf_index(staged.path(), weight_map, written.bytes));
  }
  for (const auto& [name, text] : options.companions) {
    SX_TRY_VOID(write_file_atomic(staged.path() / name, text));
  }
  SX_TRY_VOID(write_file_atomic(staged.path() / "config.json", config.dump(2) + "\n"));
  SX_TRY_VOID(staged.commit());
  return written;
}

}  // namespace sx
