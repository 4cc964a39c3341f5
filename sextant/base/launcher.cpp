// Who started this process, and as which rank: one function per launcher, tried in order of
// precedence. All work on a map of variables, so that tests need no environment.
#include "sextant/base/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "sextant/base/host_list.h"

namespace sx::env {
namespace {

using Variables = std::map<std::string, std::string>;

/// Slurm numbers steps from 0; the values above are its own (batch script, interactive, extern,
/// pending: slurm.h).
constexpr std::int64_t kFirstSpecialStep = 0xfffffffa;

bool has(const Variables& variables, const char* name) {
  const auto found = variables.find(name);
  return found != variables.end() && !found->second.empty();
}

std::string text_of(const Variables& variables, const char* name) {
  return has(variables, name) ? variables.at(name) : "";
}

struct Range {
  std::int64_t low;
  std::int64_t high;
};
constexpr Range kCount{1, std::int64_t{1} << 31};
constexpr Range kIndex{0, std::int64_t{1} << 31};
constexpr Range kPort{1, 65535};

Result<std::int64_t> integer(const Variables& variables, const char* name, Range range) {
  const std::string text = text_of(variables, name);
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) {
    return Error{ErrorKind::kInvalid, fmt::format("{}=\"{}\" is not an integer", name, text),
                 "environment"};
  }
  if (value < range.low || value > range.high) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("{}={} is outside {}..{}", name, value, range.low, range.high),
                 "environment"};
  }
  return value;
}

Result<std::int64_t> integer_or(const Variables& variables, const char* name, Range range,
                                std::int64_t fallback) {
  if (!has(variables, name)) return fallback;
  return integer(variables, name, range);
}

/// Reads into `out`, or leaves it as it is when the variable is not set.
Result<void> read(const Variables& variables, const char* name, Range range, std::int64_t& out) {
  SX_TRY(out, integer_or(variables, name, range, out));
  return {};
}

Error partial(const char* launcher, const Variables& variables,
              const std::vector<const char*>& needed) {
  std::string present;
  std::string missing;
  for (const char* name : needed) {
    std::string& list = has(variables, name) ? present : missing;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return {ErrorKind::kInvalid,
          fmt::format("variables of {} are set in part: {} without {}", launcher, present, missing),
          "environment"};
}

bool has_all(const Variables& variables, const std::vector<const char*>& names) {
  return std::all_of(names.begin(), names.end(),
                     [&](const char* name) { return has(variables, name); });
}

Result<void> check_inside(const LauncherFacts& facts) {
  const auto fault = [](const char* what, std::int64_t rank, std::int64_t size) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("{} {} is not below the size {}", what, rank, size), "environment"};
  };
  if (facts.global_rank >= facts.world_size)
    return fault("rank", facts.global_rank, facts.world_size);
  if (facts.local_rank >= facts.local_world_size) {
    return fault("local rank", facts.local_rank, facts.local_world_size);
  }
  if (facts.node_rank >= facts.num_nodes) return fault("node", facts.node_rank, facts.num_nodes);
  return {};
}

using Found = Result<std::optional<LauncherFacts>>;

std::int64_t nodes_for(std::int64_t world_size, std::int64_t local_world_size) {
  return (world_size + local_world_size - 1) / local_world_size;
}

