#include "sextant/crawl/extract/block_features.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

float log_of(double x) { return static_cast<float>(std::log1p(std::max(0.0, x))); }
float share_of(double part, double whole) {
  return whole > 0 ? static_cast<float>(part / whole) : 0.0F;
}

/// What the characters of a block say.
struct TextShape {
  double chars = 0, upper = 0, digits = 0, marks = 0, stops = 0, commas = 0, short_words = 0,
         words = 0;
  float ends_sentence = 0, starts_upper = 0, has_colon_end = 0, has_bar = 0, has_copyright = 0;
};

TextShape shape_of(std::string_view text) {
  TextShape s;
  bool in_word = false;
  std::size_t length = 0;
  char32_t last = ' ';
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    s.chars += 1;
    const bool word = c < 128 ? (std::isalnum(static_cast<int>(c)) != 0) : is_alnum(c);
    if (word) {
      if (s.chars == 1 && is_upper(c)) s.starts_upper = 1;
      s.upper += is_upper(c) ? 1 : 0;
      s.digits += c >= '0' && c <= '9' ? 1 : 0;
      ++length;
    } else if (c != ' ') {
      s.marks += 1;
      if (c == '.' || c == '!' || c == '?' || c == 0x3002 || c == 0xFF01 || c == 0xFF1F)
        s.stops += 1;
      if (c == ',' || c == 0xFF0C || c == 0x3001) s.commas += 1;
      if (c == '|' || c == 0xB7 || c == 0xBB || c == '/') s.has_bar = 1;
      if (c == 0xA9) s.has_copyright = 1;
    }
    if (in_word && !word) {
      s.words += 1;
      s.short_words += length <= 3 ? 1 : 0;
      length = 0;
    }
    in_word = word;
    if (c != ' ') last = c;
  }
  s.words += in_word ? 1 : 0;
  s.ends_sentence = last == '.' || last == '!' || last == '?' || last == '"' || last == 0x201D ||
                            last == 0x3002 || last == 0xFF01 || last == 0xFF1F || last == 0x2026
                        ? 1.0F
                        : 0.0F;
  s.has_colon_end = last == ':' || last == 0xFF1A ? 1.0F : 0.0F;
  return s;
}

/// Small number for the role a tag gives.
float tag_code(Tag tag) {
  switch (tag) {
    case Tag::kP: return 1;
    case Tag::kLi: return 2;
    case Tag::kH1: return 3;
    case Tag::kH2: return 4;
    case Tag::kH3: return 5;
    case Tag::kH4:
    case Tag::kH5:
    case Tag::kH6: return 6;
    case Tag::kPre: return 7;
    case Tag::kBlockquote: return 8;
    case Tag::kDd:
    case Tag::kDt: return 9;
    case Tag::kTd:
    case Tag::kTh: return 10;
    case Tag::kFigcaption:
    case Tag::kCaption: return 11;
    case Tag::kArticle: return 12;
    case Tag::kSection: return 13;
    case Tag::kDiv: return 14;
    default: return 15;
  }
}

/// Bits of kinds of elements that stand around a block.
enum AroundBit : unsigned {
  kAroundNav = 1,
  kAroundHeader = 2,
  kAroundFooter = 4,
  kAroundAside = 8,
  kAroundForm = 16,
  kAroundArticle = 32,
  kAroundMain = 64,
  kAroundTable = 128,
  kAroundList = 256,
  kAroundFigure = 512,
  kAroundLink = 1024,
  kAroundHidden = 2048,
  kAroundDialog = 4096
};
constexpr unsigned kNumAround = 13;

