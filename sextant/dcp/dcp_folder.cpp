#include "sextant/dcp/dcp_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/dcp/pickle_reader.h"
#include "sextant/dcp/saved_tensor.h"

namespace sx {
namespace {

using Kind = PickleValue::Kind;

constexpr std::uint64_t kMaxMetadataBytes = std::uint64_t{2} << 30;
constexpr std::size_t kMaxDims = 64;

#define SX_DCP "torch.distributed.checkpoint."
constexpr auto kMetadataClasses = std::to_array<std::string_view>({
    SX_DCP "metadata.Metadata",
    SX_DCP "metadata.TensorStorageMetadata",
    SX_DCP "metadata.TensorProperties",
    SX_DCP "metadata.ChunkStorageMetadata",
    SX_DCP "metadata.BytesStorageMetadata",
    SX_DCP "metadata.MetadataIndex",
    SX_DCP "metadata.StorageMeta",
    SX_DCP "metadata._MEM_FORMAT_ENCODING",
    SX_DCP "filesystem._StorageInfo",
    "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "torch.serialization._get_layout",
    "torch.Size",
    "torch.float64",
    "torch.float32",
    "torch.float16",
    "torch.bfloat16",
    "torch.int64",
    "torch.int32",
    "torch.int16",
    "torch.int8",
    "torch.uint8",
    "torch.bool",
    "collections.OrderedDict",
    "pathlib.PosixPath",
    "pathlib._local.PosixPath",
    "pathlib.Path",
});
#undef SX_DCP

Error dcp_error(ErrorKind kind, const std::string& what) {
  return {kind, ".metadata: " + what, ""};
}

/// torch.Size: an object whose one argument is a tuple of counts.
Result<std::vector<std::int64_t>> read_size(const PickleTree& tree, const PickleValue* size,
                                            const std::string& of) {
  const PickleValue* tuple = size;
  if (size != nullptr && size->kind == Kind::kObject && size->text == "torch.Size") {
    const auto& arguments = tree.at(size->items[0]).items;
    tuple = arguments.empty() ? nullptr : &tree.at(arguments[0]);
    if (arguments.empty()) return std::vector<std::int64_t>{};
  }
  if (tuple == nullptr || (tuple->kind != Kind::kTuple && tuple->kind != Kind::kList) ||
      tuple->items.size() > kMaxDims) {
    return dcp_error(ErrorKind::kCorrupt, fmt::format("\"{}\": sizes of another form", of));
  }
  std::vector<std::int64_t> values;
  for (const auto ref : tuple->items) {
    const PickleValue& value = tree.at(ref);
    if (value.kind != Kind::kInt || value.integer < 0) {
      return dcp_error(ErrorKind::kCorrupt, fmt::format("\"{}\": a size that is no count", of));
    }
    values.push_back(value.integer);
  }
  return values;
}

bool ends_with_class(const PickleValue& value, std::string_view name) {
  return value.kind == Kind::kObject && value.text.ends_with(name);
}

/// The product, or empty when it passes 63 bits.
std::optional<std::int64_t> product(const std::vector<std::int64_t>& sizes) {
  std::int64_t all = 1;
  for (const std::int64_t n : sizes) {
    if (__builtin_mul_overflow(all, n, &all)) return std::nullopt;
  }
  return all;
}

/// That boxes inside the tensor cover each element once: their sizes add up and no two of them
/// overlap. Neighbours by first coordinate are compared only.
Result<void> check_boxes(const std::string& name, DcpTensor& tensor) {
  const auto whole = product(tensor.shape);
  if (!whole || *whole > (std::int64_t{1} << 59)) {
    return dcp_error(ErrorKind::kCorrupt, fmt::format("\"{}\": size past 64 bits", name));
  }
  std::int64_t covered = 0;
  for (const DcpChunk& chunk : tensor.chunks) {
    if (tensor.chunks.size() > 1 && product(chunk.size) == 0) {
      return dcp_error(ErrorKind::kCorrupt, fmt::format("\"{}\": an empty piece", name));
    }
    if (chunk.offset.size() != tensor.shape.size() || chunk.size.size() != tensor.shape.size()) {
      return dcp_error(ErrorKind::kCorrupt,
                       fmt::format("\"{}\": a piece of {} dims in a tensor of {}", name,
                                   chunk.size.size(), tensor.shape.size()));
    }
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      if (chunk.offset[d] > tensor.shape[d] || chunk.size[d] > tensor.shape[d] - chunk.offset[d]) {
        return dcp_error(ErrorKind::kCorrupt,
                         fmt::format("\"{}\": piece [{}] of [{}] lies outside [{}]", name,
                                     fmt::join(chunk.offset, ", "), fmt::join(chunk.size, ", "),
                                     fmt::join(tensor.shape, ", ")));
      }
    }
    covered += *product(chunk.size);
    if (covered > *whole) break;
  }
  if (covered != *whole) {
    return dcp_error(ErrorKind::kCorrupt,
                     fmt::format("\"{}\": pieces hold {} of {} elements", name, covered, *whole));
  }
  if (tensor.shape.empty()) return {};
  auto& chunks = tensor.chunks;
  std::sort(chunks.begin(), chunks.end(),
            [](const DcpChunk& a, const DcpChunk& b) { return a.offset < b.offset; });
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    for (std::size_t k = i + 1;
         k < chunks.size() && chunks[k].offset[0] < chunks[i].offset[0] + chunks[i].size[0]; ++k) {
      bool overlap = true;
      for (std::size_t d = 0; d < tensor.shape.size() && overlap; ++d) {
        overlap = chunks[k].offset[d] < chunks[i].offset[d] + chunks[i].size[d] &&
                  chunks[i].offset[d] < chunks[k].offset[d] + chunks[k].size[d];
      }
      if (overlap) {
        return dcp_error(ErrorKind::kCorrupt, fmt::format("\"{}\": pieces overlap", name));
      }
    }
  }
  return {};
}

