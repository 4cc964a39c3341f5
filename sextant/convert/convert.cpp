#include "sextant/convert/convert.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/staged_folder.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/ckpt/rewrite.h"
#include "sextant/ckpt/safetensors.h"
#include "sextant/dcp/dcp_folder.h"
#include "sextant/hf/hf_folder.h"
#include "sextant/hf/hf_writer.h"
#include "sextant/shape/model_json.h"

namespace sx {
namespace {

using safetensors::Dtype;

constexpr const char* kCarriedFolder = "hf";
constexpr std::uint64_t kMaxCarriedBytes = 256 << 20;

/// A parameter, read from the folder when it is written.
StreamedTensor streamed(const HfFolder& folder, const HfParam& param) {
  StreamedTensor tensor;
  tensor.name = param.name;
  tensor.dtype = folder.dtype(param);
  tensor.shape = param.shape;
  tensor.read = [&folder, &param](std::int64_t begin, std::int64_t count,
                                  std::span<std::byte> out) -> Result<void> {
    folder.read(param, begin, count, out.data());
    if (begin + count == param.num_elements()) folder.release(param);
    return {};
  };
  return tensor;
}

Result<std::map<std::string, std::string>> carried_files(const HfFolder& folder) {
  SX_TRY(const auto companions, folder.companions());
  std::map<std::string, std::string> files{
      {"model.json", to_json(folder.shape()).dump(2) + "\n"},
      {fmt::format("{}/config.json", kCarriedFolder), folder.config().fields.dump(2) + "\n"}};
  for (const auto& [name, text] : companions) {
    files.emplace(fmt::format("{}/{}", kCarriedFolder, name), text);
  }
  return files;
}

Result<ModelShape> shape_of(const Checkpoint& checkpoint) {
  SX_TRY(const std::string text, checkpoint.text("model.json"));
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Error{ErrorKind::kCorrupt, "model.json is not JSON", ""};
  return model_shape_from_json(json);
}

/// The dtype of the export: the one asked for, or that of all weights. Every weight of the model is
/// there in its shape.
Result<Dtype> dtype_of(const Checkpoint& checkpoint, const std::vector<HfParam>& params,
                       std::optional<Dtype> wanted) {
  std::optional<Dtype> common;
  for (const HfParam& param : params) {
    const auto at = checkpoint.manifest().tensors.find(param.name);
    if (at == checkpoint.manifest().tensors.end() || at->second.shape != param.shape) {
      return Error{ErrorKind::kCorrupt,
                   fmt::format("tensor \"{}\" of model.json is not there in its shape", param.name),
                   checkpoint.path().string()};
    }
    if (!wanted && common.value_or(at->second.dtype) != at->second.dtype) {
      return Error{
          ErrorKind::kUnsupported,
          fmt::format("weights of dtypes {} and {}: choose one with --dtype",
                      safetensors::to_string(*common), safetensors::to_string(at->second.dtype)),
          checkpoint.path().string()};
    }
    common = at->second.dtype;
  }
  return wanted ? *wanted : *common;
}

/// Reads a stored tensor, proves it by its checksum and gives the first `count` elements (theirs
/// has no rows of padding), rounded where another dtype is wanted.
Result<void> read_as(const Checkpoint& checkpoint, const HfParam& param, std::int64_t count,
                     Dtype wanted, std::byte* to) {
  const Dtype stored = checkpoint.manifest().tensors.at(param.name).dtype;
  const std::int64_t total = param.num_elements();
  const auto size = [](std::int64_t elements, Dtype dtype) {
    return static_cast<std::size_t>(elements * safetensors::size_bytes(dtype));
  };
  const bool in_place = stored == wanted && count == total;
  std::vector<std::byte> raw(in_place ? 0 : size(total, stored));
  const std::span<std::byte> values = in_place ? std::span(to, size(total, wanted)) : raw;
  SX_TRY_VOID(checkpoint.read_range(param.name, 0, total, values));
  SX_TRY_VOID(checkpoint.check_values(param.name, values));
  if (in_place) return {};
  at::Tensor target = at::from_blob(to, {count}, to_scalar_type(wanted));
  target.copy_(at::from_blob(raw.data(), {count}, to_scalar_type(stored)));
  return {};
}

Result<HfWriteOptions> write_options(const Checkpoint& checkpoint, std::uint64_t shard_bytes) {
  HfWriteOptions options;
  options.shard_bytes = shard_bytes;
  for (const auto& [path, file] : checkpoint.manifest().files) {
    const std::string prefix = fmt::format("{}/", kCarriedFolder);
    if (!path.starts_with(prefix)) continue;
    SX_TRY(std::string text, checkpoint.text(path));
    const std::string name = path.substr(prefix.size());
    if (name == "config.json") {
      options.base_config = nlohmann::ordered_json::parse(text, nullptr, false);
    } else {
      options.companions.emplace(name, std::move(text));
    }
  }
  return options;
}

/// Tensors of a checkpoint of torch's, whole, by the names they get.
struct NamedSource {
  std::string name;
  const DcpTensor* tensor = nullptr;
  std::uint64_t bytes = 0;
};

Result<void> write_sources(const fs::path& path, const DcpFolder& source,
                           std::span<const NamedSource> list) {
  std::vector<safetensors::Entry> entries;
  std::map<std::string, const DcpTensor*> by_name;
  for (const NamedSource& one : list) {
    entries.push_back({one.name, one.tensor->dtype, one.tensor->shape});
    by_name[one.name] = one.tensor;
  }
  SX_TRY(const safetensors::Layout layout,
         safetensors::plan_layout(std::move(entries), {{"format", "pt"}}));
  SX_TRY(FileWriter writer, FileWriter::create(path));
  SX_TRY_VOID(writer.write(layout.head));
  std::vector<std::byte> bytes;
  for (const safetensors::Entry& entry : layout.header.entries) {
    bytes.resize(entry.num_bytes());
    SX_TRY_VOID(source.read(*by_name.at(entry.name), bytes.data()));
    SX_TRY_VOID(writer.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  return writer.commit();
}

}  // namespace

Result<Converted> import_hf(const fs::path& folder, const fs::path& checkpoint) {
  SX_TRY(const HfFolder source, HfFolder::open(folder));
  CheckpointFacts facts;
  SX_TRY(facts.files, carried_files(source));
  Converted converted{checkpoint};
  std::vector<StreamedTensor> tensors;
  for (const HfParam& param : source.params()) {
    tensors.push_back(streamed(source, param));
    converted.bytes += static_cast<std::uint64_t>(param.num_elements() *
                                                  safetensors::size_bytes(source.dtype(param)));
  }
  converted.tensors = static_cast<std::int64_t>(tensors.size());
  SX_TRY(const SaveReport report, write_streamed(checkpoint, facts, tensors, 1));
  converted.path = report.path;
  return converted;
}

Result<Converted> export_hf(const fs::path& checkpoint, const fs::path& folder,
                            const ConvertOptions& options) {
  SX_TRY(const Checkpoint opened, Checkpoint::open(checkpoint));
  SX_TRY(const ModelShape shape, shape_of(opened));
  const std::vector<HfParam> params = hf_params(shape);
  HfSource source;
  SX_TRY(source.dtype, dtype_of(opened, params, options.dtype));
  source.read = [&](const HfParam& param, std::int64_t begin, std::int64_t count, std::byte* to) {
    SX_CHECK(begin == 0, "{} is read from element {} on", param.name, begin);
    return read_as(opened, param, count, source.dtype, to);
  };
  SX_TRY(const HfWriteOptions write, write_options(opened, options.shard_bytes));
  SX_TRY(const HfWritten written, write_hf_folder(folder, shape, source, write));
  return Converted{folder, written.tensors, written.bytes};
}

Result<Converted> export_dcp(const fs::path& source, const fs::path& folder,
                             const ConvertOptions& options) {
  SX_TRY(const DcpFolder opened, DcpFolder::open(source));
  std::vector<NamedSource> list;
  for (const auto& [name, tensor] : opened.index().tensors) {
    if (!name.starts_with(options.prefix)) continue;
    list.push_back({name.substr(options.prefix.size()), &tensor,
                    static_cast<std::uint64_t>(tensor.num_elements() *
                                               safetensors::size_bytes(tensor.dtype))});
  }
  if (list.empty()) {
    return Error{ErrorKind::kNotFound, fmt::format("no tensor with prefix \"{}\"", options.prefix),
                 source.string()};
  }
  SX_TRY(StagedFolder staged, StagedFolder::create(folder));
  Converted converted{folder, static_cast<std::int64_t>(list.size())};
  std::vector<std::span<const NamedSource>> files;
  std::uint64_t in_file = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (files.empty() || (in_file > 0 && in_file + list[i].bytes > options.shard_bytes)) {
      files.push_back(std::span(list).subspan(i, 0));
      in_file = 0;
    }
    files.back() = {files.back().data(), files.back().size() + 1};
    in_file += list[i].bytes;
    converted.bytes += list[i].bytes;
  }
  nlohmann::ordered_json weight_map = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = hf_weight_file(i, files.size());
    SX_TRY_VOID(write_sources(staged.path() / name, opened, files[i]));
    for (const NamedSource& one : files[i]) weight_map[one.name] = name;
  }
  if (files.size() > 1) {
    SX_TRY_VOID(write_hf_index(staged.path(), weight_map, converted.bytes));
  }
  std::vector<std::string> carried = hf_companion_names();
  carried.emplace_back("config.json");
  for (const std::string& name : carried) {
    if (!fs::exists(source / name)) continue;
    SX_TRY(const std::string text, read_file(source / name, kMaxCarriedBytes));
    SX_TRY_VOID(write_file_atomic(staged.path() / name, text));
  }
  SX_TRY_VOID(staged.commit());
  return converted;
}

}  // namespace sx
