#include "sextant/base/env.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "sextant/base/check.h"

namespace sx::env {
namespace {

/// Every variable the program may read by name. A setting of Sextant itself is a key or a flag and
/// never stands here.
constexpr auto kClosedList = std::to_array<std::string_view>({
    // torchrun
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
    // Slurm
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NNODES",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_RESTART_COUNT",
    "SLURM_ARRAY_TASK_ID",
    // Open MPI; MPICH, Hydra, Intel MPI; PMIx
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "PMIX_RANK",
    // read by other libraries, reported by us
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "MKL_CBWR",
    // console
    "NO_COLOR",
    "TERM",
    "COLUMNS",
    // folders
    "HOME",
    "XDG_CACHE_HOME",
    "TMPDIR",
    // the agent's display
    "DISPLAY",
    "XAUTHORITY",
    "WAYLAND_DISPLAY",
    // tests
    "SEXTANT_TEST_DATA",
});

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::map<std::string, std::string> all_variables() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::optional<std::string> read(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string non_empty(const char* name) { return read(name).value_or(""); }

}  // namespace

std::optional<std::string> get(const std::string& name) {
  SX_CHECK(std::find(kClosedList.begin(), kClosedList.end(), name) != kClosedList.end(),
           "environment variable {} is not in the closed list", name);
  return read(name.c_str());
}

std::optional<std::string> get_secret(const std::string& name) { return read(name.c_str()); }

Result<LauncherFacts> detect_launcher() { return detect_launcher(all_variables()); }

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

bool want_color() {
  const std::string term = non_empty("TERM");
  return stderr_is_terminal() && non_empty("NO_COLOR").empty() && !term.empty() && term != "dumb";
}

int terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::string text = non_empty("COLUMNS");
  int columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  return columns > 0 ? columns : 80;
}

std::string cache_dir() {
  // The XDG base directory specification ignores relative paths.
  if (const std::string cache = non_empty("XDG_CACHE_HOME"); cache.starts_with('/')) {
    return cache + "/sextant";
  }
  if (const std::string home = non_empty("HOME"); !home.empty()) return home + "/.cache/sextant";
  const std::string temporary = non_empty("TMPDIR");
  return (temporary.empty() ? "/tmp" : temporary) + "/sextant-cache-" + std::to_string(getuid());
}

std::vector<std::string> unknown_sextant_variables() {
  std::vector<std::string> names;
  for (const auto& [name, value] : all_variables()) {
    if (name.starts_with("SEXTANT_") && name != "SEXTANT_TEST_DATA") names.push_back(name);
  }
  return names;
}

std::map<std::string, std::string> reported_variables() {
  std::map<std::string, std::string> reported;
  for (const auto& [name, value] : all_variables()) {
    if (starts_with_any(name, {"NCCL_", "TORCH_NCCL_"}) || name == "CUDA_VISIBLE_DEVICES" ||
        name == "OMP_NUM_THREADS" || name == "CUDA_DEVICE_MAX_CONNECTIONS" ||
        name == "PYTORCH_CUDA_ALLOC_CONF" || name == "PYTORCH_ALLOC_CONF" || name == "MKL_CBWR") {
      reported.emplace(name, value);
    }
  }
  return reported;
}

std::vector<std::string> child_environment(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> variables = all_variables();
  for (const auto& [name, value] : changes) variables[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::string set_mkl_reproducible() {
  if (const auto set_by_user = read("MKL_CBWR")) return *set_by_user;
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  const char* value = avx512                           ? "AVX512,STRICT"
                      : __builtin_cpu_supports("avx2") ? "AVX2,STRICT"
                                                       : "";
  if (*value != '\0') setenv("MKL_CBWR", value, 0);
  return value;
}

}  // namespace sx::env