Result<DcpTensor> read_tensor_entry(const PickleTree& tree, const PickleValue& entry,
                                    const std::string& name) {
  DcpTensor tensor;
  const PickleValue* properties = tree.field(entry, "properties");
  if (properties == nullptr || properties->kind != Kind::kObject || !properties->has_state) {
    return dcp_error(ErrorKind::kCorrupt, fmt::format("\"{}\": no properties", name));
  }
  const PickleValue& state = tree.at(properties->state);
  if (state.kind != Kind::kTuple || state.items.empty() ||
      tree.at(state.items[0]).kind != Kind::kGlobal) {
    return dcp_error(ErrorKind::kCorrupt, fmt::format("\"{}\": no dtype", name));
  }
  const std::string& dtype = tree.at(state.items[0]).text;
  SX_TRY(tensor.dtype, torch_dtype(std::string_view(dtype).substr(dtype.find('.') + 1)));
  SX_TRY(tensor.shape, read_size(tree, tree.field(entry, "size"), name));
  const PickleValue* chunks = tree.field(entry, "chunks");
  if (chunks == nullptr || chunks->kind != Kind::kList) {
    return dcp_error(ErrorKind::kCorrupt, fmt::format("\"{}\": no pieces", name));
  }
  for (const auto ref : chunks->items) {
    DcpChunk chunk;
    SX_TRY(chunk.offset, read_size(tree, tree.field(tree.at(ref), "offsets"), name));
    SX_TRY(chunk.size, read_size(tree, tree.field(tree.at(ref), "sizes"), name));
    tensor.chunks.push_back(std::move(chunk));
  }
  return tensor;
}

