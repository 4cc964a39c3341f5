// Which checkpoints lie in a folder and which one to go on from.
#include "sextant/ckpt/checkpoint_list.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "sextant/ckpt/checkpoint.h"

namespace sx {
namespace {

/// Empty when the checkpoint can be used, else why not. Errors: kUnsupported, and kIo: what cannot
/// be read now may be whole.
Result<std::string> why_unusable(const fs::path& folder, bool full_hashes) {
  const auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint.ok()) {
    const ErrorKind kind = checkpoint.error().kind;
    if (kind == ErrorKind::kUnsupported || kind == ErrorKind::kIo) return checkpoint.error();
    return checkpoint.error().to_string();
  }
  if (!full_hashes) return std::string();
  const auto faults = verify_checkpoint(folder);
  if (!faults.ok()) return faults.error().to_string();
  return faults->empty() ? std::string() : faults->front();
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:07}", step); }

std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + 7) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (code != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

Result<std::vector<fs::path>> list_checkpoints(const fs::path& root) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code code;
  for (fs::directory_iterator it(root, code), end; !code && it != end; it.increment(code)) {
    const auto step = step_of(it->path().filename().string());
    if (step) found.emplace_back(*step, it->path());
  }
  if (code && code != std::errc::no_such_file_or_directory) {
    return Error{ErrorKind::kIo, fmt::format("cannot list {}: {}", root.string(), code.message()),
                 root.string()};
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

Result<std::optional<fs::path>> find_newest_checkpoint(const fs::path& root, bool full_hashes,
                                                       std::vector<std::string>* rejected) {
  const auto reject = [rejected](const fs::path& path, const std::string& why) {
    if (rejected != nullptr) rejected->push_back(fmt::format("{}: {}", path.string(), why));
  };
  fs::path tried;
  auto latest = read_file(root / "latest", 4096);
  if (latest.ok()) {
    std::string name = *latest;
    while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
    if (step_of(name)) {
      tried = root / name;
      SX_TRY(const std::string why, why_unusable(tried, full_hashes));
      if (why.empty()) return std::optional(tried);
      reject(tried, why);
    } else {
      reject(root / "latest", fmt::format("\"{}\" is not the name of a checkpoint", name));
    }
  } else if (latest.error().kind == ErrorKind::kIo) {
    return latest.error();
  } else if (latest.error().kind != ErrorKind::kNotFound) {
    reject(root / "latest", latest.error().message);
  }
  SX_TRY(std::vector<fs::path> folders, list_checkpoints(root));
  std::reverse(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    if (folder == tried) continue;
    SX_TRY(const std::string why, why_unusable(folder, full_hashes));
    if (why.empty()) return std::optional(folder);
    reject(folder, why);
  }
  return std::optional<fs::path>();
}

std::optional<fs::path> checkpoint_root(const fs::path& named) {
  std::error_code code;
  if (fs::exists(named / kManifestName, code)) return std::nullopt;
  if (named.filename() == "latest") return named.parent_path();
  return fs::exists(named / "ckpt", code) ? named / "ckpt" : named;
}

Result<std::optional<fs::path>> find_checkpoint(const fs::path& named,
                                                std::vector<std::string>* rejected) {
  const std::optional<fs::path> root = checkpoint_root(named);
  if (!root) return std::optional(named);
  return find_newest_checkpoint(*root, false, rejected);
}

}  // namespace sx
