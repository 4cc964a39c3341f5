#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sextant/base/exit_code.h"
#include "sextant/base/result.h"

namespace sx {

/// A message to a person, in four lines: what, where, rule or cause, next command.
///
///   error[SX2-017] parallelism.tp = 3 does not divide model.num_heads_kv = 8
///     where  8b.toml:14 (parallelism.tp)
///     rule   tp divides num_heads_kv, or num_heads_kv divides tp
///     next   sextant plan search 8b.toml --set parallelism.tp=auto
///
/// Numbers are stable and listed in docs/errors.md.
struct Diagnostic {
  ExitCode exit = ExitCode::kUser;
  int number = 0;  ///< the nnn of SX<exit>-nnn
  std::string what;
  std::string where;  ///< may be empty; then the line is left out
  std::string rule;   ///< "rule" for user errors, printed as "cause" for the others
  std::string next;

  /// "SX2-017".
  std::string code() const;
  /// The four lines, without colour, no trailing newline; `severity` is "error" or "warn".
  std::string to_string(const char* severity = "error") const;
};

/// A fault of the command line, recipe or plan (exit 2).
Diagnostic user_fault(int number, std::string what, std::string where, std::string rule,
                      std::string next = "");

/// One or more faults that end the program with the exit code of the first; thrown to `main` only.
class FatalError : public std::runtime_error {
 public:
  explicit FatalError(Diagnostic fault);
  explicit FatalError(std::vector<Diagnostic> faults);
  const std::vector<Diagnostic>& faults() const { return faults_; }
  ExitCode exit_code() const { return faults_.front().exit; }

 private:
  std::vector<Diagnostic> faults_;
};

/// Faults of the command line, recipe or plan: exit 2. Carries all of them, not the first.
class ConfigError : public FatalError {
 public:
  using FatalError::FatalError;
};

/// The environment (disk, socket) does not let the run go on: exit 3.
class IoError : public FatalError {
 public:
  using FatalError::FatalError;
};

/// The diagnostic that tells of `error`: SX3-001 no space, SX3-002 permission, SX3-003 corrupt,
/// SX2-007 not found ... `next` is the command to try.
Diagnostic to_diagnostic(const Error& error, std::string next = "");

/// Throws it: ConfigError for what the user chose, else IoError.
[[noreturn]] void throw_fault(Diagnostic fault);

/// The value, or what `to_diagnostic` makes of the error, thrown.
template <class T>
T value_or_throw(Result<T> result, const std::string& next) {
  if (!result.ok()) throw_fault(to_diagnostic(result.error(), next));
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

}  // namespace sx
