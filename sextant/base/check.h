#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace sx {

/// A broken contract between parts of the program: a defect, never an input's fault. Caught in
/// `main` only (exit 1).
class ContractError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail {
[[noreturn]] void fail_check(const char* condition, const char* file, int line,
                             const std::string& message);
}

}  // namespace sx

/// Throws ContractError when `condition` is false; the rest is a fmt format string with its
/// arguments.
#define SX_CHECK(condition, ...)                                                            \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::sx::detail::fail_check(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)

/// As SX_CHECK in builds with assertions, nothing in release: for hot loops.
#ifdef NDEBUG
#define SX_DCHECK(condition, ...) \
  do {                            \
  } while (false)
#else
#define SX_DCHECK(condition, ...) SX_CHECK(condition, __VA_ARGS__)
#endif
