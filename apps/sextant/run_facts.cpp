#include "apps/sextant/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "sextant/base/mmap.h"

namespace sx {
namespace {

constexpr std::size_t kTailBytes = 64 << 10;
constexpr std::size_t kShownSteps = 3;

/// The whole lines among the last bytes of a file.
std::vector<std::string> tail_lines(const fs::path& path) {
  const auto file = MappedFile::open(path);
  if (!file.ok()) return {};
  std::string_view text = file->text();
  const bool cut = text.size() > kTailBytes;
  if (cut) text.remove_prefix(text.size() - kTailBytes);
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (cut && !lines.empty()) lines.erase(lines.begin());
  return lines;
}

void read_steps(RunFacts& facts, const fs::path& folder) {
  for (const std::string& line : tail_lines(folder / "metrics.jsonl")) {
    nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("step") || !parsed.contains("loss")) continue;
    facts.last_steps.push_back(std::move(parsed));
    if (facts.last_steps.size() > kShownSteps) facts.last_steps.erase(facts.last_steps.begin());
  }
}

void read_log(RunFacts& facts, const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> logs;
  for (const auto& entry : fs::directory_iterator(folder / "log", code)) {
    if (entry.path().extension() == ".jsonl") logs.push_back(entry.path());
  }
  std::sort(logs.begin(), logs.end());
  for (const fs::path& log : logs) {
    std::string last;
    for (const std::string& line : tail_lines(log)) {
      const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
      if (parsed.is_object() && parsed.value("level", "") == "error") last = line;
    }
    if (!last.empty())
      facts.problems.push_back(fmt::format("{}: {}", log.filename().string(), last));
  }
}

void read_checkpoints(RunFacts& facts, const fs::path& folder) {
  std::error_code code;
  const fs::path root = folder / "ckpt";
  for (const auto& entry : fs::directory_iterator(root, code)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory(code)) continue;
    const bool committed =
        name.starts_with("step-") && fs::exists(entry.path() / "manifest.json", code);
    (committed ? facts.checkpoints : facts.torn).push_back(name);
  }
  std::sort(facts.checkpoints.begin(), facts.checkpoints.end());
  std::sort(facts.torn.begin(), facts.torn.end());
  if (const auto latest = read_file(root / "latest", 4096); latest.ok()) {
    facts.latest = latest->substr(0, latest->find('\n'));
    const auto& known = facts.checkpoints;
    if (std::find(known.begin(), known.end(), facts.latest) == known.end()) {
      facts.problems.push_back(
          fmt::format("ckpt/latest names {}, which is not there whole", facts.latest));
    }
  }
  for (const std::string& name : facts.torn) {
    facts.problems.push_back(
        fmt::format("ckpt/{} is a save that was not finished; the next save removes it", name));
  }
}

void choose_next(RunFacts& facts) {
  if (facts.verb == "train") {
    facts.next =
        facts.checkpoints.empty()
            ? fmt::format("sextant train --out {} (no checkpoint to go on from)", facts.path)
            : fmt::format("sextant sample {}", facts.path);
  } else if (facts.verb == "crawl") {
    facts.next = fmt::format("sextant crawl verify {}", facts.path);
  }
  std::string again;
  for (const std::string& word : facts.command) again += (again.empty() ? "" : " ") + word;
  if (!facts.problems.empty() && !again.empty())
    facts.next = again + "   (goes on from the last saved state)";
}

}  // namespace

Result<RunFacts> look_at_run(const fs::path& folder) {
  SX_TRY(const std::string text, read_file(folder / "run.json", std::uint64_t{1} << 26));
  const nlohmann::json run = nlohmann::json::parse(text, nullptr, false);
  if (!run.is_object()) {
    return Error{ErrorKind::kCorrupt, "run.json is no JSON object", (folder / "run.json").string()};
  }
  RunFacts facts;
  facts.path = folder.string();
  const auto word = [&](const char* key) {
    return run.contains(key) && run[key].is_string() ? run[key].get<std::string>() : std::string();
  };
  facts.verb = word("verb");
  facts.start = word("start");
  if (run.contains("command") && run["command"].is_array()) {
    for (const nlohmann::json& item : run["command"]) {
      if (item.is_string()) facts.command.push_back(item.get<std::string>());
    }
  }
  read_steps(facts, folder);
  read_log(facts, folder);
  read_checkpoints(facts, folder);
  choose_next(facts);
  return facts;
}

nlohmann::ordered_json RunFacts::to_json() const {
  nlohmann::ordered_json out{
      {"path", path}, {"verb", verb}, {"start", start}, {"command", command}};
  out["last_steps"] = last_steps;
  out["checkpoints"] = checkpoints;
  out["torn"] = torn;
  out["problems"] = problems;
  out["next"] = next;
  return out;
}

}  // namespace sx
