#include "sextant/crawl/policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "sextant/crawl/filters/rules.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

using Tests = std::vector<RuleTest>;

Tests gopher_tests(const char* count, const char* characters, double max_words = 100000) {
  return {{Reason::kGopherShort, count, nullptr, '<', "min_words", 50},
          {Reason::kGopherLong, count, nullptr, '>', "max_words", max_words},
          {Reason::kGopherMeanLow, characters, count, '<', "min_mean_length", 3},
          {Reason::kGopherMeanHigh, characters, count, '>', "max_mean_length", 10}};
}

void add_line_tests(Tests& tests, const char* lines = "lines") {
  tests.push_back({Reason::kGopherBullets, "bullet_lines", lines, '>', "max_bullet_lines", 0.9});
  tests.push_back(
      {Reason::kGopherEllipsisLines, "ellipsis_lines", lines, '>', "max_ellipsis_lines", 0.3});
}

void add_hash_tests(Tests& tests) {
  tests.push_back({Reason::kGopherHashes, "hashes", "words", '>', "max_hashes", 0.1});
  tests.push_back({Reason::kGopherEllipses, "ellipses", "words", '>', "max_ellipses", 0.1});
}

void add_word_tests(Tests& tests) {
  tests.push_back({Reason::kGopherAlpha, "alpha_words", "words", '<', "min_alpha_words", 0.8});
  tests.push_back({Reason::kGopherStopWords, "stop_words", nullptr, '<', "min_stop_words", 2});
}

Tests gopher_paper() {
  Tests tests = gopher_tests("words", "word_chars");
  add_hash_tests(tests);
  add_line_tests(tests);
  add_word_tests(tests);
  return tests;
}

Tests gopher_datatrove() {
  Tests tests = gopher_tests("non_symbol_words", "non_symbol_chars");
  add_hash_tests(tests);
  add_line_tests(tests);
  add_word_tests(tests);
  return tests;
}

Tests gopher_dclm() {
  return {{Reason::kGopherShort, "counted_words", nullptr, '<', "min_words", 50},
          {Reason::kGopherLong, "counted_words", nullptr, '>', "max_words", 100000},
          {Reason::kGopherMeanLow, "word_chars", "words", '<', "min_mean_length", 3},
          {Reason::kGopherMeanHigh, "word_chars", "words", '>', "max_mean_length", 10},
          {Reason::kGopherSymbols, "symbols", "words", '>', "max_symbols", 0.1},
          {Reason::kGopherBullets, "bullet_lines", "lines", '>', "max_bullet_lines", 0.9},
          {Reason::kGopherEllipsisLines, "ellipsis_lines", "lines", '>', "max_ellipsis_lines", 0.3},
          {Reason::kGopherAlpha, "non_alpha_words", "words", '>', "max_non_alpha_words", 0.2},
          {Reason::kGopherStopWords, "stop_words", nullptr, '<', "min_stop_words", 2}};
}

Tests gopher_dolma() {
  Tests tests = {
      {Reason::kGopherShort, "words", nullptr, '<', "min_words", 50},
      {Reason::kGopherLong, "words", nullptr, '>', "max_words", 100000},
      {Reason::kGopherMeanLow, "median_word_length", nullptr, '<', "min_median_length", 3},
      {Reason::kGopherMeanHigh, "median_word_length", nullptr, '>', "max_median_length", 10},
      {Reason::kGopherSymbols, "symbol_words", "words", '>', "max_symbols", 0.1}};
  add_line_tests(tests);
  add_word_tests(tests);
  return tests;
}

Tests gopher_cs336() {
  Tests tests = gopher_tests("words", "word_chars");
  tests.push_back(
      {Reason::kGopherEllipsisLines, "ellipsis_lines", "lines", '>', "max_ellipsis_lines", 0.3});
  tests.push_back({Reason::kGopherAlpha, "alpha_words", "words", '<', "min_alpha_words", 0.8});
  return tests;
}

Tests gopher_sextant() {
  Tests tests = {{Reason::kGopherShort, "words", nullptr, '<', "min_words", 50},
                 {Reason::kGopherLong, "words", nullptr, '>', "max_words", 200000},
                 {Reason::kGopherMeanLow, "mean_chars", "mean_words", '<', "min_mean_length", 3},
                 {Reason::kGopherMeanHigh, "mean_chars", "mean_words", '>', "max_mean_length", 10}};
  add_hash_tests(tests);
  add_line_tests(tests);
  add_word_tests(tests);
  return tests;
}

