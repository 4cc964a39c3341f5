#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/trace/metrics.h"
#include "sextant/trace/page.h"
#include "sextant/trace/step_trace.h"

namespace sx {

/// Everything report.html of a training run is made from.
struct TrainReport {
  PageFacts facts;
  MetricsFile metrics;
  std::vector<std::vector<StepTrace>> ranks;  ///< StepTraces by rank; may be empty
  std::optional<double> unigram_entropy;      ///< nats per token, of the held-out tokens
  std::optional<double> bigram_entropy;
  std::int64_t num_params = 0;
  std::int64_t tokens_per_step = 0;
  std::vector<std::pair<std::string, std::string>> settings;  ///< keys that differ from defaults
  std::string sample_prompt, sample_text;                     ///< may be empty
  std::vector<std::pair<std::string, std::string>> files;     ///< relative path, what it holds
  std::vector<PageWarning> warnings;
  /// Further members of the summary (object or null): what the trainer knows and no file of the run
  /// holds.
  nlohmann::ordered_json extra;
};

/// What `train --json` prints and the page's data block holds: steps, tokens, first_loss,
/// last_loss, held_out_loss, held_out_ppl, unigram_entropy, bigram_entropy, tokens_per_s, step_s,
/// params, phases (median seconds), resumes, ...
nlohmann::ordered_json train_summary(const TrainReport& report);

Page make_train_page(const TrainReport& report);

}  // namespace sx
