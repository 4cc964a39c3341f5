#include "apps/sextant/machine_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "sextant/base/env.h"
#include "sextant/base/fs.h"
#include "sextant/base/thread_pool.h"
#include "sextant/base/units.h"

namespace sx {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// Value of the first line "name : value" of a file in /proc; empty when there is none.
std::string proc_value(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::uint64_t kib_value(const std::string& text, const std::string& name) {
  const std::string value = proc_value(text, name);
  return std::strtoull(value.c_str(), nullptr, 10) * 1024;
}

std::vector<std::string> known_features(const std::string& flags) {
  std::vector<std::string> found;
  const std::string padded = " " + flags + " ";
  for (const char* name : {"sse4_2", "avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"}) {
    if (padded.find(fmt::format(" {} ", name)) != std::string::npos) found.emplace_back(name);
  }
  return found;
}

void add_disk(MachineFacts& facts, const std::string& what, const std::string& path) {
  std::error_code code;
  fs::path existing = path;
  while (!existing.empty() && !fs::exists(existing, code) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  const fs::space_info space = fs::space(existing.empty() ? "." : existing, code);
  if (!code) facts.disks.push_back({what, path, space.available, space.capacity});
}

std::string train_program() {
  std::error_code code;
  const fs::path folder = fs::read_symlink("/proc/self/exe", code).parent_path();
  for (const fs::path& candidate :
       {folder / "sextant-train", folder.parent_path() / "libexec" / "sextant" / "sextant-train"}) {
    if (fs::exists(candidate, code)) return candidate.string();
  }
  return "";
}

std::string test_data_folder() {
  std::error_code code;
  for (const std::string& candidate :
       {env::get("SEXTANT_TEST_DATA").value_or(""), std::string("../shared/data")}) {
    if (!candidate.empty() && fs::is_directory(candidate, code)) return candidate;
  }
  return "";
}

void add_parts(MachineFacts& facts) {
  std::error_code code;
  const auto has = [&](const char* feature) {
    return std::find(facts.cpu_features.begin(), facts.cpu_features.end(), feature) !=
           facts.cpu_features.end();
  };
  const std::string train = train_program();
  const std::string data = test_data_folder();
  facts.parts.push_back({"torch", !train.empty(), train.empty() ? "./sx build release" : train});
  facts.parts.push_back(
      {"cuda", fs::exists("/dev/nvidia0", code), "a GPU device node; this version trains on CPU"});
  const bool mpi = SX_WITH_MPI != 0;
  facts.parts.push_back({"mpi", mpi && !train.empty(),
                         mpi ? "ranks under mpirun"
                             : "no MPI library when this was configured; ./sx setup brings Open MPI"});
  const bool nccl = SX_WITH_NCCL != 0;
  facts.parts.push_back(
      {"nccl", nccl, nccl ? "the nccl transport is linked" : "preset cuda links it"});
  facts.parts.push_back({"avx2", has("avx2"), "CPU feature"});
  facts.parts.push_back({"avx512", has("avx512f"), "CPU feature"});
  facts.parts.push_back(
      {"test-data", !data.empty(), data.empty() ? "set SEXTANT_TEST_DATA" : data});
  facts.test_labels = {
      {"fast, core", true}, {"fast, torch", !train.empty()}, {"with shared data", !data.empty()}};
}

void add_warnings(MachineFacts& facts) {
  const auto omp = facts.variables.find("OMP_NUM_THREADS");
  if (omp != facts.variables.end() && omp->second == "1" && facts.cores > 4) {
    facts.warnings.push_back(
        fmt::format("OMP_NUM_THREADS=1 leaves {} cores idle in tensor operations; torchrun sets it",
                    facts.cores - 1));
  }
  for (const DiskFacts& disk : facts.disks) {
    if (disk.free_bytes < kGiB) {
      facts.warnings.push_back(
          fmt::format("{} ({}) has less than 1 GiB free", disk.what, disk.path));
    }
  }
  if (facts.memory_available_bytes < 2 * kGiB)
    facts.warnings.push_back("less than 2 GiB of memory are available");
}

}  // namespace

MachineFacts look_at_machine() {
  MachineFacts facts;
  const std::string cpuinfo = read_file("/proc/cpuinfo").ok() ? *read_file("/proc/cpuinfo") : "";
  const std::string meminfo = read_file("/proc/meminfo").ok() ? *read_file("/proc/meminfo") : "";
  facts.cpu = proc_value(cpuinfo, "model name");
  facts.cpu_features = known_features(proc_value(cpuinfo, "flags"));
  facts.cores = usable_cores();
  facts.memory_bytes = kib_value(meminfo, "MemTotal");
  facts.memory_available_bytes = kib_value(meminfo, "MemAvailable");
  add_disk(facts, "working folder", ".");
  add_disk(facts, "temporary files", env::get("TMPDIR").value_or("/tmp"));
  add_disk(facts, "cache", env::cache_dir());
  const auto launcher = env::detect_launcher();
  if (launcher.ok()) {
    facts.launcher = env::describe(*launcher);
    facts.warnings = launcher->warnings;
  } else {
    facts.launcher = "not usable";
    facts.warnings.push_back(launcher.error().message);
  }
  facts.variables = env::reported_variables();
  add_parts(facts);
  add_warnings(facts);
  return facts;
}

nlohmann::ordered_json MachineFacts::to_json() const {
  nlohmann::ordered_json out;
  out["cpu"] = {{"name", cpu}, {"features", cpu_features}, {"cores", cores}};
  out["memory"] = {{"total_bytes", memory_bytes}, {"available_bytes", memory_available_bytes}};
  for (const DiskFacts& disk : disks) {
    out["disks"].push_back({{"what", disk.what},
                            {"path", disk.path},
                            {"free_bytes", disk.free_bytes},
                            {"total_bytes", disk.total_bytes}});
  }
  out["launcher"] = launcher;
  out["variables"] = variables;
  for (const Part& part : parts) out["parts"][part.name] = part.present;
  out["tests"] = test_labels;
  out["warnings"] = warnings;
  return out;
}

}  // namespace sx