void add_ngram_tests(Tests& tests, const char* const (&all)[6]) {
  tests.push_back({Reason::kRepTop2, "top2_chars", "chars", '>', "max_top2", 0.20});
  tests.push_back({Reason::kRepTop3, "top3_chars", "chars", '>', "max_top3", 0.18});
  tests.push_back({Reason::kRepTop4, "top4_chars", "chars", '>', "max_top4", 0.16});
  tests.push_back({Reason::kRepDup5, "dup5_chars", all[0], '>', "max_dup5", 0.15});
  tests.push_back({Reason::kRepDup6, "dup6_chars", all[1], '>', "max_dup6", 0.14});
  tests.push_back({Reason::kRepDup7, "dup7_chars", all[2], '>', "max_dup7", 0.13});
  tests.push_back({Reason::kRepDup8, "dup8_chars", all[3], '>', "max_dup8", 0.12});
  tests.push_back({Reason::kRepDup9, "dup9_chars", all[4], '>', "max_dup9", 0.11});
  tests.push_back({Reason::kRepDup10, "dup10_chars", all[5], '>', "max_dup10", 0.10});
}

Tests repetition_datatrove() {
  Tests tests = {
      {Reason::kRepPara, "dup_paragraphs", "paragraphs", '>', "max_paragraphs", 0.3},
      {Reason::kRepParaChar, "dup_paragraph_chars", "chars", '>', "max_paragraph_chars", 0.2},
      {Reason::kRepLine, "dup_lines", "lines", '>', "max_lines", 0.3},
      {Reason::kRepLineChar, "dup_line_chars", "chars", '>', "max_line_chars", 0.2}};
  add_ngram_tests(tests, {"chars", "chars", "chars", "chars", "chars", "chars"});
  return tests;
}

Tests repetition_dolma() {
  Tests tests = {{Reason::kRepLine, "dup_lines", "lines", '>', "max_lines", 0.3},
                 {Reason::kRepLineChar, "dup_line_chars", "chars", '>', "max_line_chars", 0.2}};
  add_ngram_tests(
      tests, {"all5_chars", "all6_chars", "all7_chars", "all8_chars", "all9_chars", "all10_chars"});
  return tests;
}

Tests c4_tests() {
  return {{Reason::kC4LoremIpsum, "lorem_ipsum", nullptr, '>', "max_lorem_ipsum", 0},
          {Reason::kC4Curly, "curly", nullptr, '>', "max_curly", 0},
          {Reason::kC4FewSentences, "sentences", nullptr, '<', "min_sentences", 5}};
}

Tests c4_dolma_tests() {
  return {{Reason::kC4LoremIpsum, "lorem_ipsum", nullptr, '>', "max_lorem_ipsum", 0},
          {Reason::kC4Curly, "curly", nullptr, '>', "max_curly", 0},
          {Reason::kC4LineEnds, "lines_without_end", "lines", '>', "max_lines_without_end", 0.5}};
}

Tests c4_paragraph_tests() {
  return {{Reason::kC4Paragraphs, "lines", nullptr, '<', "min_lines", 3},
          {Reason::kC4Paragraphs, "third_longest_line", nullptr, '<', "min_line_length", 200}};
}

Tests fineweb_tests() {
  return {
      {Reason::kFinewebEmpty, "lines", nullptr, '<', "min_lines", 1},
      {Reason::kFinewebLinePunct, "punctuated_lines", "lines", '<', "min_punctuated_lines", 0.12},
      {Reason::kFinewebShortLines, "short_lines", "lines", '>', "max_short_lines", 0.67},
      {Reason::kFinewebCharDup, "duplicate_line_chars", "line_chars", '>', "max_duplicate_chars",
       0.01},
      {Reason::kFinewebNewlines, "newlines", "words", '>', "max_newlines", 0.3}};
}

Tests refinedweb_tests() {
  return {{Reason::kRwEditedShare, "removed_words", "words", '>', "max_removed_words", 0.05},
          {Reason::kRwEmpty, "words_left", nullptr, '<', "min_words_left", 1}};
}

RulePreset measured(const char* rule, const char* preset, const char* source, Fidelity fidelity,
                    void (*measure)(const PolicyText&, Attributes&), Tests tests) {
  return {rule, preset, source, fidelity, measure, nullptr, std::move(tests)};
}
RulePreset edited(const char* rule, const char* preset, const char* source, Fidelity fidelity,
                  std::string (*edit)(const PolicyText&, Attributes&, std::uint64_t&),
                  Tests tests) {
  return {rule, preset, source, fidelity, nullptr, edit, std::move(tests)};
}

const RulePreset* find_preset(std::string_view rule, std::string_view preset) {
  for (const RulePreset& known : rule_presets()) {
    if (rule == known.rule && preset == known.preset) return &known;
  }
  return nullptr;
}

Error policy_error(const std::string& what, const std::string& known) {
  return {ErrorKind::kInvalid, what + "; " + known, "crawl.policy"};
}

