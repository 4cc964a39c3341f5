#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "sextant/base/result.h"
#include "sextant/recipe/command_line.h"

namespace sx {

/// Sub-verbs of `sextant data`. Each returns an exit code and throws ConfigError or IoError.
int data_stats(const Invocation& call);
int data_cat(const Invocation& call);
int data_diff(const Invocation& call);
int data_build(const Invocation& call);
int data_order(const Invocation& call);
int data_where(const Invocation& call);
int data_verify(const Invocation& call);

/// Throws: a missing file or a wrong choice ends with exit 2, a corrupt or unreadable file with 3.
[[noreturn]] void fail_data(const Error& error);
template <class T>
T take_data(Result<T> result) {
  if (!result.ok()) fail_data(result.error());
  return std::move(result).value();
}

/// Beginning of a text on one line: line ends as \n, cut at a character.
std::string one_line(std::string_view text);

}  // namespace sx
