#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"

namespace sx {

/// The folder of one run: recipe, log, metrics, report (docs/run_folder.md lists the files).
class RunFolder {
 public:
  enum class Existing { kRefuse, kResume, kOverwrite };

  /// Makes `path` (and log/). An existing non-empty folder: kRefuse = Error kInvalid; kResume keeps
  /// it; kOverwrite empties it first, but only if it is a run folder (has run.json) or empty.
  static Result<RunFolder> open(const fs::path& path, Existing existing);

  const fs::path& path() const { return path_; }
  fs::path file(const std::string& name) const { return path_ / name; }
  /// Writes run.json: id, version, git commit, host, start, and `facts`.
  Result<void> write_run_json(const nlohmann::ordered_json& facts) const;
  /// True once a file STOP lies in the folder.
  bool stop_requested() const;

 private:
  explicit RunFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

/// "runs/<verb>-<name>-<UTC yyyymmdd-hhmmss>".
std::string default_out(const std::string& verb, const std::string& name);

}  // namespace sx
