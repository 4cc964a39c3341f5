#include <fmt/format.h>

#include "apps/sextant-train/commands.h"
#include "sextant/base/diagnostic.h"
#include "sextant/ckpt/checkpoint.h"

namespace sx {

namespace {

// Without a checkpoint the path itself: what is missing there is the message wanted.
fs::path checkpoint_of(const fs::path& path) {
  const auto found = find_checkpoint(path);
  if (!found.ok()) throw IoError(to_diagnostic(found.error(), "sextant doctor " + path.string()));
  return found->value_or(path);
}

int inspect(const Invocation& invocation) {
  const auto text =
      inspect_checkpoint(checkpoint_of(invocation.inputs.front()), invocation.text("tensor"));
  if (!text.ok()) throw IoError(to_diagnostic(text.error(), "sextant doctor RUN"));
  fmt::print("{}", *text);
  return 0;
}

int verify(const Invocation& invocation) {
  const fs::path path = checkpoint_of(invocation.inputs.front());
  const auto faults = verify_checkpoint(path);
  if (!faults.ok()) throw IoError(to_diagnostic(faults.error(), "sextant doctor RUN"));
  for (const std::string& fault : *faults) fmt::print("{}\n", fault);
  fmt::print("{}: {}\n", path.string(),
             faults->empty() ? "whole" : fmt::format("{} faults", faults->size()));
  return static_cast<int>(faults->empty() ? ExitCode::kOk : ExitCode::kVerdict);
}

}  // namespace

int run_ckpt(const Invocation& invocation) {
  return invocation.sub->name == "verify" ? verify(invocation) : inspect(invocation);
}

}  // namespace sx