/// `lower_found`: Slurm or MPI explain this process. Then WORLD_SIZE or MASTER_ADDR alone come from
/// a job script that also serves other programs, and are no half torchrun.
Found find_torchrun(const Variables& v, bool lower_found) {
  const std::vector<const char*> needed{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  const bool meant = has(v, "RANK") || (has(v, "WORLD_SIZE") && !lower_found);
  if (!meant) return std::optional<LauncherFacts>();
  if (!has_all(v, needed)) return partial("torchrun", v, needed);
  LauncherFacts facts{.launcher = Launcher::kTorchrun};
  SX_TRY(facts.global_rank, integer(v, "RANK", kIndex));
  SX_TRY(facts.world_size, integer(v, "WORLD_SIZE", kCount));
  SX_TRY(const std::int64_t port, integer(v, "MASTER_PORT", kPort));
  facts.master_port = static_cast<int>(port);
  facts.master_address = v.at("MASTER_ADDR");
  if (!has(v, "LOCAL_RANK") && facts.world_size > 1) {
    facts.warnings.emplace_back("LOCAL_RANK is not set: taken as 0");
  }
  SX_TRY_VOID(read(v, "LOCAL_RANK", kIndex, facts.local_rank));
  facts.local_world_size = facts.local_rank + 1;
  SX_TRY_VOID(read(v, "LOCAL_WORLD_SIZE", kCount, facts.local_world_size));
  facts.num_nodes = nodes_for(facts.world_size, facts.local_world_size);
  SX_TRY_VOID(read(v, "GROUP_WORLD_SIZE", kCount, facts.num_nodes));
  facts.node_rank = std::min(facts.global_rank / facts.local_world_size, facts.num_nodes - 1);
  SX_TRY_VOID(read(v, "GROUP_RANK", kIndex, facts.node_rank));
  SX_TRY_VOID(read(v, "TORCHELASTIC_RESTART_COUNT", kIndex, facts.restart_count));
  facts.run_id = text_of(v, "TORCHELASTIC_RUN_ID");
  facts.agent_store = text_of(v, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  return std::optional(facts);
}

Result<void> find_slurm_store(const Variables& v, LauncherFacts& facts) {
  const char* list_name =
      has(v, "SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const auto hosts = expand_host_list(text_of(v, list_name));
  if (!hosts.ok()) return Error{ErrorKind::kInvalid, hosts.error().message, list_name};
  facts.master_address = hosts->front();
  SX_TRY(const std::int64_t job, integer(v, "SLURM_JOB_ID", {0, std::int64_t{1} << 62}));
  facts.master_port = static_cast<int>(20000 + job % 10000);
  return {};
}

Found find_slurm(const Variables& v) {
  if (!has(v, "SLURM_PROCID") || !has(v, "SLURM_STEP_ID")) return std::optional<LauncherFacts>();
  SX_TRY(const std::int64_t step, integer(v, "SLURM_STEP_ID", {0, std::int64_t{1} << 62}));
  if (step >= kFirstSpecialStep) return std::optional<LauncherFacts>();
  const std::vector<const char*> needed{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
                                        "SLURM_JOB_ID"};
  if (!has_all(v, needed)) return partial("Slurm", v, needed);
  if (!has(v, "SLURM_STEP_NODELIST") && !has(v, "SLURM_JOB_NODELIST")) {
    return partial("Slurm", v, {"SLURM_PROCID", "SLURM_STEP_NODELIST"});
  }
  LauncherFacts facts{.launcher = Launcher::kSlurm};
  SX_TRY(facts.global_rank, integer(v, "SLURM_PROCID", kIndex));
  SX_TRY(facts.world_size, integer(v, "SLURM_NTASKS", kCount));
  SX_TRY(facts.local_rank, integer(v, "SLURM_LOCALID", kIndex));
  SX_TRY_VOID(read(v, "SLURM_NNODES", kCount, facts.num_nodes));
  SX_TRY_VOID(read(v, "SLURM_NODEID", kIndex, facts.node_rank));
  // Without a number per node Slurm spreads tasks evenly, the first nodes taking one more.
  facts.local_world_size =
      std::max(nodes_for(facts.world_size, facts.num_nodes), facts.local_rank + 1);
  SX_TRY_VOID(read(v, "SLURM_NTASKS_PER_NODE", kCount, facts.local_world_size));
  SX_TRY_VOID(read(v, "SLURM_RESTART_COUNT", kIndex, facts.restart_count));
  facts.run_id = text_of(v, "SLURM_JOB_ID");
  SX_TRY_VOID(find_slurm_store(v, facts));
  return std::optional(facts);
}

struct MpiNames {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

Found find_mpi(const Variables& v) {
  for (const MpiNames& names :
       {MpiNames{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                 "OMPI_COMM_WORLD_LOCAL_SIZE"},
        MpiNames{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}}) {
    if (!has(v, names.rank) && !has(v, names.size)) continue;
    if (!has_all(v, {names.rank, names.size})) return partial("MPI", v, {names.rank, names.size});
    LauncherFacts facts{.launcher = Launcher::kMpi};
    SX_TRY(facts.global_rank, integer(v, names.rank, kIndex));
    SX_TRY(facts.world_size, integer(v, names.size, kCount));
    SX_TRY_VOID(read(v, names.local_rank, kIndex, facts.local_rank));
    facts.local_world_size = facts.local_rank + 1;
    SX_TRY_VOID(read(v, names.local_size, kCount, facts.local_world_size));
    facts.num_nodes = nodes_for(facts.world_size, facts.local_world_size);
    facts.node_rank = std::min(facts.global_rank / facts.local_world_size, facts.num_nodes - 1);
    return std::optional(facts);
  }
  // PMIx tells the rank only; the size is known after the library has started.
  if (has(v, "PMIX_RANK")) return partial("MPI", v, {"PMIX_RANK", "OMPI_COMM_WORLD_SIZE"});
  return std::optional<LauncherFacts>();
}

void warn_of_disagreement(LauncherFacts& winner, const std::optional<LauncherFacts>& other) {
  if (!other ||
      (other->global_rank == winner.global_rank && other->world_size == winner.world_size)) {
    return;
  }
  winner.warnings.push_back(fmt::format(
      "{} says rank {} of {}, {} says rank {} of {}: {} is taken", to_string(winner.launcher),
      winner.global_rank, winner.world_size, to_string(other->launcher), other->global_rank,
      other->world_size, to_string(winner.launcher)));
}

/// A job script runs as one process although Slurm's variables speak of N tasks.
void warn_of_batch_script(const Variables& v, LauncherFacts& facts) {
  const std::string num_tasks = text_of(v, "SLURM_NTASKS");
  if (has(v, "SLURM_PROCID") && !num_tasks.empty() && num_tasks != "1") {
    facts.warnings.push_back(fmt::format(
        "Slurm gave {0} tasks but this is one process outside a step: use srun to start {0} tasks",
        num_tasks));
  }
}

}  // namespace

const char* to_string(Launcher launcher) {
  switch (launcher) {
    case Launcher::kSingle: return "single";
    case Launcher::kTorchrun: return "torchrun";
    case Launcher::kSlurm: return "slurm";
    case Launcher::kMpi: return "mpi";
  }
  return "?";
}

Result<LauncherFacts> detect_launcher(const Variables& variables) {
  // A lower launcher's fault matters only if no higher one explains the process.
  const Found slurm = find_slurm(variables);
  const Found mpi = find_mpi(variables);
  const auto value_of = [](const Found& found) { return found.ok() ? *found : std::nullopt; };
  SX_TRY(const auto torchrun, find_torchrun(variables, value_of(slurm) || value_of(mpi)));
  std::optional<LauncherFacts> winner = torchrun;
  if (!winner) {
    if (!slurm.ok()) return slurm.error();
    winner = *slurm;
  }
  if (!winner) {
    if (!mpi.ok()) return mpi.error();
    winner = *mpi;
  }
  LauncherFacts facts = winner.value_or(LauncherFacts{});
  if (facts.launcher == Launcher::kTorchrun) warn_of_disagreement(facts, value_of(slurm));
  if (facts.launcher != Launcher::kSingle) warn_of_disagreement(facts, value_of(mpi));
  if (facts.launcher == Launcher::kSingle) warn_of_batch_script(variables, facts);
  SX_TRY_VOID(check_inside(facts));
  return facts;
}

std::string describe(const LauncherFacts& facts) {
  std::string line = fmt::format("launcher {} · world {} · node {}/{} · local {}/{}",
                                 to_string(facts.launcher), facts.world_size, facts.node_rank,
                                 facts.num_nodes, facts.local_rank, facts.local_world_size);
  if (!facts.master_address.empty()) {
    line += fmt::format(" · store tcp://{}:{}", facts.master_address, facts.master_port);
  }
  return line;
}

}  // namespace sx::env
