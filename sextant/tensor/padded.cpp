#include "sextant/tensor/padded.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/zeros.h>

#include "sextant/base/check.h"

namespace sx {

std::int64_t padded_numel(std::int64_t numel, c10::ScalarType dtype) {
  const std::int64_t unit = kBlockBytes / static_cast<std::int64_t>(c10::elementSize(dtype));
  return (numel + unit - 1) / unit * unit;
}

at::Tensor make_padded(const std::vector<std::int64_t>& shape, c10::ScalarType dtype) {
  std::int64_t numel = 1;
  for (const std::int64_t extent : shape) numel *= extent;
  const at::Tensor block = at::zeros({padded_numel(numel, dtype)}, dtype);
  // detach(): a tensor of its own over the same, padded storage; not a view as far as autograd
  // knows.
  return block.narrow(0, 0, numel).view(shape).detach();
}

at::Tensor padded_block(const at::Tensor& tensor) {
  SX_CHECK(tensor.is_contiguous(), "a padded block is contiguous");
  const std::int64_t padded = padded_numel(tensor.numel(), tensor.scalar_type());
  const auto item = static_cast<std::int64_t>(tensor.element_size());
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  SX_CHECK(tensor.storage_offset() * item % kBlockBytes == 0,
           "block starts at element {}, not at a multiple of {} bytes", tensor.storage_offset(),
           kBlockBytes);
  SX_CHECK((tensor.storage_offset() + padded) * item <= bytes,
           "storage of {} bytes ends before the padding of {} elements", bytes, padded);
  return tensor.detach().as_strided({padded}, {1});
}

}  // namespace sx
