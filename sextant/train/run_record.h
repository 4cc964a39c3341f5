#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/base/run_folder.h"
#include "sextant/recipe/recipe.h"
#include "sextant/trace/step_line.h"
#include "sextant/trace/step_trace.h"
#include "sextant/train/evaluate.h"
#include "sextant/train/snapshot.h"
#include "sextant/train/step.h"

namespace sx {

/// What one rank writes about its steps: StepTraces of every rank; metrics, TensorBoard events and
/// the step line on rank 0. Errors of the disk end the run (IoError).
class RunRecord {
 public:
  struct Options {
    std::int64_t global_rank = 0;
    std::int64_t world_size = 1;
    std::int64_t resumed_at = 0;  ///< 0 = a fresh run
    bool console = true;          ///< step lines on standard error
  };
  RunRecord(const RunFolder& folder, const Recipe& recipe, const Options& options);
  ~RunRecord();
  RunRecord(RunRecord&&) noexcept;

  /// True for the first ten steps, every metrics.log_every, and the last.
  bool logs(std::int64_t step) const;
  void write_trace(const StepTrace& trace);
  /// One step done. `all_ranks`: the step's traces of every rank; only read on rank 0, and only for
  /// steps that `logs`. `evaluation`: what was measured at this step, if anything.
  void write_step(const StepResult& result, const TrainProgress& progress,
                  const std::vector<StepTrace>& all_ranks,
                  const std::optional<Evaluation>& evaluation);
  /// A checkpoint was committed: its figures stand in the next row. Rank 0.
  void note_save(const SaveReport& report, double blocked_seconds);
  void flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Every rank's trace of one step on all ranks: times and memory, without the comm table.
/// Collective.
std::vector<StepTrace> gather_traces(Communicator& world, const StepTrace& own);

}  // namespace sx
