// Any text through word splitting, scanners for personal data, rules and shingles: pieces and spans
// lie inside the text in order, and what comes out is valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sextant/crawl/pii.h"
#include "sextant/crawl/policy.h"
#include "sextant/text/minhash.h"
#include "sextant/text/segment.h"
#include "sextant/text/utf8.h"

namespace {

void check_pieces(const std::string& text, const sx::Pieces& pieces) {
  const char* from = text.data();
  for (const std::string_view piece : pieces) {
    if (piece.data() < from || piece.data() + piece.size() > text.data() + text.size())
      std::abort();
    from = piece.data() + piece.size();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t replaced = 0;
  const std::string text = sx::repair_utf8({reinterpret_cast<const char*>(data), size}, replaced);
  check_pieces(text, sx::split_words(text));
  check_pieces(text, sx::split_lines(text));
  check_pieces(text, sx::split_any_script(text));
  check_pieces(text, sx::split_spacy_english(text));
  for (const sx::PiiPreset preset :
       {sx::PiiPreset::kSextant, sx::PiiPreset::kCs336, sx::PiiPreset::kDatatrove}) {
    sx::PiiOptions options;
    options.preset = preset;
    std::size_t end = 0;
    for (const sx::PiiSpan& span : sx::find_pii(text, options)) {
      if (span.begin < end || span.end <= span.begin || span.end > text.size()) std::abort();
      end = span.end;
    }
    sx::PiiCounts counts{};
    if (!sx::is_valid_utf8(sx::replace_pii(text, options, counts))) std::abort();
  }
  for (const sx::NamedPolicy& policy : sx::named_policies()) {
    sx::PolicyText page{text, "en"};
    sx::apply_policy(sx::parse_policy({policy.name}).value(), page);
    if (!sx::is_valid_utf8(page.text)) std::abort();
  }
  sx::word_shingles(sx::normalize_for_shingles(text), 5);
  const auto policy = sx::parse_policy({text});
  if (policy.ok() && sx::explain_policy(*policy).empty()) std::abort();
  return 0;
}
