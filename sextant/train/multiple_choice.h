#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/nn/decoder.h"
#include "sextant/token/tokenizer.h"
#include "sextant/train/run_context.h"

namespace sx {

/// One question: which of the choices goes on best after the context?
struct ChoiceItem {
  struct Choice {
    std::vector<std::int32_t> tokens;  ///< context and choice, at most max_positions + 1
    std::int64_t counted = 0;          ///< the last tokens, which are the choice's
    std::int64_t characters = 0;       ///< code points of the choice's text
  };
  std::vector<Choice> choices;
  std::int64_t answer = 0;
};

/// Reads JSON lines {"context": text, "choices": [texts], "answer": index or text}, plain or
/// compressed. A choice is encoded together with its context, blanks at the context's end counting
/// as the choice's; its tokens are those behind the context's own. An empty context is an end of
/// document. What is too long for the model loses its beginning.
/// Source:  the pairing of EleutherAI/lm-evaluation-harness, lm_eval/api/model.py.
/// Errors:  kNotFound, kIo; kCorrupt with the record for lines of another form.
Result<std::vector<ChoiceItem>> read_choice_items(const fs::path& path, const Tokenizer& tokenizer,
                                                  std::int64_t max_positions);

struct ChoiceScores {
  /// ln p(choice | context), per item and choice.
  std::vector<std::vector<double>> log_likelihoods;
  std::int64_t correct = 0;             ///< items whose likeliest choice is the answer
  std::int64_t correct_normalised = 0;  ///< by log likelihood per character

  double acc() const;
  double acc_norm() const;
};

/// Scores all items, `rows` choices to a batch. Which choices share a batch does not depend on the
/// ranks, each batch is computed by one of them, and all know all scores: the same bits for every
/// number of ranks. Of equal scores the first wins. Collective; no gradients.
ChoiceScores score_choices(RunContext& run, Decoder& model, std::span<const ChoiceItem> items,
                           std::int64_t rows);

/// One line per item: its answer, what was chosen, and the log likelihoods.
std::string choice_lines(std::span<const ChoiceItem> items, const ChoiceScores& scores);
/// Items, acc, acc_norm.
nlohmann::ordered_json choice_summary(const ChoiceScores& scores);

}  // namespace sx
