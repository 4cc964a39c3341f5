#pragma once

#include <filesystem>
#include <string>

namespace sx {

struct ShellOutcome {
  int code = -1;  ///< exit status, or minus the signal that ended it
  std::string out;
  std::string err;
};

/// Runs a line by the shell in `folder`, where a file "stderr" is left.
ShellOutcome run_shell(const std::string& line, const std::filesystem::path& folder);

}  // namespace sx
