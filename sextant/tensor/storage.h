#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sx {

/// A parameter's memory taken away and given back without touching its tensor object: autograd
/// history, saved tensors and views made while attached stay valid, and see whatever memory is
/// attached when they are used.
///
/// The block is plain memory: the caller keeps it alive while attached. A tensor that will be
/// detached is the only one over its storage.
/// Threads: the owner of the tensor.
/// Source:  c10::StorageImpl; version counters do not move.

/// A tensor of `shape` without memory. Its name is used in the message of whoever touches it.
at::Tensor make_detached(const std::vector<std::int64_t>& shape, c10::ScalarType dtype,
                         const std::string& name);

/// Gives the storage of `tensor` the memory at `data`; `bytes` covers the tensor, and its padding
/// where there is one. `data` may be null only if the tensor has no elements.
void attach(const at::Tensor& tensor, void* data, std::int64_t bytes);

/// Takes the memory away. A kernel that touches the tensor afterwards throws "NAME: parameter used
/// while released" (LibTorch from 2.15; before, element-wise kernels fault).
void detach_memory(const at::Tensor& tensor, const std::string& name);

bool is_attached(const at::Tensor& tensor);

/// Fills memory with a pattern that is NaN in every float dtype (0x7ff8 repeated, also 0x7fc0 in
/// its 32-bit reading).
void poison(void* data, std::int64_t bytes);

}  // namespace sx
