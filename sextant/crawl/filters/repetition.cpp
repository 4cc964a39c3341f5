#include <unordered_map>
#include <unordered_set>

#include "sextant/base/hash.h"
#include "sextant/crawl/filters/rules.h"
#include "sextant/text/segment.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

/// Polynomial hash modulo 2^61 - 1, so that the hash of a concatenation comes from those of its
/// parts.
struct PolyHash {
  std::uint64_t value = 0;
  std::uint64_t power = 1;  // base ^ bytes

  static constexpr std::uint64_t kModulus = (std::uint64_t{1} << 61) - 1;
  static constexpr std::uint64_t kBase = 0x1B0F4B8C3D2A5E71 % kModulus;

  static std::uint64_t times(std::uint64_t a, std::uint64_t b) {
    const auto wide = static_cast<unsigned __int128>(a) * b;
    const std::uint64_t sum =
        static_cast<std::uint64_t>(wide & kModulus) + static_cast<std::uint64_t>(wide >> 61);
    return sum >= kModulus ? sum - kModulus : sum;
  }
  static PolyHash of(std::string_view bytes) {
    PolyHash out;
    for (const char c : bytes) {
      out.value = (times(out.value, kBase) + static_cast<unsigned char>(c) + 1) % kModulus;
      out.power = times(out.power, kBase);
    }
    return out;
  }
  PolyHash then(const PolyHash& next) const {
    PolyHash out;
    out.value = (times(value, next.power) + next.value) % kModulus;
    out.power = times(power, next.power);
    return out;
  }
};

struct HashedWord {
  PolyHash hash;
  std::size_t length;  // code points
};

std::vector<HashedWord> hash_words(const Pieces& words) {
  std::vector<HashedWord> out;
  out.reserve(words.size());
  for (const std::string_view word : words)
    out.push_back({PolyHash::of(word), count_code_points(word)});
  return out;
}

struct DuplicateCount {
  double pieces = 0, duplicates = 0, characters = 0;
};

/// Second and later copies.
DuplicateCount count_later_copies(const Pieces& pieces) {
  DuplicateCount out;
  std::unordered_set<std::uint64_t> seen;
  for (const std::string_view piece : pieces) {
    out.pieces += 1;
    if (seen.insert(xxh3_64(piece)).second) continue;
    out.duplicates += 1;
    out.characters += static_cast<double>(count_code_points(piece));
  }
  return out;
}

/// All copies of what occurs more than once.
DuplicateCount count_all_copies(const Pieces& pieces) {
  DuplicateCount out;
  std::unordered_map<std::uint64_t, std::size_t> times;
  for (const std::string_view piece : pieces) ++times[xxh3_64(piece)];
  for (const std::string_view piece : pieces) {
    out.pieces += 1;
    if (times[xxh3_64(piece)] < 2) continue;
    out.duplicates += 1;
    out.characters += static_cast<double>(count_code_points(piece));
  }
  return out;
}

/// Names of attributes, by n.
constexpr const char* kTopNames[] = {"", "", "top2_chars", "top3_chars", "top4_chars"};
constexpr const char* kDupNames[] = {"",           "",           "",           "",
                                     "",           "dup5_chars", "dup6_chars", "dup7_chars",
                                     "dup8_chars", "dup9_chars", "dup10_chars"};
constexpr const char* kAllNames[] = {"",           "",           "",           "",
                                     "",           "all5_chars", "all6_chars", "all7_chars",
                                     "all8_chars", "all9_chars", "all10_chars"};

/// Hash of every n-gram; `separated` puts a space between the words.
std::vector<std::uint64_t> ngram_hashes(const std::vector<HashedWord>& words, std::size_t n,
                                        bool separated) {
  static const PolyHash kSpace = PolyHash::of(" ");
  std::vector<std::uint64_t> out;
  if (words.size() < n) return out;
  out.reserve(words.size() - n + 1);
  for (std::size_t i = 0; i + n <= words.size(); ++i) {
    PolyHash hash = words[i].hash;
    for (std::size_t k = 1; k < n; ++k)
      hash = (separated ? hash.then(kSpace) : hash).then(words[i + k].hash);
    out.push_back(hash.value);
  }
  return out;
}

