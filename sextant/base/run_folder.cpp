#include "sextant/base/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <system_error>

#include "sextant/base/clock.h"
#include "sextant/base/env.h"
#include "sextant/base/hash.h"
#include "sextant/base/version.h"

namespace sx {
namespace {

constexpr const char* kRunFile = "run.json";

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

Result<void> empty_folder(const fs::path& path) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(path, code)) {
    fs::remove_all(entry.path(), code);
    if (code) break;
  }
  if (code) {
    return Error{ErrorKind::kIo, fmt::format("cannot empty {}: {}", path.string(), code.message()),
                 path.string()};
  }
  return {};
}

}  // namespace

Result<RunFolder> RunFolder::open(const fs::path& path, Existing existing) {
  std::error_code code;
  if (fs::exists(path, code) && !fs::is_directory(path, code)) {
    return Error{ErrorKind::kInvalid, fmt::format("{} is not a folder", path.string()),
                 path.string()};
  }
  const bool in_use = fs::exists(path, code) && !fs::is_empty(path, code);
  if (in_use && existing == Existing::kRefuse) {
    return Error{ErrorKind::kInvalid, fmt::format("{} is not empty", path.string()), path.string()};
  }
  if (in_use && existing == Existing::kOverwrite) {
    if (!fs::exists(path / kRunFile, code)) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("{} is not a run folder (no {}), so it is not overwritten",
                               path.string(), kRunFile),
                   path.string()};
    }
    SX_TRY_VOID(empty_folder(path));
  }
  SX_TRY_VOID(make_dirs(path / "log"));
  return RunFolder(path);
}

Result<void> RunFolder::write_run_json(const nlohmann::ordered_json& facts) const {
  const std::string now = utc_timestamp(unix_microseconds());
  nlohmann::ordered_json run;
  run["id"] = hex64(xxh64(fmt::format("{} {} {}", host_name(), getpid(), now)));
  run["version"] = version().version;
  run["git_commit"] = version().git_commit;
  run["build_type"] = version().build_type;
  run["compiler"] = version().compiler;
  run["host"] = host_name();
  run["start"] = now;
  run["starts"] = nlohmann::ordered_json::array();
  // A resumed run stays the same run: first id and start, and all later starts.
  if (const auto old_text = read_file(file(kRunFile), std::uint64_t{1} << 26); old_text.ok()) {
    const auto old = nlohmann::ordered_json::parse(*old_text, nullptr, false);
    if (old.is_object()) {
      for (const char* key : {"id", "start", "starts"}) {
        if (old.contains(key)) run[key] = old[key];
      }
    }
  }
  if (run["starts"].is_array()) run["starts"].push_back(now);
  for (const auto& [key, value] : facts.items()) run[key] = value;
  run["environment"] = env::reported_variables();
  return write_file_atomic(
      file(kRunFile),
      run.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

bool RunFolder::stop_requested() const {
  std::error_code ignored;
  return fs::exists(file("STOP"), ignored);
}

std::string default_out(const std::string& verb, const std::string& name) {
  return fmt::format("runs/{}-{}-{}", verb, name, utc_compact(unix_microseconds()));
}

}  // namespace sx
