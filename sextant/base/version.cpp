#include "sextant/base/version.h"

#include "git_commit.h"

namespace sx {

const Version& version() {
  static const Version kVersion{
      .version = SX_VERSION,
      .git_commit = SX_GIT_COMMIT,
      .build_type = SX_BUILD_TYPE,
#ifdef __clang__
      .compiler = "clang " __clang_version__,
#else
      .compiler = "gcc " __VERSION__,
#endif
  };
  return kVersion;
}

}  // namespace sx