std::string known_steps() {
  std::string out;
  for (const RulePreset& known : rule_presets())
    out += fmt::format("{}{}:{}", out.empty() ? "" : ", ", known.rule, known.preset);
  return out;
}

Result<void> set_threshold(PolicyStep& step, std::string_view setting) {
  const std::size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : setting.substr(equals + 1);
  double number = std::nan("");
  if (value != "off") {
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (code != std::errc() || end != value.data() + value.size() || value.empty())
      return policy_error(fmt::format("\"{}\" is no threshold", setting),
                          "name=number, or name=off");
  }
  bool found = false;
  std::string names;
  for (std::size_t i = 0; i < step.preset->tests.size(); ++i) {
    const char* known = step.preset->tests[i].threshold;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known);
    if (name != known) continue;
    step.thresholds[i] = number;
    found = true;
  }
  if (!found)
    return policy_error(
        fmt::format("{}:{} has no threshold \"{}\"", step.preset->rule, step.preset->preset, name),
        "it has " + names);
  return {};
}

Result<PolicyStep> parse_step(std::string_view word) {
  const std::size_t brace = word.find('{');
  const std::string_view name = word.substr(0, brace);
  const std::size_t colon = name.find(':');
  PolicyStep step;
  if (colon != std::string_view::npos)
    step.preset = find_preset(name.substr(0, colon), name.substr(colon + 1));
  if (step.preset == nullptr)
    return policy_error(fmt::format("no rule is named \"{}\"", name), "rules: " + known_steps());
  for (const RuleTest& test : step.preset->tests) step.thresholds.push_back(test.value);
  if (brace == std::string_view::npos) return step;
  std::string_view settings = word.substr(brace + 1);
  if (!settings.ends_with('}'))
    return policy_error(fmt::format("\"{}\" has no closing brace", word),
                        "rule:preset{name=number,name=off}");
  settings.remove_suffix(1);
  while (!settings.empty()) {
    const std::size_t comma = settings.find(',');
    SX_TRY_VOID(set_threshold(step, settings.substr(0, comma)));
    settings = comma == std::string_view::npos ? std::string_view() : settings.substr(comma + 1);
  }
  return step;
}

Verdict judge(const PolicyStep& step, const Attributes& attributes) {
  for (std::size_t i = 0; i < step.preset->tests.size(); ++i) {
    const RuleTest& test = step.preset->tests[i];
    const double threshold = step.thresholds[i];
    double value = attributes.get(test.count);
    if (test.per != nullptr) {
      const double per = attributes.get(test.per);
      value = per == 0 ? 0 : value / per;
    }
    if (test.drops == '<' ? value < threshold : value > threshold)
      return Verdict::drop(test.reason, fmt::format("{:.4g} {} {}", value, test.drops, threshold));
  }
  return Verdict::keep();
}

}  // namespace

std::span<const RulePreset> rule_presets() {
  static constexpr const char* kGopher = "arXiv 2112.11446, A.1";
  static constexpr const char* kDatatrove = "huggingface/datatrove 0.10";
  static constexpr const char* kDolma = "allenai/dolma 1.2";
  static constexpr const char* kDclm = "mlfoundations/dclm";
  static const std::vector<RulePreset> kPresets = {
      measured("gopher.quality", "gopher-paper", kGopher, Fidelity::kOwn, measure_gopher_paper,
               gopher_paper()),
      measured("gopher.quality", "datatrove", kDatatrove, Fidelity::kMeasured,
               measure_gopher_datatrove, gopher_datatrove()),
      measured("gopher.quality", "dclm", kDclm, Fidelity::kOwn, measure_gopher_dclm, gopher_dclm()),
      measured("gopher.quality", "dolma", kDolma, Fidelity::kExact, measure_gopher_dolma,
               gopher_dolma()),
      measured("gopher.quality", "cs336", "CS336 assignment 4", Fidelity::kExact,
               measure_gopher_cs336, gopher_cs336()),
      measured("gopher.quality", "sextant", kGopher, Fidelity::kOwn, measure_gopher_sextant,
               gopher_sextant()),
      measured("gopher.repetition", "datatrove", kDatatrove, Fidelity::kMeasured,
               measure_repetition_datatrove, repetition_datatrove()),
      measured("gopher.repetition", "dolma", kDolma, Fidelity::kExact, measure_repetition_dolma,
               repetition_dolma()),
      measured("gopher.repetition", "sextant", kGopher, Fidelity::kOwn, measure_repetition_sextant,
               repetition_datatrove()),
      edited("c4", "datatrove", kDatatrove, Fidelity::kMeasured, edit_c4_datatrove, c4_tests()),
      edited("c4", "fineweb", kDatatrove, Fidelity::kMeasured, edit_c4_fineweb, c4_tests()),
      measured("c4", "dolma", kDolma, Fidelity::kOwn, measure_c4_dolma, c4_dolma_tests()),
      measured("c4.paragraphs", "datatrove", kDatatrove, Fidelity::kExact, measure_c4_paragraphs,
               c4_paragraph_tests()),
      measured("fineweb", "datatrove", kDatatrove, Fidelity::kMeasured, measure_fineweb,
               fineweb_tests()),
      measured("fineweb", "sextant", "arXiv 2406.17557", Fidelity::kOwn, measure_fineweb_any_script,
               fineweb_tests()),
      edited("refinedweb", "dclm", kDclm, Fidelity::kOwn, edit_refinedweb, refinedweb_tests())};
  return kPresets;
}

