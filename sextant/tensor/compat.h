#pragma once

#include <c10/core/StorageImpl.h>

#include <string>

/// Where LibTorch's versions differ in what Sextant uses; the one place that looks at the version
/// number.
namespace sx::compat {

/// Whether a storage without memory turns reads into exceptions with a text of its own. 2.15 has
/// it, 2.11 has not: there element-wise kernels fault on such a storage.
bool has_access_guard();

/// Takes the memory away and leaves `message` for whoever reads it (where the version can).
void set_access_guard(c10::StorageImpl& storage, const std::string& message);
void clear_access_guard(c10::StorageImpl& storage);

}  // namespace sx::compat
