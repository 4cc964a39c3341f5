#include "sextant/text/charset_detector.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "sextant/text/decoder.h"
#include "sextant/text/encoding.h"
#include "sextant/text/unicode.h"
#include "sextant/text/utf8.h"

namespace sx {

namespace {

// Costs are in eighths of a nat, as in the tables.
constexpr int kErrorCost = 112;
constexpr int kControlCost = 100;
constexpr int kForeignLetterCost = 80;
constexpr int kUsualSignCost = 36;
constexpr int kOddSignCost = 64;
constexpr int kCaseFlipCost = 40;
constexpr int kOwnClasses = 29;

struct Alphabet {
  std::string_view language;
  std::u16string_view letters;
  std::string_view costs;  // (29 + letters)^2 printable characters, row = class before
};
struct CharacterGroup {
  int cost;
  std::u16string_view characters;
};
struct Characters {
  std::string_view language;
  std::vector<CharacterGroup> groups;
};

const std::vector<Alphabet>& alphabets() {
#define SX_ALPHABET(language, letters, ...) {language, letters, __VA_ARGS__},
#define SX_CHARACTERS(language, ...)
#define SX_GROUP(cost, characters) {cost, characters},
  static const std::vector<Alphabet> kAlphabets = {
#include "sextant/text/gen/charset_model.inc"
  };
#undef SX_ALPHABET
#undef SX_CHARACTERS
  return kAlphabets;
}

const std::vector<Characters>& character_sets() {
#define SX_ALPHABET(language, letters, ...)
#define SX_CHARACTERS(language, ...) {language, {__VA_ARGS__}},
  static const std::vector<Characters> kCharacters = {
#include "sextant/text/gen/charset_model.inc"
  };
#undef SX_ALPHABET
#undef SX_CHARACTERS
#undef SX_GROUP
  return kCharacters;
}

/// An encoding of single bytes with the languages written in it, and what is asked of it beyond
/// windows-1252: the rarer on the web, the more.
struct SingleByte {
  const char* encoding;
  const char* languages;
  int prior;
};
constexpr SingleByte kSingleByte[] = {
    {"windows-1252", "da de en es et fi fr is it nb nl pt sv", 0},
    {"windows-1250", "cs hr hu pl ro sk sl sq", 48},
    {"windows-1251", "bg mk ru sr uk", 48},
    {"windows-1253", "el", 48},
    {"windows-1254", "tr", 48},
    {"windows-1255", "he", 48},
    {"windows-1256", "ar fa", 48},
    {"windows-1257", "lt lv et", 48},
    {"windows-1258", "vi", 64},
    {"windows-874", "th", 48},
    {"ISO-8859-2", "cs hr hu pl ro sk sl sq", 52},
    {"ISO-8859-4", "lt lv et", 72},
    {"ISO-8859-5", "bg mk ru sr uk", 64},
    {"ISO-8859-6", "ar", 64},
    {"ISO-8859-7", "el", 52},
    {"ISO-8859-8", "he", 64},
    {"ISO-8859-10", "is", 80},
    {"ISO-8859-13", "lt lv et", 72},
    {"ISO-8859-15", "fr fi", 56},
    {"ISO-8859-16", "ro", 72},
    {"KOI8-R", "ru bg", 56},
    {"KOI8-U", "uk", 64},
    {"IBM866", "ru bg uk", 64},
    {"x-mac-cyrillic", "bg mk ru sr uk", 72},
    {"macintosh", "da de es fr it pt sv", 72},
    {"IBM855", "ru bg sr", 80},
};

struct MultiByte {
  const char* encoding;
  const char* language;
};
constexpr MultiByte kMultiByte[] = {{"gb18030", "zh"}, {"Big5", "zh-Hant"}, {"Shift_JIS", "ja"},
                                    {"EUC-JP", "ja"},  {"EUC-KR", "ko"},    {"EUC-TW", "zh-Hant"},
                                    {"Johab", "ko"}};
constexpr int kMultiBytePrior = 48;

/// Language a country's pages are likely in.
struct TldLanguage {
  const char* tld;
  const char* language;
};
constexpr TldLanguage kTldLanguages[] = {
    {"bg", "bg"}, {"cz", "cs"}, {"hr", "hr"}, {"hu", "hu"}, {"pl", "pl"},      {"ro", "ro"},
    {"sk", "sk"}, {"si", "sl"}, {"ru", "ru"}, {"su", "ru"}, {"by", "ru"},      {"ua", "uk"},
    {"rs", "sr"}, {"mk", "mk"}, {"gr", "el"}, {"tr", "tr"}, {"il", "he"},      {"ir", "fa"},
    {"sa", "ar"}, {"eg", "ar"}, {"lt", "lt"}, {"lv", "lv"}, {"ee", "et"},      {"vn", "vi"},
    {"th", "th"}, {"jp", "ja"}, {"kr", "ko"}, {"cn", "zh"}, {"tw", "zh-Hant"}, {"hk", "zh-Hant"},
    {"is", "is"}, {"al", "sq"}};
constexpr int kTldBonus = 32;

bool is_usual_sign(char32_t c) {
  static constexpr std::u32string_view kSigns = U"“”‘’„‚–—…•«»°©®·№€™§\u00A0\u00AD‹›¿¡½¼¾£×′″";
  return kSigns.find(c) != std::u32string_view::npos;
}

bool names(std::string_view list, std::string_view word) {
  for (std::size_t pos = 0; (pos = list.find(word, pos)) != std::string_view::npos; ++pos) {
    const std::size_t end = pos + word.size();
    if ((pos == 0 || list[pos - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

/// How often each pair of neighbouring bytes occurs, where one of the two is beyond ASCII.
struct PairCount {
  struct Cell {
    unsigned char before, here;
    std::uint32_t count;
  };
  std::vector<Cell> cells;
  std::uint64_t high_bytes = 0;

  explicit PairCount(std::string_view bytes) {
    std::vector<std::uint32_t> table(65536);
    unsigned before = ' ';
    for (const char raw : bytes) {
      const unsigned here = static_cast<unsigned char>(raw);
      ++table[before << 8 | here];
      high_bytes += here >> 7;
      before = here;
    }
    ++table[before << 8 | ' '];
    for (unsigned pair = 0; pair < 65536; ++pair) {
      if (table[pair] == 0 || (pair & 0x8080) == 0) continue;
      cells.push_back(
          {static_cast<unsigned char>(pair >> 8), static_cast<unsigned char>(pair), table[pair]});
    }
  }
};

/// What each byte means under one encoding and one alphabet.
struct ByteMeaning {
  int letter_class = 0;
  int fixed_cost = 0;  // of a byte that is no letter of the language
  char letter_case = 0;
};
using Meanings = std::array<ByteMeaning, 256>;

Meanings meanings_of(const std::array<char32_t, 128>& high, const Alphabet& alphabet) {
  Meanings out;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    ByteMeaning& m = out[byte];
    const auto c = byte < 128 ? static_cast<char32_t>(byte) : high[byte - 128];
    if (c >= 0x110000) {
      m.letter_class = 28;
      m.fixed_cost = kErrorCost;
      continue;
    }
    const char32_t low = lower_code_point(c);
    if (low != c)
      m.letter_case = 'U';
    else if (is_lower(c))
      m.letter_case = 'l';
    if (low >= 'a' && low <= 'z') {
      m.letter_class = static_cast<int>(low - 'a') + 1;
    } else if (c >= 0x80) {
      const std::size_t own = alphabet.letters.find(static_cast<char16_t>(low));
      if (own != std::u16string_view::npos) {
        m.letter_class = kOwnClasses + static_cast<int>(own);
      } else if (c < 0xA0) {
        m.letter_class = 27;
        m.fixed_cost = kControlCost;
      } else if (is_letter_or_mark(c)) {
        m.letter_class = 28;
        m.fixed_cost = kForeignLetterCost;
      } else {
        m.letter_class = 27;
        m.fixed_cost = is_usual_sign(c) ? kUsualSignCost : kOddSignCost;
      }
    }
  }
  return out;
}

std::int64_t cost_of(const PairCount& pairs, const Meanings& meanings, const Alphabet& alphabet) {
  const std::size_t size = kOwnClasses + alphabet.letters.size();
  const auto table = [&](int before, int here) {
    return alphabet
               .costs[static_cast<std::size_t>(before) * size + static_cast<std::size_t>(here)] -
           '!';
  };
  std::int64_t total = 0;
  for (const PairCount::Cell& cell : pairs.cells) {
    const ByteMeaning& before = meanings[cell.before];
    const ByteMeaning& here = meanings[cell.here];
    int cost = 0;
    if (here.fixed_cost > 0)
      cost = here.fixed_cost;
    else if (before.fixed_cost > 0)
      cost = cell.here < 0x80 ? 0 : table(0, here.letter_class);
    else
      cost = table(before.letter_class, here.letter_class);
    if (before.letter_case == 'l' && here.letter_case == 'U') cost += kCaseFlipCost;
    total += static_cast<std::int64_t>(cost) * cell.count;
  }
  return total;
}

std::array<char32_t, 128> high_half(std::string_view encoding) {
  std::string bytes;
  for (int byte = 0x80; byte < 0x100; ++byte) bytes += static_cast<char>(byte);
  const std::string text = decode_bytes(bytes, encoding).text;
  std::array<char32_t, 128> out;
  std::size_t pos = 0;
  for (char32_t& c : out) {
    c = next_code_point(text, pos);
    if (c == 0xFFFD) c = 0x110000;
  }
  return out;
}

/// Cost of each character of the Basic Multilingual Plane in a language of many characters.
using CharacterCosts = std::vector<unsigned char>;

void set_rows(CharacterCosts& costs, const char* encoding, unsigned lead_from, unsigned lead_to,
              unsigned trail_from, int cost) {
  for (unsigned lead = lead_from; lead <= lead_to; ++lead) {
    for (unsigned trail = trail_from; trail <= 0xFE; ++trail) {
      const char bytes[2] = {static_cast<char>(lead), static_cast<char>(trail)};
      const DecodedText decoded = decode_bytes({bytes, 2}, encoding);
      std::size_t pos = 0;
      const char32_t c = next_code_point(decoded.text, pos);
      if (decoded.replaced == 0 && pos == decoded.text.size() && c < 65536)
        costs[c] = static_cast<unsigned char>(cost);
    }
  }
}

void set_known(CharacterCosts& costs, std::string_view language, int more) {
  for (const Characters& set : character_sets()) {
    if (set.language != language) continue;
    for (const CharacterGroup& group : set.groups) {
      for (const char16_t c : group.characters)
        costs[c] = static_cast<unsigned char>(std::min<int>(costs[c], group.cost + more));
    }
  }
}

/// National standards put usual characters into their first rows: the prior of those that the
/// sentences do not hold.
CharacterCosts make_costs(std::string_view language) {
  if (language == "ko") {
    CharacterCosts costs(65536, 110);
    std::fill(costs.begin() + 0xAC00, costs.begin() + 0xD7A4, 100);
    set_rows(costs, "EUC-KR", 0xA1, 0xFD, 0xA1, 96);
    set_rows(costs, "EUC-KR", 0xB0, 0xC8, 0xA1, 80);
    set_known(costs, "ko", 0);
    return costs;
  }
  CharacterCosts costs(65536, 104);
  if (language == "zh") {
    set_rows(costs, "gb18030", 0xA1, 0xAF, 0xA1, 80);
    set_rows(costs, "gb18030", 0xB0, 0xD7, 0xA1, 72);
    set_rows(costs, "gb18030", 0xD8, 0xF7, 0xA1, 92);
    set_known(costs, "zh", 0);
  } else if (language == "zh-Hant") {
    set_rows(costs, "Big5", 0xC9, 0xF9, 0x40, 92);
    set_rows(costs, "Big5", 0xA4, 0xC6, 0x40, 72);
    set_rows(costs, "Big5", 0xA1, 0xA3, 0x40, 64);
    for (std::size_t c = 0; c < costs.size(); ++c) {
      if (costs[c] == 104) costs[c] = 105;  // no character of Big5: the sentences say nothing of it
    }
    CharacterCosts known = costs;
    set_known(known, "zh", 4);
    for (std::size_t c = 0; c < costs.size(); ++c) {
      if (costs[c] != 105) costs[c] = known[c];
    }
  } else {
    set_rows(costs, "Shift_JIS", 0x98, 0xEA, 0x40, 96);
    set_rows(costs, "Shift_JIS", 0x88, 0x97, 0x40, 80);
    set_rows(costs, "Shift_JIS", 0x81, 0x87, 0x40, 72);
    std::fill(costs.begin() + 0xFF61, costs.begin() + 0xFFA0, 60);
    set_known(costs, "ja", 0);
  }
  return costs;
}

const CharacterCosts& character_costs(std::string_view language) {
  static const CharacterCosts kHans = make_costs("zh");
  static const CharacterCosts kHant = make_costs("zh-Hant");
  static const CharacterCosts kJapanese = make_costs("ja");
  static const CharacterCosts kKorean = make_costs("ko");
  if (language == "zh") return kHans;
  if (language == "zh-Hant") return kHant;
  return language == "ja" ? kJapanese : kKorean;
}

std::int64_t cost_of(const DecodedText& decoded, std::string_view language) {
  const CharacterCosts& costs = character_costs(language);
  std::int64_t total = 0;
  for (std::size_t pos = 0; pos < decoded.text.size();) {
    const char32_t c = next_code_point(decoded.text, pos);
    if (c >= 0x80) total += c < 65536 ? costs[c] : 110;
  }
  return total + static_cast<std::int64_t>(decoded.replaced) * (kErrorCost - costs[0xFFFD]);
}

struct Candidate {
  std::int64_t cost;
  std::string_view encoding;
  std::string_view language;
};

void add_single_byte(const PairCount& pairs, const DetectOptions& options,
                     std::vector<Candidate>& out) {
  for (const SingleByte& candidate : kSingleByte) {
    if (is_extra_encoding(candidate.encoding) && !options.extra) continue;
    const auto high = high_half(candidate.encoding);
    for (const Alphabet& alphabet : alphabets()) {
      if (!names(candidate.languages, alphabet.language)) continue;
      out.push_back({cost_of(pairs, meanings_of(high, alphabet), alphabet) + candidate.prior,
                     candidate.encoding, alphabet.language});
    }
  }
}

void add_multi_byte(std::string_view bytes, const DetectOptions& options,
                    std::vector<Candidate>& out) {
  for (const MultiByte& candidate : kMultiByte) {
    if (is_extra_encoding(candidate.encoding) && !options.extra) continue;
    const DecodedText decoded = decode_bytes(bytes, candidate.encoding);
    if (decoded.replaced * 20 > bytes.size()) continue;
    out.push_back({cost_of(decoded, candidate.language) + kMultiBytePrior, candidate.encoding,
                   candidate.language});
  }
}

/// Unicode without a mark shows in where its zero bytes stand.
std::optional<std::string_view> zero_pattern(std::string_view bytes, bool extra) {
  const std::string_view head = bytes.substr(0, std::size_t{64} << 10);
  std::array<std::size_t, 4> zeros{};
  for (std::size_t i = 0; i < head.size(); ++i) zeros[i % 4] += head[i] == '\0' ? 1 : 0;
  const std::size_t quarter = head.size() / 4;
  if (quarter == 0) return std::nullopt;
  const auto most = [&](std::size_t i) { return zeros[i] * 10 >= quarter * 9; };
  if (extra && most(3) && most(2) && !most(0)) return "UTF-32LE";
  if (extra && most(0) && most(1) && !most(3)) return "UTF-32BE";
  const std::size_t even = zeros[0] + zeros[2];
  const std::size_t odd = zeros[1] + zeros[3];
  if (odd * 50 > quarter && odd > 20 * even) return "UTF-16LE";
  if (even * 50 > quarter && even > 20 * odd) return "UTF-16BE";
  return std::nullopt;
}

std::optional<std::string_view> escape_encoding(std::string_view bytes, bool extra) {
  if (bytes.find('\x1B') == std::string_view::npos) return std::nullopt;
  const auto holds = [&](std::string_view sequence) {
    return bytes.find(sequence) != std::string_view::npos;
  };
  if (extra && holds("\x1B$)C")) return "ISO-2022-KR";
  if (holds("\x1B$B") || holds("\x1B$@") || holds("\x1B(J") || holds("\x1B(I"))
    return "ISO-2022-JP";
  return std::nullopt;
}

double confidence_of(const std::vector<Candidate>& sorted, std::string_view bytes) {
  const std::string best =
      decode_bytes(bytes.substr(0, std::size_t{64} << 10), sorted[0].encoding).text;
  for (std::size_t i = 1; i < sorted.size() && i < 12; ++i) {
    if (sorted[i].encoding == sorted[0].encoding) continue;
    if (decode_bytes(bytes.substr(0, std::size_t{64} << 10), sorted[i].encoding).text == best)
      continue;
    return 1 - std::exp(-static_cast<double>(sorted[i].cost - sorted[0].cost) / 64);
  }
  return 1;
}

}  // namespace

std::optional<CharsetGuess> detect_charset(std::string_view bytes, const DetectOptions& options) {
  const auto certain = [&](std::string_view encoding) -> std::optional<CharsetGuess> {
    if (decode_bytes(bytes, encoding).replaced > 0) return std::nullopt;
    return CharsetGuess{encoding, "", 1, 0};
  };
  if (const auto wide = zero_pattern(bytes, options.extra)) {
    if (const auto guess = certain(*wide)) return guess;
  }
  if (const auto escaped = escape_encoding(bytes, options.extra)) {
    if (const auto guess = certain(*escaped)) return guess;
  }
  const PairCount pairs(bytes);
  if (pairs.high_bytes == 0) return std::nullopt;
  if (!options.legacy_only && is_valid_utf8(bytes)) return CharsetGuess{kUtf8, "", 1, 0};
  std::vector<Candidate> candidates;
  add_single_byte(pairs, options, candidates);
  add_multi_byte(bytes, options, candidates);
  for (const TldLanguage& known : kTldLanguages) {
    if (known.tld != options.tld) continue;
    for (Candidate& candidate : candidates)
      candidate.cost -= candidate.language == known.language ? kTldBonus : 0;
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
  const Candidate& best = candidates.front();
  return CharsetGuess{best.encoding, best.language, confidence_of(candidates, bytes),
                      static_cast<double>(best.cost) / 8 / static_cast<double>(pairs.high_bytes)};
}

}  // namespace sx
