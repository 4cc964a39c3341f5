#include "sextant/base/result.h"

#include "sextant/base/check.h"

namespace sx {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kCorrupt: return "corrupt";
    case ErrorKind::kIo: return "io";
    case ErrorKind::kNotFound: return "not found";
    case ErrorKind::kInvalid: return "invalid";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kLimit: return "limit";
    case ErrorKind::kTimeout: return "timeout";
    case ErrorKind::kInternal: return "internal";
  }
  return "?";
}

std::string Error::to_string() const {
  std::string text = std::string(sx::to_string(kind)) + ": " + message;
  if (!where.empty()) text += " (" + where + ")";
  return text;
}

namespace detail {
void fail_bad_result_access(const Error* error) {
  throw ContractError(error ? "value of a failed Result: " + error->to_string()
                            : "error of a Result that holds a value");
}
}  // namespace detail

}  // namespace sx
