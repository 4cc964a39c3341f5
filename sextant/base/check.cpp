#include "sextant/base/check.h"

#include <string_view>

namespace sx::detail {

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  // From the project's root only: a message must not tell where the build machine keeps the tree.
  std::string_view path = file;
  for (std::string_view root : {"sextant/", "apps/", "tests/"}) {
    if (const auto at = path.rfind(root); at != std::string_view::npos) {
      path.remove_prefix(at);
      break;
    }
  }
  throw ContractError(fmt::format("{} ({}) at {}:{}", message, condition, path, line));
}

}  // namespace sx::detail
