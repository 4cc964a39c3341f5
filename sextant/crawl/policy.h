#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/crawl/attributes.h"
#include "sextant/crawl/verdict.h"

namespace sx {

/// One comparison of a rule: the page falls when count (/ per, where given; 0 when that is 0) is on
/// the dropping side of the threshold. All comparisons are strict.
struct RuleTest {
  Reason reason;
  const char* count;      ///< name of an attribute
  const char* per;        ///< name of an attribute, or nullptr
  char drops;             ///< '<' or '>'
  const char* threshold;  ///< its name in a policy: "max_words"
  double value;           ///< what the preset sets
};

/// A page's text on its way through a policy.
struct PolicyText {
  std::string text;           ///< valid UTF-8
  std::string language = {};  ///< "en", "und"
  std::uint64_t edits = 0;    ///< spans that edit rules changed
};

/// How closely a preset follows the program it is named after.
enum class Fidelity {
  kExact,     ///< equal verdicts on every document they were held against
  kMeasured,  ///< needs an outside word splitter; agreement in docs/measurements/filters.md
  kOwn
};

/// A rule as a named preset. `measure` counts; `edit` returns the text that the page has after the
/// rule, and counts too. One of the two is set.
struct RulePreset {
  const char* rule;
  const char* preset;
  const char* source;
  Fidelity fidelity;
  void (*measure)(const PolicyText& page, Attributes& out);
  std::string (*edit)(const PolicyText& page, Attributes& out, std::uint64_t& edits);
  std::vector<RuleTest> tests;
};
std::span<const RulePreset> rule_presets();

/// A rule with the thresholds in force.
struct PolicyStep {
  const RulePreset* preset = nullptr;
  std::vector<double> thresholds;  ///< one for each test; NaN = the test is off
};
using Policy = std::vector<PolicyStep>;

/// A policy from words: names of whole policies ("fineweb", "none") and of steps
/// "rule:preset{max_words=200000,min_stop_words=off}". Errors: kUser with the word and what is
/// known.
Result<Policy> parse_policy(const std::vector<std::string>& words);

/// The ordered steps with tests, thresholds and sources, for people.
std::string explain_policy(const Policy& policy);

/// What a policy found: per step what it counted. Steps behind the one that dropped are not there.
struct PolicyTrail {
  struct Entry {
    const RulePreset* preset;
    Attributes attributes;
  };
  std::vector<Entry> entries;
  std::size_t current = 0;  ///< entries from here on are about the text as it is now
};

/// Runs the page through the steps; the first failing test decides. Edits stay in `page` when it is
/// kept. A rule that counts the same on an unchanged text as an earlier step, or as an entry that
/// stands in the trail before, is not measured again.
Verdict apply_policy(const Policy& policy, PolicyText& page, PolicyTrail* trail = nullptr);

/// Policies known by name, each as its steps.
struct NamedPolicy {
  const char* name;
  std::vector<std::string> steps;
};
std::span<const NamedPolicy> named_policies();

}  // namespace sx
