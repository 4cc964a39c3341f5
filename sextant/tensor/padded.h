#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sx {

/// Every block of a parameter, gradient or optimizer state is a whole number of 128-byte pieces.
/// Element-wise kernels round the scalar tail of a range differently from its vector part, so work
/// is always done on the padded length: cuts of one parameter then give the same bits as the whole.
/// Padding holds zeros and stays zero.
inline constexpr std::int64_t kBlockBytes = 128;

/// numel rounded up so that its bytes are a multiple of 128.
std::int64_t padded_numel(std::int64_t numel, c10::ScalarType dtype);

/// A contiguous zero-filled CPU tensor whose storage is its own, and padded.
at::Tensor make_padded(const std::vector<std::int64_t>& shape, c10::ScalarType dtype);

/// The whole padded block behind a tensor made by `make_padded` (or a slot of a padded flat
/// buffer), as one row. Shares the memory; carries no autograd history. Errors: ContractError when
/// the storage ends before the padding does.
at::Tensor padded_block(const at::Tensor& tensor);

}  // namespace sx
