#include "apps/sextant/cmd_completion.h"

#include <fmt/format.h>

#include <cstdio>

namespace sx {

int run_completion(const Invocation& invocation) {
  const std::string script = completion_script(invocation.inputs[0]);
  if (script.empty()) {
    throw ConfigError(
        Diagnostic{.number = 3,
                   .what = fmt::format("no completion for shell {}", invocation.inputs[0]),
                   .where = "command line",
                   .rule = "shells are bash, zsh and fish",
                   .next = "sextant completion bash"});
  }
  std::fputs(script.c_str(), stdout);
  return 0;
}

}  // namespace sx