std::size_t ngram_length(const std::vector<HashedWord>& words, std::size_t begin, std::size_t n) {
  std::size_t length = 0;
  for (std::size_t k = 0; k < n; ++k) length += words[begin + k].length;
  return length;
}

struct TopNgram {
  std::size_t begin = 0, count = 0;
};

/// The most frequent n-gram; of several, the one seen first.
TopNgram top_ngram(const std::vector<std::uint64_t>& hashes) {
  struct Seen {
    std::size_t count = 0, begin = 0;
  };
  std::unordered_map<std::uint64_t, Seen> times;
  times.reserve(hashes.size());
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    Seen& seen = times[hashes[i]];
    if (seen.count++ == 0) seen.begin = i;
  }
  TopNgram best;
  for (const auto& [hash, seen] : times) {
    if (seen.count > best.count || (seen.count == best.count && seen.begin < best.begin))
      best = {seen.begin, seen.count};
  }
  return best;
}

/// Characters in repeats of n-grams, found from left to right without overlap.
double greedy_repeats(const std::vector<HashedWord>& words, std::size_t n) {
  const std::vector<std::uint64_t> hashes = ngram_hashes(words, n, false);
  std::unordered_set<std::uint64_t> seen;
  seen.reserve(hashes.size());
  double characters = 0;
  for (std::size_t i = 0; i < hashes.size();) {
    if (seen.insert(hashes[i]).second) {
      ++i;
    } else {
      characters += static_cast<double>(ngram_length(words, i, n));
      i += n;
    }
  }
  return characters;
}

void measure_repetition(const PolicyText& page, const Pieces& pieces, Attributes& out) {
  const auto set = [&](const DuplicateCount& count, const char* all, const char* duplicates,
                       const char* characters) {
    out.set(all, count.pieces);
    out.set(duplicates, count.duplicates);
    out.set(characters, count.characters);
  };
  out.set("chars", static_cast<double>(count_code_points(page.text)));
  set(count_later_copies(split_newline_runs(strip(page.text), 2)), "paragraphs", "dup_paragraphs",
      "dup_paragraph_chars");
  set(count_later_copies(split_newline_runs(page.text, 1)), "lines", "dup_lines", "dup_line_chars");
  const std::vector<HashedWord> words = hash_words(pieces);
  for (std::size_t n = 2; n <= 4; ++n) {
    const TopNgram top = top_ngram(ngram_hashes(words, n, true));
    const std::size_t length = top.count > 0 ? ngram_length(words, top.begin, n) + n - 1 : 0;
    out.set(kTopNames[n], static_cast<double>(length * top.count));
  }
  for (std::size_t n = 5; n <= 10; ++n) out.set(kDupNames[n], greedy_repeats(words, n));
}

}  // namespace

void measure_repetition_datatrove(const PolicyText& page, Attributes& out) {
  measure_repetition(page, split_spacy_english(page.text), out);
}

void measure_repetition_sextant(const PolicyText& page, Attributes& out) {
  measure_repetition(page, split_any_script(page.text), out);
}

void measure_repetition_dolma(const PolicyText& page, Attributes& out) {
  const std::vector<HashedWord> words = hash_words(split_words(page.text));
  double characters = 0;
  for (const HashedWord& word : words) characters += static_cast<double>(word.length);
  out.set("chars", characters);
  const DuplicateCount lines = count_all_copies(split_newlines(page.text));
  out.set("lines", lines.pieces);
  out.set("dup_lines", lines.duplicates);
  out.set("dup_line_chars", lines.characters);
  for (std::size_t n = 2; n <= 4; ++n) {
    const TopNgram top = top_ngram(ngram_hashes(words, n, true));
    const std::size_t length = top.count > 0 ? ngram_length(words, top.begin, n) : 0;
    out.set(kTopNames[n], static_cast<double>(length * top.count));
  }
  for (std::size_t n = 5; n <= 10; ++n) {
    const std::vector<std::uint64_t> hashes = ngram_hashes(words, n, true);
    std::unordered_map<std::uint64_t, std::size_t> times;
    for (const std::uint64_t hash : hashes) ++times[hash];
    double all = 0;
    double repeated = 0;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      const auto length = static_cast<double>(ngram_length(words, i, n));
      all += length;
      if (times[hashes[i]] > 1) repeated += length;
    }
    out.set(kAllNames[n], all);
    out.set(kDupNames[n], repeated);
  }
}

}  // namespace sx
