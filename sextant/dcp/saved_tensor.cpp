#include "sextant/dcp/saved_tensor.h"

#include <fmt/format.h>

#include <array>

#include "sextant/dcp/pickle_reader.h"
#include "sextant/dcp/zip_entries.h"

namespace sx {
namespace {

using Kind = PickleValue::Kind;
using safetensors::Dtype;

struct DtypeName {
  std::string_view dtype, storage;
  Dtype value;
};

constexpr auto kDtypeNames = std::to_array<DtypeName>({
    {"float64", "DoubleStorage", Dtype::kF64},
    {"float32", "FloatStorage", Dtype::kF32},
    {"float16", "HalfStorage", Dtype::kF16},
    {"bfloat16", "BFloat16Storage", Dtype::kBF16},
    {"int64", "LongStorage", Dtype::kI64},
    {"int32", "IntStorage", Dtype::kI32},
    {"int16", "ShortStorage", Dtype::kI16},
    {"int8", "CharStorage", Dtype::kI8},
    {"uint8", "ByteStorage", Dtype::kU8},
    {"bool", "BoolStorage", Dtype::kBool},
});

constexpr auto kTensorClasses = std::to_array<std::string_view>({
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
    "collections.OrderedDict",
    "torch.Size",
    "torch.DoubleStorage",
    "torch.FloatStorage",
    "torch.HalfStorage",
    "torch.BFloat16Storage",
    "torch.LongStorage",
    "torch.IntStorage",
    "torch.ShortStorage",
    "torch.CharStorage",
    "torch.ByteStorage",
    "torch.BoolStorage",
});

Error tensor_error(ErrorKind kind, const std::string& what) {
  return {kind, "saved tensor: " + what, ""};
}

Result<std::vector<std::int64_t>> counts(const PickleTree& tree, const PickleValue& tuple) {
  if (tuple.kind != Kind::kTuple || tuple.items.size() > 64) {
    return tensor_error(ErrorKind::kCorrupt, "sizes are no tuple");
  }
  std::vector<std::int64_t> values;
  for (const auto ref : tuple.items) {
    const PickleValue& value = tree.at(ref);
    if (value.kind != Kind::kInt || value.integer < 0) {
      return tensor_error(ErrorKind::kCorrupt, "a size that is no count");
    }
    values.push_back(value.integer);
  }
  return values;
}

bool is_row_major(const std::vector<std::int64_t>& shape,
                  const std::vector<std::int64_t>& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    if (__builtin_mul_overflow(expected, shape[i], &expected)) return false;
  }
  return true;
}

const ZipEntry* find_entry(const std::vector<ZipEntry>& entries, std::string_view ending) {
  for (const ZipEntry& entry : entries) {
    const std::size_t slash = entry.name.find('/');
    if (slash != std::string::npos && std::string_view(entry.name).substr(slash + 1) == ending) {
      return &entry;
    }
  }
  return nullptr;
}

/// What a tensor's description says: _rebuild_tensor_v2(storage, offset, size, stride, ...).
Result<SavedTensor> describe(const PickleTree& tree, const std::vector<ZipEntry>& entries) {
  const PickleValue* made = &tree.top();
  if (made->kind == Kind::kObject && made->text == "torch._utils._rebuild_parameter") {
    const auto& inner = tree.at(made->items[0]).items;
    if (inner.empty()) return tensor_error(ErrorKind::kCorrupt, "a parameter without tensor");
    made = &tree.at(inner[0]);
  }
  if (made->kind != Kind::kObject || made->text != "torch._utils._rebuild_tensor_v2") {
    return tensor_error(ErrorKind::kUnsupported, "the object is no tensor");
  }
  const auto& arguments = tree.at(made->items[0]).items;
  if (arguments.size() < 4) return tensor_error(ErrorKind::kCorrupt, "too few arguments");
  const PickleValue& storage = tree.at(arguments[0]);
  const PickleValue& offset = tree.at(arguments[1]);
  if (storage.kind != Kind::kPersistent || offset.kind != Kind::kInt || offset.integer < 0) {
    return tensor_error(ErrorKind::kCorrupt, "no storage");
  }
  const PickleValue& id = tree.at(storage.items[0]);
  if (id.kind != Kind::kTuple || id.items.size() < 5 ||
      tree.at(id.items[1]).kind != Kind::kGlobal || tree.at(id.items[2]).kind != Kind::kText) {
    return tensor_error(ErrorKind::kCorrupt, "a storage of another form");
  }
  SavedTensor tensor;
  const std::string& storage_class = tree.at(id.items[1]).text;
  SX_TRY(tensor.dtype, torch_dtype(storage_class.substr(storage_class.find('.') + 1)));
  SX_TRY(tensor.shape, counts(tree, tree.at(arguments[2])));
  SX_TRY(const std::vector<std::int64_t> strides, counts(tree, tree.at(arguments[3])));
  if (strides.size() != tensor.shape.size()) {
    return tensor_error(ErrorKind::kCorrupt, "sizes and strides differ in number");
  }
  if (!is_row_major(tensor.shape, strides)) {
    return tensor_error(ErrorKind::kUnsupported, "the tensor is not contiguous");
  }
  const ZipEntry* data = find_entry(entries, "data/" + tree.at(id.items[2]).text);
  if (data == nullptr) return tensor_error(ErrorKind::kCorrupt, "its storage is not in the file");
  const auto element = static_cast<std::uint64_t>(safetensors::size_bytes(tensor.dtype));
  std::uint64_t bytes = element, first = 0;
  for (const std::int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return tensor_error(ErrorKind::kCorrupt, "sizes pass 64 bits");
    }
  }
  if (__builtin_mul_overflow(element, static_cast<std::uint64_t>(offset.integer), &first) ||
      first > data->bytes.size() || bytes > data->bytes.size() - first) {
    return tensor_error(ErrorKind::kCorrupt, fmt::format("{} bytes from {} of a storage of {}",
                                                         bytes, first, data->bytes.size()));
  }
  tensor.bytes = data->bytes.substr(first, bytes);
  return tensor;
}

}  // namespace

Result<Dtype> torch_dtype(std::string_view name) {
  for (const DtypeName& row : kDtypeNames) {
    if (row.dtype == name || row.storage == name) return row.value;
  }
  return tensor_error(ErrorKind::kUnsupported, fmt::format("dtype \"{}\"", name));
}

Result<SavedTensor> read_saved_tensor(std::string_view archive) {
  SX_TRY(const std::vector<ZipEntry> entries, list_zip(archive));
  if (const ZipEntry* order = find_entry(entries, "byteorder");
      order != nullptr && order->bytes != "little") {
    return tensor_error(ErrorKind::kUnsupported, "big-endian data");
  }
  const ZipEntry* pickle = find_entry(entries, "data.pkl");
  if (pickle == nullptr) return tensor_error(ErrorKind::kCorrupt, "no data.pkl");
  SX_TRY(const PickleTree tree, read_pickle(pickle->bytes, kTensorClasses));
  return describe(tree, entries);
}

}  // namespace sx
