#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "sextant/text/dom.h"

namespace sx {

/// Budgets of one page. They count tokens, nodes and bytes, never time, so that a page fares the
/// same on every machine.
struct HtmlLimits {
  bool guard = true;  ///< false: the tree exactly as the standard builds it, for conformance tests
  std::size_t max_depth = 512;        ///< start tags deeper are not inserted, their text stays
  std::size_t max_attributes = 1024;  ///< of one tag; the rest is dropped
  std::size_t max_formatting =
      32;  ///< active formatting elements (b, i, a, font ...) since the last marker
  std::uint64_t max_nodes = 4'000'000;
  std::uint64_t memory_per_byte = 64;  ///< budget of the tree = this times input + 8 MiB
  bool drop_select = true;  ///< select, option, optgroup and the text of options are left out
};

/// How a parse ended.
enum class HtmlEnd { kComplete, kNodeLimit, kMemoryLimit };

struct ParsedPage {
  DomNode document;
  HtmlEnd end =
      HtmlEnd::kComplete;   ///< over a budget, the tree holds the page as far as it was parsed
  std::uint64_t nodes = 0;  ///< elements, texts and comments asked for
  /// Bound of the work: for every token the open elements, the active formatting elements and the
  /// pairs of its attributes that lexbor may compare. Counts, so the same on every machine.
  std::uint64_t steps = 0;
  std::uint64_t memory_bytes = 0;
};

/// The one door to lexbor: parses pages by the HTML standard with scripting off, in linear time and
/// bounded memory on hostile input.
///
/// Requires: input is valid UTF-8 without byte order mark.
/// Threads: one parser per thread; the tree of a page lives until the next `parse` or the parser's
/// end. Source:  HTML Standard, 13.2, through lexbor 3.1.
class HtmlParser {
 public:
  HtmlParser();
  ~HtmlParser();
  HtmlParser(const HtmlParser&) = delete;
  HtmlParser& operator=(const HtmlParser&) = delete;

  ParsedPage parse(std::string_view html, const HtmlLimits& limits = {});
  /// As the content of an element with `context_name` ("td", "svg path"); `document` is the root
  /// that holds the nodes. No guard. For tests and for reading text again.
  ParsedPage parse_fragment(std::string_view html, std::string_view context_name);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sx
