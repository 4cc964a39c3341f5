#include "apps/sextant/cmd_doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "apps/program/program.h"
#include "apps/sextant/machine_facts.h"
#include "apps/sextant/run_facts.h"
#include "sextant/base/units.h"
#include "sextant/base/version.h"

namespace sx {
namespace {

std::string size(std::uint64_t value) {
  return format_bytes(Bytes(static_cast<std::int64_t>(value)));
}

std::string machine_text(const MachineFacts& facts) {
  const auto line = [](const std::string& name, const std::string& value) {
    return fmt::format("{:<24}{}\n", name, value);
  };
  std::string text = line("sextant", fmt::format("{} {} {}", version().version,
                                                 version().git_commit, version().build_type));
  text += line("cpu", facts.cpu);
  text += line("cpu features", fmt::format("{}", fmt::join(facts.cpu_features, " ")));
  text += line("cores", fmt::format("{} usable", facts.cores));
  text += line("memory", fmt::format("{} available of {}", size(facts.memory_available_bytes),
                                     size(facts.memory_bytes)));
  for (const DiskFacts& disk : facts.disks) {
    text += line(disk.what, fmt::format("{} free of {}  {}", size(disk.free_bytes),
                                        size(disk.total_bytes), disk.path));
  }
  text += line("launcher", facts.launcher);
  for (const auto& [name, value] : facts.variables) text += line("variable", name + "=" + value);
  for (const Part& part : facts.parts) {
    text += line(part.name, fmt::format("{}  {}", part.present ? "yes" : "no ", part.detail));
  }
  for (const auto& [label, runs] : facts.test_labels)
    text += line("tests " + label, runs ? "can run" : "not built here");
  for (const std::string& warning : facts.warnings) text += line("warning", warning);
  return text;
}

std::string step_text(const nlohmann::json& step) {
  std::string text = fmt::format("step {}", step["step"].dump());
  for (const char* key : {"loss", "eval_loss", "grad_norm", "tokens_per_s"}) {
    if (step.contains(key)) text += fmt::format("  {} {}", key, step[key].dump());
  }
  return text;
}

std::string run_text(const RunFacts& facts) {
  std::string text = fmt::format("run          {}\nverb         {}\nstarted      {}\n", facts.path,
                                 facts.verb, facts.start);
  for (const auto& step : facts.last_steps) text += "             " + step_text(step) + "\n";
  if (!facts.checkpoints.empty()) {
    text += fmt::format("checkpoints  {} whole, newest {}\n", facts.checkpoints.size(),
                        facts.checkpoints.back());
  }
  for (const std::string& problem : facts.problems) text += "problem      " + problem + "\n";
  if (facts.problems.empty()) text += "problem      none found\n";
  return text + (facts.next.empty() ? "" : "next         " + facts.next + "\n");
}

/// Parts that --require asks for and that are not there (exit 5).
std::vector<Diagnostic> missing_parts(const Invocation& call, const MachineFacts& facts) {
  std::vector<Diagnostic> missing;
  for (const std::string& name : call.texts("require")) {
    const Part* found = nullptr;
    std::vector<std::string> names;
    for (const Part& part : facts.parts) {
      names.push_back(part.name);
      if (part.name == name) found = &part;
    }
    if (found == nullptr) {
      const std::string nearest = nearest_name(name, names);
      throw ConfigError(Diagnostic{
          .number = 1,
          .what = fmt::format("unknown part {}{}", name,
                              nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest)),
          .where = "command line (--require)",
          .rule = fmt::format("parts are {}", fmt::join(names, ", ")),
          .next = "sextant doctor"});
    }
    if (found->present) continue;
    missing.push_back({.exit = ExitCode::kVerdict,
                       .number = 1,
                       .what = fmt::format("{} is not there", name),
                       .where = "this machine and build",
                       .rule = "--require asked for it",
                       .next = found->detail});
  }
  return missing;
}

}  // namespace

int run_doctor(const Invocation& invocation) {
  if (!invocation.inputs.empty()) {
    const auto facts = look_at_run(invocation.inputs[0]);
    if (!facts.ok()) throw FatalError(to_diagnostic(facts.error(), "a run folder holds run.json"));
    print(invocation.json ? facts->to_json().dump(2) + "\n" : run_text(*facts));
    return 0;
  }
  const MachineFacts facts = look_at_machine();
  const std::vector<Diagnostic> missing = missing_parts(invocation, facts);
  const auto& replace = nlohmann::ordered_json::error_handler_t::replace;
  print(invocation.json ? facts.to_json().dump(2, ' ', false, replace) + "\n"
                        : machine_text(facts));
  if (!missing.empty()) throw FatalError(missing);
  return 0;
}

}  // namespace sx