/// Gives each piece its file and range.
Result<void> read_storage(const PickleTree& tree, const PickleValue& storage, DcpIndex& index) {
  for (const auto& [key, info] : storage.pairs) {
    const PickleValue* fqn = tree.field(tree.at(key), "fqn");
    const PickleValue* path = tree.field(tree.at(info), "relative_path");
    const PickleValue* begin = tree.field(tree.at(info), "offset");
    const PickleValue* bytes = tree.field(tree.at(info), "length");
    if (fqn == nullptr || fqn->kind != Kind::kText || path == nullptr ||
        path->kind != Kind::kText || begin == nullptr || begin->kind != Kind::kInt ||
        bytes == nullptr || bytes->kind != Kind::kInt || begin->integer < 0 || bytes->integer < 0) {
      return dcp_error(ErrorKind::kCorrupt, "a place of another form");
    }
    if (const PickleValue* changed = tree.field(tree.at(info), "transform_descriptors");
        changed != nullptr && changed->kind != Kind::kNone) {
      return dcp_error(ErrorKind::kUnsupported,
                       fmt::format("\"{}\" is stored compressed or encrypted", fqn->text));
    }
    const auto at = index.tensors.find(fqn->text);
    if (at == index.tensors.end()) continue;
    if (path->text.empty() || path->text.find('/') != std::string::npos) {
      return dcp_error(ErrorKind::kCorrupt,
                       fmt::format("\"{}\" lies in \"{}\", which is no file of this folder",
                                   fqn->text, path->text));
    }
    SX_TRY(const std::vector<std::int64_t> offset,
           read_size(tree, tree.field(tree.at(key), "offset"), fqn->text));
    for (DcpChunk& chunk : at->second.chunks) {
      if (chunk.offset != offset || !chunk.file.empty()) continue;
      chunk.file = path->text;
      chunk.begin = static_cast<std::uint64_t>(begin->integer);
      chunk.bytes = static_cast<std::uint64_t>(bytes->integer);
      break;
    }
  }
  for (const auto& [name, tensor] : index.tensors) {
    for (const DcpChunk& chunk : tensor.chunks) {
      if (chunk.file.empty()) {
        return dcp_error(ErrorKind::kCorrupt, fmt::format("\"{}\": piece [{}] has no place", name,
                                                          fmt::join(chunk.offset, ", ")));
      }
    }
  }
  return {};
}

