#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/exit_code.h"
#include "sextant/base/run_folder.h"
#include "sextant/optim/lr_schedule.h"
#include "sextant/recipe/load.h"
#include "sextant/shape/model_shape.h"
#include "sextant/train/train_data.h"

namespace sx {

class RankProcess;

struct TrainOptions {
  ResolvedRecipe recipe;
  RunFolder folder;        ///< opened by the caller, which has checked that its recipe is this one
  bool eval_only = false;  ///< load the newest checkpoint, evaluate, leave the run as it is
  fs::path choices;  ///< with eval_only: JSON lines of multiple choice; empty = none
  bool quiet = false;
  std::vector<std::string> command;  ///< as typed, for the report
  /// This process is one rank of several; null = the ranks are threads of this process.
  RankProcess* process = nullptr;
};

struct TrainOutcome {
  ExitCode exit = ExitCode::kOk;   ///< kOk, or kRequeue when a signal or STOP ended it after a save
  nlohmann::ordered_json summary;  ///< what summary.json holds
};

/// What a run needs from outside, opened and checked before anything is written.
struct TrainInputs {
  TrainData data;
  ModelShape shape;
  LrSchedule schedule;
};

/// Errors: ConfigError (files that are not there, faults of the model's shape or the schedule),
/// IoError.
TrainInputs open_train_inputs(const Recipe& recipe);

/// Trains as the recipe says, in `folder`: rank threads of this process, one per data-parallel
/// rank. With `options.process` this process is one of the ranks; rank 0 writes the report, and
/// only its outcome has a summary.
///
/// An existing run folder of the same recipe is gone on in, from its newest valid checkpoint: the
/// result is that of a run that was never interrupted. After SIGINT, SIGTERM, SIGUSR1 or a file
/// STOP the step is finished and saved.
/// Errors:  ConfigError (a checkpoint that does not fit; `eval_only` without a checkpoint or
/// without
///          held-out data), IoError, FatalError with ExitCode::kNumeric (SX7-001), DistError.
TrainOutcome run_training(const TrainOptions& options, const TrainInputs& inputs);

}  // namespace sx
