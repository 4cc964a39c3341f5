#include "tests/support/run_shell.h"

#include <sys/wait.h>

#include <cstdio>

#include "sextant/base/fs.h"

namespace sx {

ShellOutcome run_shell(const std::string& line, const std::filesystem::path& folder) {
  const std::string err = (folder / "stderr").string();
  const std::string command = "cd '" + folder.string() + "' && " + line + " 2>'" + err + "'";
  ShellOutcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char block[4096];
  for (std::size_t n; (n = fread(block, 1, sizeof block, pipe)) > 0;) outcome.out.append(block, n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  outcome.err = read_file(err).value();
  return outcome;
}

}  // namespace sx