unsigned around_bit(Tag tag) {
  switch (tag) {
    case Tag::kNav: return kAroundNav;
    case Tag::kHeader: return kAroundHeader;
    case Tag::kFooter: return kAroundFooter;
    case Tag::kAside: return kAroundAside;
    case Tag::kForm: return kAroundForm;
    case Tag::kArticle: return kAroundArticle;
    case Tag::kMain: return kAroundMain;
    case Tag::kTable: return kAroundTable;
    case Tag::kUl:
    case Tag::kOl: return kAroundList;
    case Tag::kFigure: return kAroundFigure;
    case Tag::kA: return kAroundLink;
    case Tag::kDialog:
    case Tag::kDetails: return kAroundDialog;
    default: return 0;
  }
}

/// What the elements around a block say.
struct Around {
  unsigned kinds = 0;
  std::uint32_t near_groups = 0;               // the three nearest
  std::uint32_t far_groups = 0;                // beyond
  std::vector<const HtmlElement*> containers;  // elements with more text than the one inside
  float most_repeats = 1;
};

Around around_of(const HtmlBlocks& page, const HtmlBlock& block) {
  Around out;
  double chars = 0;
  std::size_t level = 0;
  for (std::int32_t e = block.element; e >= 0;) {
    const HtmlElement& element = page.elements[static_cast<std::size_t>(e)];
    out.kinds |= around_bit(element.tag) | (element.hidden ? kAroundHidden : 0U);
    if (element.tag != Tag::kBody && element.tag != Tag::kHtml) {
      if (level < 3)
        out.near_groups |= element.groups;
      else
        out.far_groups |= element.groups;
    }
    out.most_repeats = std::max(out.most_repeats, static_cast<float>(element.repeats));
    if (element.chars > chars * 1.02 + 1) {
      out.containers.push_back(&element);
      chars = element.chars;
    }
    ++level;
    e = element.parent;
  }
  return out;
}

constexpr std::size_t kOwn = 22;
constexpr std::size_t kLevels = 4;
constexpr std::size_t kPerLevel = 5;
constexpr std::size_t kSides = 4;  // two before, two behind
constexpr std::size_t kPerSide = 6;
constexpr std::size_t kPage = 17;
constexpr std::size_t kFirst =
    kOwn + kNumAround + kNumWordGroups + kLevels * kPerLevel + kSides * kPerSide + kPage;
constexpr std::size_t kContext = 16;

struct PageSums {
  double chars = 0, link_chars = 0, prose = 0, list_chars = 0, table_chars = 0, headings = 0;
  std::size_t first_h1 = 0;
  std::unordered_map<std::uint64_t, int> texts;
};

PageSums sums_of(const HtmlBlocks& page) {
  PageSums s;
  s.first_h1 = page.blocks.size();
  for (std::size_t i = 0; i < page.blocks.size(); ++i) {
    const HtmlBlock& b = page.blocks[i];
    s.chars += b.chars;
    s.link_chars += b.link_chars;
    if (b.words >= 15 && b.link_chars * 3 < b.chars) s.prose += b.chars;
    if (b.tag == Tag::kLi) s.list_chars += b.chars;
    if (b.tag == Tag::kTd || b.tag == Tag::kTh) s.table_chars += b.chars;
    if (b.tag == Tag::kH1 || b.tag == Tag::kH2 || b.tag == Tag::kH3) s.headings += 1;
    if (b.tag == Tag::kH1 && s.first_h1 == page.blocks.size()) s.first_h1 = i;
    ++s.texts[xxh3_64(b.text)];
  }
  return s;
}

class RowWriter {
 public:
  explicit RowWriter(std::vector<float>& out) : out_(out) {}
  void put(float value) { out_.push_back(value); }
  void put(double value) { out_.push_back(static_cast<float>(value)); }

 private:
  std::vector<float>& out_;
};