std::span<const NamedPolicy> named_policies() {
  static const std::vector<NamedPolicy> kPolicies = {
      {"none", {}},
      {"gopher", {"gopher.repetition:datatrove", "gopher.quality:gopher-paper"}},
      {"cs336", {"gopher.quality:cs336"}},
      {"c4", {"c4:datatrove"}},
      {"fineweb",
       {"gopher.repetition:datatrove", "gopher.quality:datatrove", "c4:fineweb",
        "fineweb:datatrove"}},
      {"refinedweb", {"gopher.quality:dclm", "gopher.repetition:datatrove", "refinedweb:dclm"}},
      {"dolma", {"gopher.quality:dolma", "gopher.repetition:dolma", "c4:dolma"}},
      {"sextant", {"gopher.repetition:sextant", "gopher.quality:sextant"}}};
  return kPolicies;
}

Result<Policy> parse_policy(const std::vector<std::string>& words) {
  Policy policy;
  for (const std::string& word : words) {
    bool named = false;
    for (const NamedPolicy& known : named_policies()) {
      if (word != known.name) continue;
      named = true;
      for (const std::string& step : known.steps) {
        SX_TRY(PolicyStep parsed, parse_step(step));
        policy.push_back(std::move(parsed));
      }
    }
    if (named) continue;
    if (word.find(':') == std::string::npos) {
      std::string names;
      for (const NamedPolicy& known : named_policies())
        names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
      return policy_error(fmt::format("no policy is named \"{}\"", word),
                          "policies: " + names + "; or rule:preset");
    }
    SX_TRY(PolicyStep parsed, parse_step(word));
    policy.push_back(std::move(parsed));
  }
  return policy;
}

std::string explain_policy(const Policy& policy) {
  std::string out;
  std::size_t number = 0;
  for (const PolicyStep& step : policy) {
    const char* fidelity = step.preset->fidelity == Fidelity::kExact      ? "exact"
                           : step.preset->fidelity == Fidelity::kMeasured ? "measured"
                                                                          : "own";
    out += fmt::format("{}. {}:{}  ({}; {}{})\n", ++number, step.preset->rule, step.preset->preset,
                       step.preset->source, fidelity,
                       step.preset->edit != nullptr ? "; edits the text" : "");
    for (std::size_t i = 0; i < step.preset->tests.size(); ++i) {
      const RuleTest& test = step.preset->tests[i];
      const std::string value = std::isnan(step.thresholds[i])
                                    ? std::string("off")
                                    : fmt::format("{}", step.thresholds[i]);
      const std::string what = test.per != nullptr ? fmt::format("{} / {}", test.count, test.per)
                                                   : std::string(test.count);
      out += fmt::format("   {:<24} drops when {} {} {}   ({})\n", to_string(test.reason), what,
                         test.drops, value, test.threshold);
    }
  }
  return out.empty() ? "no rule: every page is kept\n" : out;
}

Verdict apply_policy(const Policy& policy, PolicyText& page, PolicyTrail* trail) {
  PolicyTrail own;
  PolicyTrail& log = trail != nullptr ? *trail : own;
  for (const PolicyStep& step : policy) {
    Attributes attributes;
    std::string edited_text;
    if (step.preset->edit != nullptr) {
      edited_text = step.preset->edit(page, attributes, page.edits);
    } else {
      const auto known = std::find_if(
          log.entries.begin() + static_cast<std::ptrdiff_t>(log.current), log.entries.end(),
          [&](const auto& e) { return e.preset->measure == step.preset->measure; });
      if (known != log.entries.end())
        attributes = known->attributes;
      else
        step.preset->measure(page, attributes);
    }
    log.entries.push_back({step.preset, std::move(attributes)});
    const Verdict verdict = judge(step, log.entries.back().attributes);
    if (!verdict.kept()) return verdict;
    if (step.preset->edit != nullptr) {
      page.text = std::move(edited_text);
      log.current = log.entries.size();
    }
  }
  return Verdict::keep();
}

}  // namespace sx