/// Copies a row-major box to its place in the whole tensor.
void place_box(const DcpTensor& tensor, const DcpChunk& chunk, std::string_view from,
               std::byte* to) {
  const auto element = static_cast<std::size_t>(safetensors::size_bytes(tensor.dtype));
  if (from.empty()) return;
  if (tensor.shape.empty()) {
    std::memcpy(to, from.data(), element);
    return;
  }
  const std::size_t dims = tensor.shape.size();
  const auto run = static_cast<std::size_t>(chunk.size.back()) * element;
  std::vector<std::int64_t> at(dims, 0);
  for (std::size_t done = 0; done < from.size(); done += run) {
    std::int64_t first = 0;
    for (std::size_t d = 0; d < dims; ++d)
      first = first * tensor.shape[d] + chunk.offset[d] + at[d];
    std::memcpy(to + static_cast<std::size_t>(first) * element, from.data() + done, run);
    for (std::size_t d = dims - 1; d-- > 0;) {
      if (++at[d] < chunk.size[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace

std::int64_t DcpTensor::num_elements() const { return product(shape).value_or(0); }

Result<DcpIndex> parse_dcp_metadata(std::string_view bytes) {
  SX_TRY(const PickleTree tree, read_pickle(bytes, kMetadataClasses));
  const PickleValue* tensors = tree.field(tree.top(), "state_dict_metadata");
  const PickleValue* storage = tree.field(tree.top(), "storage_data");
  if (!ends_with_class(tree.top(), ".Metadata") || tensors == nullptr ||
      tensors->kind != Kind::kDict || storage == nullptr || storage->kind != Kind::kDict) {
    return dcp_error(ErrorKind::kCorrupt, "no description of a checkpoint");
  }
  DcpIndex index;
  for (const auto& [key, entry] : tensors->pairs) {
    if (tree.at(key).kind != Kind::kText) {
      return dcp_error(ErrorKind::kCorrupt, "a name that is no text");
    }
    const std::string& name = tree.at(key).text;
    if (ends_with_class(tree.at(entry), ".BytesStorageMetadata")) {
      index.objects.push_back(name);
    } else if (ends_with_class(tree.at(entry), ".TensorStorageMetadata")) {
      SX_TRY(DcpTensor tensor, read_tensor_entry(tree, tree.at(entry), name));
      SX_TRY_VOID(check_boxes(name, tensor));
      index.tensors[name] = std::move(tensor);
    } else {
      return dcp_error(ErrorKind::kUnsupported, fmt::format("\"{}\" is no tensor or object", name));
    }
  }
  SX_TRY_VOID(read_storage(tree, *storage, index));
  return index;
}

Result<DcpFolder> DcpFolder::open(const fs::path& folder) {
  DcpFolder opened;
  opened.path_ = folder;
  SX_TRY(const std::string bytes, read_file(folder / ".metadata", kMaxMetadataBytes));
  auto index = parse_dcp_metadata(bytes);
  if (!index.ok()) {
    Error error = std::move(index).error();
    error.where = (folder / ".metadata").string();
    return error;
  }
  opened.index_ = *std::move(index);
  for (const auto& [name, tensor] : opened.index_.tensors) {
    for (const DcpChunk& chunk : tensor.chunks) {
      auto at = opened.files_.find(chunk.file);
      if (at == opened.files_.end()) {
        SX_TRY(MappedFile file, MappedFile::open(folder / chunk.file));
        at = opened.files_.emplace(chunk.file, std::move(file)).first;
      }
      const auto element = static_cast<std::uint64_t>(safetensors::size_bytes(tensor.dtype));
      if (static_cast<std::uint64_t>(product(chunk.size).value_or(0)) > chunk.bytes / element) {
        return Error{ErrorKind::kCorrupt,
                     fmt::format("\"{}\": a piece [{}] in {} bytes", name,
                                 fmt::join(chunk.size, ", "), chunk.bytes),
                     (folder / chunk.file).string()};
      }
      if (chunk.begin > at->second.size() || chunk.bytes > at->second.size() - chunk.begin) {
        return Error{ErrorKind::kCorrupt,
                     fmt::format("\"{}\": bytes [{}, +{}) of a file of {}", name, chunk.begin,
                                 chunk.bytes, at->second.size()),
                     (folder / chunk.file).string()};
      }
    }
  }
  return opened;
}

Result<void> DcpFolder::read(const DcpTensor& tensor, std::byte* to) const {
  for (const DcpChunk& chunk : tensor.chunks) {
    const auto at = files_.find(chunk.file);
    SX_CHECK(at != files_.end(), "piece of another folder: {}", chunk.file);
    auto saved = read_saved_tensor(at->second.text().substr(chunk.begin, chunk.bytes));
    const auto where = fmt::format("{}, byte {}", (path_ / chunk.file).string(), chunk.begin);
    if (!saved.ok()) {
      Error error = std::move(saved).error();
      error.where = where;
      return error;
    }
    if (saved->dtype != tensor.dtype || saved->shape != chunk.size) {
      return Error{ErrorKind::kCorrupt,
                   fmt::format("piece is {} [{}], .metadata says {} [{}]",
                               safetensors::to_string(saved->dtype), fmt::join(saved->shape, ", "),
                               safetensors::to_string(tensor.dtype), fmt::join(chunk.size, ", ")),
                   where};
    }
    place_box(tensor, chunk, saved->bytes, to);
    at->second.release(chunk.begin, chunk.bytes);
  }
  return {};
}

}  // namespace sx
