#include "sextant/crawl/extract/extraction_score.h"

#include <algorithm>
#include <unordered_map>

#include "sextant/text/unicode.h"

namespace sx {

namespace {

using Counts = std::unordered_map<std::string, double>;

/// Python's \w+.
std::vector<std::string_view> word_runs(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t begin = std::string_view::npos;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t at = pos;
    const char32_t c = next_code_point(text, pos);
    if (is_alnum(c) || c == '_') {
      if (begin == std::string_view::npos) begin = at;
    } else if (begin != std::string_view::npos) {
      out.push_back(text.substr(begin, at - begin));
      begin = std::string_view::npos;
    }
  }
  if (begin != std::string_view::npos) out.push_back(text.substr(begin));
  return out;
}

WordScore score_counts(const Counts& truth, const Counts& got) {
  double true_total = 0;
  double got_total = 0;
  double common = 0;
  for (const auto& [word, count] : truth) {
    true_total += count;
    const auto found = got.find(word);
    if (found != got.end()) common += std::min(count, found->second);
  }
  for (const auto& [word, count] : got) got_total += count;
  WordScore out;
  if (true_total == 0) {
    out.precision = out.recall = out.f1 = got_total == 0 ? 1 : 0;
    return out;
  }
  out.precision = got_total > 0 ? common / got_total : 0;
  out.recall = common / true_total;
  if (out.precision + out.recall > 0)
    out.f1 = 2 * out.precision * out.recall / (out.precision + out.recall);
  return out;
}

Counts word_counts(std::string_view text) {
  const std::string lower = lower_text(text);
  Counts out;
  for (const std::string_view word : word_runs(lower)) ++out[std::string(word)];
  return out;
}

Counts shingles_of(std::string_view text) {
  constexpr std::size_t kWords = 4;
  const auto words = word_runs(text);
  Counts out;
  const std::size_t count = words.size() >= kWords ? words.size() - kWords + 1 : 1;
  for (std::size_t i = 0; i < count; ++i) {
    std::string key;
    for (std::size_t k = i; k < std::min(i + kWords, words.size()); ++k) {
      key += words[k];
      key += '\n';
    }
    ++out[key];
  }
  return out;
}

bool is_ideograph(char32_t c) {
  return (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF);
}

Counts character_bigrams(std::string_view text) {
  Counts out;
  std::string before;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t at = pos;
    const char32_t c = next_code_point(text, pos);
    if (is_space(c)) continue;
    const std::string here(text.substr(at, pos - at));
    if (!before.empty()) ++out[before + here];
    before = here;
  }
  return out;
}

}  // namespace

WordScore word_score(std::string_view truth, std::string_view got) {
  return score_counts(word_counts(truth), word_counts(got));
}

ShingleCounts shingle_counts(std::string_view truth, std::string_view got) {
  const Counts want = shingles_of(truth);
  const Counts have = shingles_of(got);
  ShingleCounts out;
  for (const auto& [key, count] : want) {
    const auto found = have.find(key);
    const double other = found == have.end() ? 0 : found->second;
    out.tp += std::min(count, other);
    out.fn += std::max(0.0, count - other);
  }
  for (const auto& [key, count] : have) {
    const auto found = want.find(key);
    out.fp += std::max(0.0, count - (found == want.end() ? 0 : found->second));
  }
  const double sum = out.tp + out.fp + out.fn;
  if (sum > 0) {
    out.tp /= sum;
    out.fp /= sum;
    out.fn /= sum;
  }
  return out;
}

WordScore bigram_or_word_score(std::string_view truth, std::string_view got) {
  std::size_t ideographs = 0;
  std::size_t letters = 0;
  for (std::size_t pos = 0; pos < truth.size();) {
    const char32_t c = next_code_point(truth, pos);
    ideographs += is_ideograph(c) ? 1 : 0;
    letters += is_letter(c) ? 1 : 0;
  }
  if (2 * ideographs < letters) return word_score(truth, got);
  return score_counts(character_bigrams(truth), character_bigrams(got));
}

void ExtractionScore::add(const LabelledPage& page, std::string_view got) {
  if (page.set == "scrapinghub") {
    const ShingleCounts c = shingle_counts(page.truth, got);
    Shingles& sums = shingles_[page.set];
    ++sums.pages;
    if (c.tp + c.fp > 0) {
      sums.precision += c.tp / (c.tp + c.fp);
      ++sums.with_prediction;
    }
    if (c.tp + c.fn > 0) {
      sums.recall += c.tp / (c.tp + c.fn);
      ++sums.with_truth;
    }
    return;
  }
  if (page.set == "trafilatura") {
    Snippets& sums = snippets_[page.set];
    ++sums.pages;
    for (const std::string& s : page.with)
      ++(got.find(s) != std::string_view::npos ? sums.tp : sums.fn);
    for (const std::string& s : page.without)
      ++(got.find(s) != std::string_view::npos ? sums.fp : sums.tn);
    return;
  }
  const WordScore score = page.set == "magic-html" ? bigram_or_word_score(page.truth, got)
                                                   : word_score(page.truth, got);
  for (const std::string& name : {page.set, page.set + "/" + page.kind}) {
    Sums& sums = words_[name];
    sums.precision += score.precision;
    sums.recall += score.recall;
    sums.f1 += score.f1;
    ++sums.pages;
  }
}

std::vector<ExtractionScore::Line> ExtractionScore::lines() const {
  std::vector<Line> out;
  for (const auto& [name, s] : shingles_) {
    Line line{name, "F1 of mean precision and recall, 4-gram shingles", 0, 0, 0, s.pages};
    line.precision = s.precision / std::max<double>(1, static_cast<double>(s.with_prediction));
    line.recall = s.recall / std::max<double>(1, static_cast<double>(s.with_truth));
    line.score = 2 * line.precision * line.recall / std::max(1e-9, line.precision + line.recall);
    out.push_back(line);
  }
  for (const auto& [name, s] : snippets_) {
    Line line{name, "F over snippets", 0, 0, 0, s.pages};
    line.precision = s.tp / std::max(1.0, s.tp + s.fp);
    line.recall = s.tp / std::max(1.0, s.tp + s.fn);
    line.score = 2 * line.precision * line.recall / std::max(1e-9, line.precision + line.recall);
    out.push_back(line);
  }
  for (const auto& [name, s] : words_) {
    const auto n = static_cast<double>(s.pages);
    out.push_back(
        {name, name.starts_with("magic") ? "mean F1, character bigrams or words" : "mean word F1",
         s.precision / n, s.recall / n, s.f1 / n, s.pages});
  }
  return out;
}

}  // namespace sx
