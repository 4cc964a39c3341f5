#include "sextant/base/diagnostic.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "sextant/base/check.h"

namespace sx {
namespace {

std::string join(const std::vector<Diagnostic>& faults) {
  std::string text;
  for (const Diagnostic& fault : faults) {
    if (!text.empty()) text += '\n';
    text += fault.to_string();
  }
  return text;
}

std::vector<Diagnostic> require_some(std::vector<Diagnostic> faults) {
  SX_CHECK(!faults.empty(), "a FatalError needs at least one fault");
  return faults;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct Entry {
  ExitCode exit;
  int number;
  const char* rule;
};

/// I/O errors carry errno's text, which is all that tells a full disk from a missing right.
Entry io_entry(std::string_view message) {
  for (const char* full : {"No space left on device", "Disk quota exceeded", "File too large"}) {
    if (contains(message, full))
      return {ExitCode::kIo, 1, "the disk is full or a size limit was hit"};
  }
  for (const char* denied :
       {"Permission denied", "Operation not permitted", "Read-only file system"}) {
    if (contains(message, denied)) return {ExitCode::kIo, 2, "no permission"};
  }
  return {ExitCode::kIo, 7, "the operating system reports an input/output error"};
}

Entry entry_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kCorrupt: return {ExitCode::kIo, 3, "the bytes break their format"};
    case ErrorKind::kIo: return io_entry(error.message);
    case ErrorKind::kNotFound: return {ExitCode::kUser, 7, "it must exist"};
    case ErrorKind::kInvalid: return {ExitCode::kUser, 8, "the value is not accepted"};
    case ErrorKind::kUnsupported: return {ExitCode::kUser, 9, "legal, but not handled here"};
    case ErrorKind::kLimit: return {ExitCode::kIo, 8, "a limit was passed"};
    case ErrorKind::kTimeout: return {ExitCode::kIo, 9, "no answer in time"};
    case ErrorKind::kInternal: break;
  }
  return {ExitCode::kContract, 1, "a defect of the program: please report it"};
}

}  // namespace

std::string Diagnostic::code() const {
  return fmt::format("SX{}-{:03}", static_cast<int>(exit), number);
}

std::string Diagnostic::to_string(const char* severity) const {
  std::string text = fmt::format("{}[{}] {}", severity, code(), what);
  if (!where.empty()) text += "\n  where  " + where;
  if (!rule.empty()) text += (exit == ExitCode::kUser ? "\n  rule   " : "\n  cause  ") + rule;
  if (!next.empty()) text += "\n  next   " + next;
  return text;
}

Diagnostic user_fault(int number, std::string what, std::string where, std::string rule,
                      std::string next) {
  return {.exit = ExitCode::kUser,
          .number = number,
          .what = std::move(what),
          .where = std::move(where),
          .rule = std::move(rule),
          .next = std::move(next)};
}

FatalError::FatalError(Diagnostic fault) : FatalError(std::vector<Diagnostic>{std::move(fault)}) {}

FatalError::FatalError(std::vector<Diagnostic> faults)
    : std::runtime_error(join(faults)), faults_(require_some(std::move(faults))) {}

Diagnostic to_diagnostic(const Error& error, std::string next) {
  const Entry entry = entry_of(error);
  // Whatever the caller would try next, room comes first, and every verb goes on where it stopped.
  if (entry.exit == ExitCode::kIo && entry.number == 1) {
    next = "free space, then run the same command again";
  }
  return {.exit = entry.exit,
          .number = entry.number,
          .what = error.message,
          .where = error.where,
          .rule = entry.rule,
          .next = std::move(next)};
}

void throw_fault(Diagnostic fault) {
  if (fault.exit == ExitCode::kUser) throw ConfigError(std::move(fault));
  throw IoError(std::move(fault));
}

}  // namespace sx