void put_own(const HtmlBlocks& page, std::size_t i, const TextShape& s, const PageSums& sums,
             double chars_before, RowWriter& row) {
  const HtmlBlock& b = page.blocks[i];
  const auto n = static_cast<double>(page.blocks.size());
  row.put(log_of(b.words));
  row.put(log_of(b.chars));
  row.put(share_of(b.link_chars, b.chars));
  row.put(share_of(s.chars - s.marks, std::max(1.0, s.words)));
  row.put(share_of(s.upper, s.chars));
  row.put(share_of(s.digits, s.chars));
  row.put(share_of(s.marks, s.chars));
  row.put(share_of(s.stops, std::max(1.0, s.words)));
  row.put(log_of(s.stops));
  row.put(log_of(s.commas));
  row.put(share_of(s.short_words, s.words));
  row.put(s.ends_sentence);
  row.put(s.starts_upper);
  row.put(s.has_colon_end);
  row.put(s.has_bar);
  row.put(s.has_copyright);
  row.put(tag_code(b.tag));
  row.put(static_cast<double>(i) / n);
  row.put(share_of(chars_before, sums.chars));
  row.put(static_cast<double>(i) - static_cast<double>(sums.first_h1));
  row.put(static_cast<float>(sums.texts.at(xxh3_64(b.text))));
  row.put(b.preformatted ? 1.0F : 0.0F);
}

void put_around(const Around& around, const PageSums& sums, RowWriter& row) {
  for (unsigned k = 0; k < kNumAround; ++k) row.put(around.kinds >> k & 1U ? 1.0F : 0.0F);
  for (unsigned g = 0; g < kNumWordGroups; ++g)
    row.put(around.near_groups >> g & 1U ? 2.0F : around.far_groups >> g & 1U ? 1.0F : 0.0F);
  for (std::size_t level = 0; level < kLevels; ++level) {
    const HtmlElement* e = around.containers.empty()
                               ? nullptr
                               : around.containers[std::min(level, around.containers.size() - 1)];
    row.put(e ? share_of(e->chars, sums.chars) : 0.0F);
    row.put(e ? share_of(e->link_chars, e->chars) : 0.0F);
    row.put(e ? share_of(e->prose_chars, sums.prose) : 0.0F);
    row.put(e ? log_of(e->end_block - e->first_block) : 0.0F);
    row.put(e ? log_of(e->repeats) : 0.0F);
  }
}

void put_side(const HtmlBlocks& page, std::ptrdiff_t i, Tag own, RowWriter& row) {
  if (i < 0 || i >= static_cast<std::ptrdiff_t>(page.blocks.size())) {
    for (std::size_t k = 0; k < kPerSide; ++k) row.put(-1.0F);
    return;
  }
  const HtmlBlock& b = page.blocks[static_cast<std::size_t>(i)];
  row.put(log_of(b.words));
  row.put(share_of(b.link_chars, b.chars));
  row.put(tag_code(b.tag));
  row.put(b.tag == own ? 1.0F : 0.0F);
  const char last = b.text.back();
  row.put(last == '.' || last == '!' || last == '?' ? 1.0F : 0.0F);
  row.put(log_of(page.elements[static_cast<std::size_t>(b.element)].depth));
}

void put_page(const HtmlBlocks& page, const PageSums& sums, const Around& around, RowWriter& row) {
  const HtmlHints& h = page.hints;
  row.put(log_of(sums.chars));
  row.put(log_of(static_cast<double>(page.blocks.size())));
  row.put(share_of(sums.link_chars, sums.chars));
  row.put(share_of(sums.prose, sums.chars));
  row.put(share_of(sums.list_chars, sums.chars));
  row.put(share_of(sums.table_chars, sums.chars));
  row.put(log_of(sums.headings));
  row.put(h.og_type == "article" ? 2.0F : h.og_type.empty() ? 0.0F : 1.0F);
  row.put(h.og_type.starts_with("product") ? 1.0F : 0.0F);
  row.put(h.schemas & 0x807U ? 1.0F : 0.0F);  // articles
  row.put(h.schemas & 0x008U ? 1.0F : 0.0F);  // product
  row.put(h.schemas & 0x030U ? 1.0F : 0.0F);  // forum, questions
  row.put(h.schemas & 0x140U ? 1.0F : 0.0F);  // lists
  row.put(static_cast<float>(h.url_depth));
  row.put(h.url_words & 0x003U    ? 1.0F
          : h.url_words & 0x201CU ? 2.0F
          : h.url_words & 0x00E0U ? 3.0F
          : h.url_words & 0x0700U ? 4.0F
                                  : 0.0F);
  row.put(around.most_repeats > 1 ? log_of(around.most_repeats) : 0.0F);
  row.put(static_cast<float>(around.containers.size()));
}

}  // namespace

