#define PCRE2_CODE_UNIT_WIDTH 8
#include "sextant/token/pattern.h"

#include <fmt/format.h>
#include <pcre2.h>

#include "sextant/base/check.h"
#include "sextant/token/char_scan.h"

namespace sx {
namespace {

constexpr std::size_t kMaxPatternBytes = std::size_t{1} << 16;
constexpr std::size_t kStackStart = std::size_t{64} << 10;
constexpr std::size_t kStackMax = std::size_t{64} << 20;

std::string pcre_message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

// End of the run of well-formed characters from `pos` on.
std::size_t valid_end(std::string_view text, std::size_t pos) {
  while (pos < text.size()) {
    const ScannedChar c = scan_char(text, pos);
    if (!c.valid) break;
    pos += c.size;
  }
  return pos;
}

// What one call of find_all needs besides the code.
struct MatchMemory {
  MatchMemory(const MatchMemory&) = delete;
  MatchMemory& operator=(const MatchMemory&) = delete;
  explicit MatchMemory(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kStackStart, kStackMax, nullptr)) {
    SX_CHECK(data != nullptr && context != nullptr && stack != nullptr, "no memory for a match");
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~MatchMemory() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

}  // namespace

struct Pattern::Code {
  explicit Code(pcre2_code* c) : code(c) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  pcre2_code* code;
};

Result<Pattern> Pattern::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes)
    return Error{ErrorKind::kLimit, fmt::format("a pattern of {} bytes", pattern.size()), ""};
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, nullptr);
  if (code == nullptr) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("the pattern does not compile: {} at byte {}", pcre_message(error), offset),
        ""};
  }
  auto owner = std::make_shared<const Code>(code);
  std::uint32_t match_empty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &match_empty);
  if (match_empty != 0)
    return Error{ErrorKind::kInvalid, "the pattern can match nothing at all", ""};
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it pcre2_match interprets
  return Pattern(std::string(pattern), std::move(owner));
}

Pattern Pattern::literal(std::string_view text) {
  SX_CHECK(!text.empty(), "an empty literal pattern");
  return Pattern(std::string(text), nullptr);
}

Result<void> Pattern::find_in_valid(std::string_view subject, std::size_t offset,
                                    std::vector<Span>& matches) const {
  MatchMemory memory(code_->code);
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(subject.data());
  std::size_t pos = 0;
  while (pos < subject.size()) {
    const int found = pcre2_match(code_->code, bytes, subject.size(), pos, PCRE2_NO_UTF_CHECK,
                                  memory.data, memory.context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return Error{ErrorKind::kLimit, "the pattern gave up: " + pcre_message(found),
                   fmt::format("byte {}", offset + pos)};
    }
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(memory.data);
    // \K in a look-around can turn a span around or empty it; such a match is passed over.
    if (span[1] <= span[0] || span[0] < pos) {
      pos += scan_char(subject, pos).size;
      continue;
    }
    matches.push_back({offset + span[0], offset + span[1]});
    pos = span[1];
  }
  return {};
}

Result<void> Pattern::find_all(std::string_view subject, std::vector<Span>& matches) const {
  if (!code_) {
    for (std::size_t at = subject.find(text_); at != std::string_view::npos;
         at = subject.find(text_, at + text_.size())) {
      matches.push_back({at, at + text_.size()});
    }
    return {};
  }
  for (std::size_t pos = 0; pos < subject.size();) {
    const std::size_t end = valid_end(subject, pos);
    if (end > pos) SX_TRY_VOID(find_in_valid(subject.substr(pos, end - pos), pos, matches));
    pos = end < subject.size() ? end + 1 : end;
  }
  return {};
}

}  // namespace sx
