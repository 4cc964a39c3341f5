#include "sextant/tensor/compat.h"

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/csrc/api/include/torch/version.h>
#endif

namespace sx::compat {

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15

bool has_access_guard() { return true; }

void set_access_guard(c10::StorageImpl& storage, const std::string& message) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(message);
}

void clear_access_guard(c10::StorageImpl& storage) { storage.clear_data_ptr_access_error_msg_(); }

#else

bool has_access_guard() { return false; }

void set_access_guard(c10::StorageImpl&, const std::string&) {}

void clear_access_guard(c10::StorageImpl&) {}

#endif

}  // namespace sx::compat
