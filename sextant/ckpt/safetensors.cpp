#include "sextant/ckpt/safetensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"

namespace sx {
namespace {

using safetensors::Dtype;

struct Pair {
  Dtype dtype;
  at::ScalarType scalar_type;
};

constexpr Pair kPairs[] = {
    {Dtype::kF64, at::kDouble},
    {Dtype::kF32, at::kFloat},
    {Dtype::kF16, at::kHalf},
    {Dtype::kBF16, at::kBFloat16},
    {Dtype::kI64, at::kLong},
    {Dtype::kI32, at::kInt},
    {Dtype::kI16, at::kShort},
    {Dtype::kI8, at::kChar},
    {Dtype::kU8, at::kByte},
    {Dtype::kBool, at::kBool},
    {Dtype::kF8E4M3, at::kFloat8_e4m3fn},
    {Dtype::kF8E5M2, at::kFloat8_e5m2},
};

std::string_view text_of(const at::Tensor& contiguous) {
  return {static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

}  // namespace

std::optional<Dtype> to_safetensors_dtype(at::ScalarType dtype) {
  for (const Pair& pair : kPairs) {
    if (pair.scalar_type == dtype) return pair.dtype;
  }
  return std::nullopt;
}

at::ScalarType to_scalar_type(Dtype dtype) {
  for (const Pair& pair : kPairs) {
    if (pair.dtype == dtype) return pair.scalar_type;
  }
  SX_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

Result<WrittenFile> save_safetensors(const fs::path& path, std::span<const NamedTensor> tensors,
                                     std::map<std::string, std::string> metadata) {
  metadata.emplace("format", "pt");
  std::vector<safetensors::Entry> entries;
  std::map<std::string_view, const at::Tensor*> by_name;
  for (const NamedTensor& named : tensors) {
    const auto dtype = to_safetensors_dtype(named.tensor.scalar_type());
    if (!dtype) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("tensor \"{}\": safetensors has no dtype for {}", named.name,
                               toString(named.tensor.scalar_type())),
                   path.string()};
    }
    entries.push_back({named.name, *dtype, named.tensor.sizes().vec()});
    by_name[named.name] = &named.tensor;
  }
  SX_TRY(safetensors::Layout layout, safetensors::plan_layout(std::move(entries), metadata));

  SX_TRY(FileWriter writer, FileWriter::create(path));
  Xxh3Stream file_hash;
  SX_TRY_VOID(writer.write(layout.head));
  file_hash.update(layout.head);
  WrittenFile written;
  for (safetensors::Entry& entry : layout.header.entries) {
    const at::Tensor contiguous = by_name.at(entry.name)->detach().contiguous();
    const std::string_view bytes = text_of(contiguous);
    SX_TRY_VOID(writer.write(bytes));
    file_hash.update(bytes);
    written.entries.push_back({std::move(entry), xxh3_64(bytes)});
  }
  written.data_begin = layout.header.data_begin;
  written.bytes = writer.bytes();
  written.xxh3 = file_hash.digest();
  SX_TRY_VOID(writer.commit());
  return written;
}

Result<at::Tensor> load_tensor(const safetensors::File& file, const std::string& name) {
  const safetensors::Entry* entry = file.find(name);
  if (entry == nullptr)
    return Error{ErrorKind::kNotFound, fmt::format("no tensor \"{}\"", name), ""};
  at::Tensor tensor = at::empty(entry->shape, to_scalar_type(entry->dtype));
  const auto bytes = file.data(*entry);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

Result<std::vector<NamedTensor>> load_safetensors(const fs::path& path) {
  SX_TRY(const safetensors::File file, safetensors::File::open(path));
  std::vector<NamedTensor> tensors;
  for (const safetensors::Entry& entry : file.header().entries) {
    SX_TRY(at::Tensor tensor, load_tensor(file, entry.name));
    tensors.push_back({entry.name, std::move(tensor)});
  }
  return tensors;
}

}  // namespace sx