std::size_t num_block_features() { return kFirst; }
std::size_t num_context_features() { return kFirst + kContext; }

std::vector<float> block_features(const HtmlBlocks& page) {
  std::vector<float> out;
  out.reserve(page.blocks.size() * kFirst);
  RowWriter row(out);
  const PageSums sums = sums_of(page);
  double chars_before = 0;
  for (std::size_t i = 0; i < page.blocks.size(); ++i) {
    const HtmlBlock& block = page.blocks[i];
    const Around around = around_of(page, block);
    put_own(page, i, shape_of(block.text), sums, chars_before, row);
    put_around(around, sums, row);
    for (const std::ptrdiff_t step : {-2, -1, 1, 2})
      put_side(page, static_cast<std::ptrdiff_t>(i) + step, block.tag, row);
    put_page(page, sums, around, row);
    chars_before += block.chars;
    SX_CHECK(out.size() == (i + 1) * kFirst, "a row of {} features", out.size() - i * kFirst);
  }
  return out;
}

std::vector<float> context_features(const HtmlBlocks& page, const std::vector<float>& first,
                                    const std::vector<double>& guess) {
  const std::size_t n = page.blocks.size();
  // Sums of guess x words, in front of each block, so that the mean over any range is a difference.
  std::vector<double> mass(n + 1);
  std::vector<double> words(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    const double w = page.blocks[i].words + 0.5;
    mass[i + 1] = mass[i] + guess[i] * w;
    words[i + 1] = words[i] + w;
  }
  const auto mean = [&](std::size_t begin, std::size_t end) {
    return end > begin ? (mass[end] - mass[begin]) / (words[end] - words[begin]) : 0.0;
  };
  std::vector<float> out;
  out.reserve(n * num_context_features());
  RowWriter row(out);
  for (std::size_t i = 0; i < n; ++i) {
    out.insert(out.end(), first.begin() + static_cast<std::ptrdiff_t>(i * kFirst),
               first.begin() + static_cast<std::ptrdiff_t>((i + 1) * kFirst));
    row.put(guess[i]);
    for (const std::ptrdiff_t step : {-3, -2, -1, 1, 2, 3}) {
      const std::ptrdiff_t k = static_cast<std::ptrdiff_t>(i) + step;
      row.put(k < 0 || k >= static_cast<std::ptrdiff_t>(n) ? -1.0
                                                           : guess[static_cast<std::size_t>(k)]);
    }
    row.put(mean(i >= 8 ? i - 8 : 0, i));
    row.put(mean(i + 1, std::min(n, i + 9)));
    row.put(mean(0, n));
    row.put(share_of(mass[i], mass[n]));
    const Around around = around_of(page, page.blocks[i]);
    for (std::size_t level = 0; level < 4; ++level) {
      const HtmlElement* e = around.containers.empty()
                                 ? nullptr
                                 : around.containers[std::min(level, around.containers.size() - 1)];
      row.put(e ? mean(e->first_block, e->end_block) : 0.0);
    }
    row.put(share_of(guess[i] * (page.blocks[i].words + 0.5), mass[n]));
    SX_CHECK(out.size() == (i + 1) * num_context_features(), "a row of {} features",
             out.size() - i * num_context_features());
  }
  return out;
}

}  // namespace sx
