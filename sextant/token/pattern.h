#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// A regular expression in PCRE2 syntax over UTF-8, Unicode classes on, compiled to machine code
/// where PCRE2 can. For split patterns and the normalisers of vocabulary files.
///
/// Threads: const calls are safe. The classes are those of the linked PCRE2 (10.42: Unicode 14.0),
/// not of the table in unicode_classes.h.
class Pattern {
 public:
  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
    friend bool operator==(const Span&, const Span&) = default;
  };

  /// Errors:  kUnsupported (message and place of PCRE2); kInvalid for one that can match nothing at
  /// all, because pieces have at least one byte.
  static Result<Pattern> compile(std::string_view pattern);
  /// A pattern for exactly these bytes. `text` is not empty.
  static Pattern literal(std::string_view text);

  const std::string& text() const { return text_; }

  /// Appends the matches in `subject`, front to back, without overlap. A byte outside well-formed
  /// UTF-8 is in no match and is an edge of the text. Errors:  kLimit when a match needs more steps
  /// or stack than PCRE2 is allowed (about 64 MiB of stack).
  Result<void> find_all(std::string_view subject, std::vector<Span>& matches) const;

 private:
  struct Code;
  Pattern(std::string text, std::shared_ptr<const Code> code)
      : text_(std::move(text)), code_(std::move(code)) {}
  Result<void> find_in_valid(std::string_view subject, std::size_t offset,
                             std::vector<Span>& matches) const;

  std::string text_;
  std::shared_ptr<const Code> code_;  // null: literal
};

}  // namespace sx
