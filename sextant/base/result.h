#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace sx {

/// What kind of expected trouble an operation met. Finer reasons are an enum of the owning library.
enum class ErrorKind {
  kCorrupt,      ///< bytes that break their format
  kIo,           ///< disk, socket, permission, no space
  kNotFound,     ///< a file, key or name that does not exist
  kInvalid,      ///< a value its owner does not accept
  kUnsupported,  ///< legal, but not handled here
  kLimit,        ///< a stated limit was passed
  kTimeout,
  kInternal,
};

const char* to_string(ErrorKind kind);

/// An expected failure of one item (a record, a file, a page): a value, never an exception.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  ///< one line, no trailing period
  std::string where;    ///< file and offset, record id or the like; may be empty

  /// "kind: message (where)".
  std::string to_string() const;
};

namespace detail {
[[noreturn]] void fail_bad_result_access(const Error* error);
}

/// Either a value or an `Error`. Ignoring one does not compile (with -Werror=unused-result).
///
/// Errors:  `value()` on an error and `error()` on a value are contract errors.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : data_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : data_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return data_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    require_value();
    return std::get<0>(data_);
  }
  const T& value() const& {
    require_value();
    return std::get<0>(data_);
  }
  T&& value() && {
    require_value();
    return std::get<0>(std::move(data_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    if (ok()) detail::fail_bad_result_access(nullptr);
    return std::get<1>(data_);
  }
  Error&& error() && {
    if (ok()) detail::fail_bad_result_access(nullptr);
    return std::get<1>(std::move(data_));
  }

 private:
  void require_value() const {
    if (!ok()) detail::fail_bad_result_access(&std::get<1>(data_));
  }
  std::variant<T, Error> data_;
};

/// Success without a value, or an `Error`.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const {
    if (error_) detail::fail_bad_result_access(&*error_);
  }
  const Error& error() const& {
    if (!error_) detail::fail_bad_result_access(nullptr);
    return *error_;
  }
  Error&& error() && {
    if (!error_) detail::fail_bad_result_access(nullptr);
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace sx

#define SX_CONCAT_IMPL(a, b) a##b
#define SX_CONCAT(a, b) SX_CONCAT_IMPL(a, b)

/// SX_TRY(auto x, f()): declares x with the value of f(), or returns f()'s error from this
/// function.
#define SX_TRY(declaration, expression) \
  SX_TRY_IMPL(SX_CONCAT(sx_try_, __COUNTER__), declaration, expression)
#define SX_TRY_IMPL(name, declaration, expression) \
  auto name = (expression);                        \
  if (!name.ok()) return std::move(name).error();  \
  declaration = std::move(name).value()

/// SX_TRY_VOID(f()): returns f()'s error from this function if it has one.
#define SX_TRY_VOID(expression)                               \
  do {                                                        \
    auto sx_status = (expression);                            \
    if (!sx_status.ok()) return std::move(sx_status).error(); \
  } while (false)
