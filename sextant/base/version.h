#pragma once

#include <string>

namespace sx {

struct Version {
  std::string version;     ///< "0.1.0"
  std::string git_commit;  ///< 12 hex digits, "-dirty" appended when the tree was; "unknown"
                           ///< outside a checkout
  std::string build_type;
  std::string compiler;
};
const Version& version();

}  // namespace sx
