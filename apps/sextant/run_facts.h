#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"

namespace sx {

/// What a run folder tells about how the run went.
struct RunFacts {
  std::string path;
  std::string verb;
  std::vector<std::string> command;
  std::string start;
  std::vector<nlohmann::json> last_steps;  ///< newest last, at most 3 lines of metrics.jsonl
  std::vector<std::string> checkpoints;    ///< committed, oldest first
  std::vector<std::string> torn;           ///< folders of a save that was not finished
  std::string latest;                      ///< what ckpt/latest names
  std::vector<std::string> problems;       ///< one line each
  std::string next;                        ///< one command

  nlohmann::ordered_json to_json() const;
};

/// Reads the folder. Errors: kNotFound when it is no run folder (no run.json), kCorrupt.
Result<RunFacts> look_at_run(const fs::path& folder);

}  // namespace sx
