#include "sextant/tensor/storage.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>

#include "sextant/base/check.h"
#include "sextant/tensor/compat.h"

namespace sx {
namespace {

c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.storage().unsafeGetStorageImpl();
}

std::string released(const std::string& name) { return name + ": parameter used while released"; }

}  // namespace

at::Tensor make_detached(const std::vector<std::int64_t>& shape, c10::ScalarType dtype,
                         const std::string& name) {
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::Device(c10::kCPU)),
      /*allocator=*/nullptr, /*resizable=*/false));
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  detach_memory(tensor, name);
  return tensor;
}

void attach(const at::Tensor& tensor, void* data, std::int64_t bytes) {
  SX_CHECK(bytes >= static_cast<std::int64_t>(tensor.nbytes()),
           "{} bytes of memory for a tensor of {}", bytes, tensor.nbytes());
  SX_CHECK(data != nullptr || tensor.numel() == 0, "no memory for {} elements", tensor.numel());
  c10::StorageImpl& storage = storage_of(tensor);
  compat::clear_access_guard(storage);
  storage.set_data_ptr_noswap(c10::DataPtr(data, tensor.device()));
  storage.set_nbytes(static_cast<std::size_t>(bytes));
}

void detach_memory(const at::Tensor& tensor, const std::string& name) {
  c10::StorageImpl& storage = storage_of(tensor);
  compat::clear_access_guard(storage);
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, tensor.device()));
  storage.set_nbytes(0);
  compat::set_access_guard(storage, released(name));
}

bool is_attached(const at::Tensor& tensor) {
  const c10::StorageImpl& storage = storage_of(tensor);
  return storage.nbytes() > 0 || tensor.numel() == 0;
}

void poison(void* data, std::int64_t bytes) {
  // Little-endian bytes f8 7f: 0x7ff87ff8... as double, float and bf16 is NaN; fp16 0x7ff8 too.
  auto* out = static_cast<unsigned char*>(data);
  for (std::int64_t i = 0; i < bytes; ++i) out[i] = (i & 1) != 0 ? 0x7f : 0xf8;
}

}  // namespace sx
