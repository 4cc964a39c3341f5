#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/run_folder.h"
#include "sextant/plan/memory.h"
#include "sextant/recipe/load.h"
#include "sextant/shape/model_shape.h"
#include "sextant/tensor/memory_tracker.h"
#include "sextant/train/evaluate.h"
#include "sextant/train/multiple_choice.h"
#include "sextant/train/snapshot.h"
#include "sextant/train/train_data.h"

namespace sx {

/// What is known when the ranks have ended.
struct RunOutcome {
  TrainProgress progress;
  std::int64_t resumed_at = 0;  ///< step the run was taken up at; 0 = from the start
  std::optional<double> last_loss;
  std::optional<Evaluation> heldout;
  std::optional<ChoiceScores> choices;
  /// Rank 0's memory in the step that took most, and what the planner said; empty after less than a
  /// step.
  std::optional<MemoryNumbers> memory;
  DpMemory predicted_memory;
  bool stopped = false;  ///< asked to stop before the last step, after a save
  double seconds = 0;
};

/// Writes summary.json and report.html of a run from its metrics and traces; returns the summary.
/// Errors: IoError.
nlohmann::ordered_json write_run_report(const RunFolder& folder, const ResolvedRecipe& recipe,
                                        const ModelShape& shape, const TrainData& data,
                                        const RunOutcome& outcome,
                                        const std::vector<std::string>& command);

/// What `train --eval-only --json` prints.
nlohmann::ordered_json eval_summary(const RunOutcome& outcome);

/// LibTorch threads inside one rank: 1 under run.deterministic or when ranks fill the cores.
int intra_op_threads(const Recipe& recipe);

/// The files of a tokenizer (a folder, or a .tiktoken with its .json), by name.
/// Errors: ConfigError or IoError.
std::map<std::string, std::string> read_tokenizer_files(const fs::path& path);

}  // namespace sx
