#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include "sextant/base/diagnostic.h"
#include "sextant/recipe/command_line.h"

namespace sx {

/// One verb's code. Returns an exit code; throws ConfigError or IoError for faults.
struct Command {
  const char* verb;
  int (*run)(const Invocation& invocation);
};

/// A linked part that `--version` names, such as {"libtorch", "2.15.0"}.
struct ProgramPart {
  const char* name;
  std::string version;
};

/// The whole of `main`: parses, answers --help, --version, --help-recipe, --print-config and
/// --validate, reads and resolves the recipe, installs signal handlers, runs the verb of
/// `commands`, prints faults in four lines, returns the exit code. A verb of the other program is
/// handed to it (exec_sibling). An uncaught exception gives exit 1 and crash-<rank>.json in the
/// working folder.
int run_main(Program program, int argc, char** argv, std::initializer_list<Command> commands,
             std::span<const ProgramPart> parts = {});

/// Writes to standard output, as it is.
void print(const std::string& text);

/// Prints to standard error, coloured when that is a terminal or --color says so.
void print_fault(const Diagnostic& fault, const char* severity, ColorMode color);

/// Path of a program beside this one (same folder, then ../libexec/sextant/, never PATH); empty when
/// there is none.
std::string find_sibling(const std::string& name);

/// Replaces this process by a program beside it: returns only when there is none, with exit 2 and SX2-005 printed.
int exec_sibling(const std::string& name, char** argv, ColorMode color);

}  // namespace sx
