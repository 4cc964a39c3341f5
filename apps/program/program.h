#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "sextant/base/diagnostic.h"
#include "sextant/recipe/command_line.h"

namespace sx {

/// One verb's code. Returns an exit code; throws ConfigError or IoError for faults.
struct Command {
  const char* verb;
  int (*run)(const Invocation& invocation);
};

/// The whole of `main`: installs signal handlers, parses, answers --help, --version, --help-recipe,
/// --print-config and
/// --validate, resolves the recipe, runs the verb of `commands`, prints faults in four lines,
/// returns the exit code. An uncaught exception gives exit 1 and crash-<rank>.json in the working
/// folder.
int run_main(Program program, int argc, char** argv, std::initializer_list<Command> commands);

/// Prints to standard error, coloured when that is a terminal or --color says so.
void print_fault(const Diagnostic& fault, const char* severity, ColorMode color);

/// Replaces this process by a program beside it (same folder, then ../libexec/sextant/): returns
/// only when there is none, with exit 2 and SX2-005.
int exec_sibling(const std::string& name, char** argv);

}  // namespace sx
