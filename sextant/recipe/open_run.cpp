#include "sextant/recipe/open_run.h"

#include <fmt/format.h>

#include "sextant/base/fs.h"

namespace sx {
namespace {

constexpr const char* kResolvedFile = "recipe.resolved.toml";

bool holds_files(const fs::path& path) {
  std::error_code code;
  return fs::is_directory(path, code) && !fs::is_empty(path, code);
}

/// True for the folder of a run that was killed before its recipe was written: nothing but what
/// open_run makes.
bool only_begun(const fs::path& path) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(path, code)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name == "log" || name == "run.json" || name.starts_with("run.json.") ||
                      name.starts_with(kResolvedFile) || name.starts_with(".");
    if (!ours) return false;
  }
  return !code;
}

void require_ok(const Result<void>& status, const fs::path& path) {
  if (status.ok()) return;
  throw IoError(to_diagnostic(status.error(), fmt::format("df -h {}", path.string())));
}

/// Key by key, what keeps the run in `path` from going on with this recipe.
void require_same_recipe(const Invocation& invocation, const fs::path& path) {
  const LoadedRecipe before = load_recipe({.path = (path / kResolvedFile).string()});
  if (!before.faults.empty()) throw ConfigError(before.faults);
  std::vector<Diagnostic> faults;
  for (const RecipeDifference& one : diff(before.recipe, invocation.recipe)) {
    if (one.resumable) continue;
    faults.push_back(
        {.exit = ExitCode::kUser,
         .number = 20,
         .what = fmt::format("{} = {} differs from the run's {}", one.key, one.right, one.left),
         .where = fmt::format("{} ({})", invocation.recipe.source(one.key), one.key),
         .rule = "a run goes on with the recipe it began with; only resumable keys may differ",
         .next = fmt::format("--set {}={}, or another --out", one.key, one.left)});
  }
  if (!faults.empty()) throw ConfigError(faults);
}

void write_recipe(const Invocation& invocation, const RunFolder& folder) {
  require_ok(write_file_atomic(folder.file(kResolvedFile), invocation.recipe.to_toml()),
             folder.path());
  if (invocation.recipe_path.empty()) return;
  auto source = read_file(invocation.recipe_path);
  if (!source.ok()) return;  // it was read before; the resolved recipe holds every value
  const fs::path copy = folder.path() / "recipe.source";
  require_ok(make_dirs(copy), folder.path());
  require_ok(write_file_atomic(copy / fs::path(invocation.recipe_path).filename(), *source),
             folder.path());
}

nlohmann::ordered_json run_facts(const Invocation& invocation) {
  nlohmann::ordered_json facts;
  facts["verb"] = invocation.verb->name;
  if (!invocation.sub->name.empty()) facts["sub_verb"] = invocation.sub->name;
  facts["command"] = invocation.command;
  facts["recipe_fingerprint"] = invocation.recipe.fingerprint();
  return facts;
}

}  // namespace

OpenedRun open_run(const Invocation& invocation, Resume resume) {
  const std::string& name = invocation.recipe->run.name;
  const fs::path path =
      invocation.out.empty() ? default_out(invocation.verb->name, name) : invocation.out;
  std::error_code code;
  const bool in_use = holds_files(path);
  const bool same_kind = fs::exists(path / kResolvedFile, code);
  const bool goes_on = in_use && same_kind && resume != Resume::kNever && !invocation.overwrite;

  if (resume == Resume::kMustExist && !goes_on) {
    throw ConfigError(
        Diagnostic{.number = 7,
                   .what = fmt::format("{} holds no run to go on with", path.string()),
                   .where = "command line (--out)",
                   .rule = "--resume needs the folder of an earlier run",
                   .next = "leave --resume out to begin a new run"});
  }
  if (goes_on) require_same_recipe(invocation, path);
  const auto existing =
      invocation.overwrite ? RunFolder::Existing::kOverwrite
      : goes_on || (in_use && !same_kind && resume != Resume::kNever && only_begun(path))
          ? RunFolder::Existing::kResume
          : RunFolder::Existing::kRefuse;
  auto folder = RunFolder::open(path, existing);
  if (!folder.ok()) {
    if (folder.error().kind != ErrorKind::kInvalid) {
      throw IoError(to_diagnostic(folder.error(), "choose another --out"));
    }
    throw ConfigError(
        Diagnostic{.number = 6,
                   .what = folder.error().message,
                   .where = "command line (--out)",
                   .rule = "an existing folder is only used to go on with its own run",
                   .next = "choose another --out, or --overwrite to empty this run folder"});
  }
  require_ok(folder->write_run_json(run_facts(invocation)), path);
  write_recipe(invocation, *folder);
  return {std::move(*folder), goes_on};
}

}  // namespace sx
