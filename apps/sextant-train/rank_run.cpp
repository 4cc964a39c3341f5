#include "apps/sextant-train/rank_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sextant/base/clock.h"
#include "sextant/base/console.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/env.h"
#include "sextant/base/fs.h"
#include "sextant/base/log.h"
#include "sextant/dist/dist_error.h"
#include "sextant/dist/mpi.h"
#include "sextant/recipe/key_value.h"
#include "sextant/train/run_report.h"

namespace sx {
namespace {

std::string where_of(const env::LauncherFacts& facts) {
  return fmt::format("rank {} of {}, host {}", facts.global_rank, facts.world_size, host_name());
}

ConfigError no_launcher(const std::string& transport) {
  return ConfigError(Diagnostic{
      .number = 10,
      .what =
          fmt::format("comm.transport = \"{}\" joins processes, but this is one alone", transport),
      .where = "comm.transport",
      .rule = "a launcher starts one process for each rank",
      .next = "sextant launch --ranks N -- train ..., mpirun -n N, srun or torchrun"});
}

ProcessWire wire_for(TransportKind transport, const env::LauncherFacts& facts) {
  const bool mpi = transport == TransportKind::kMpi ||
                   (transport == TransportKind::kAuto && facts.launcher == env::Launcher::kMpi);
  if (!mpi) {
    if (facts.launcher != env::Launcher::kMpi) return ProcessWire::kTcp;
    throw ConfigError(Diagnostic{.number = 4,
                                 .what = "comm.transport = \"tcp\" under mpirun",
                                 .where = "comm.transport",
                                 .rule = "mpirun gives no address at which the ranks could meet",
                                 .next = "comm.transport=mpi, or sextant launch --ranks N"});
  }
  if (!mpi_is_built()) {
    throw ConfigError(Diagnostic{.number = 5,
                                 .what = "this build cannot talk over MPI",
                                 .where = "comm.transport",
                                 .rule = "no MPI library was found when it was configured",
                                 .next = "sextant launch --ranks N, or ./sx setup and ./sx build"});
  }
  return ProcessWire::kMpi;
}

/// What torchrun shows when a rank fails (TORCHELASTIC_ERROR_FILE).
void write_error_file(const std::string& message, ExitCode code) {
  const auto path = env::get("TORCHELASTIC_ERROR_FILE");
  if (!path || path->empty()) return;
  const nlohmann::ordered_json text{
      {"message",
       {{"message", message},
        {"extraInfo",
         {{"py_callstack", ""},
          {"exit_code", static_cast<int>(code)},
          {"timestamp", std::to_string(unix_microseconds() / 1'000'000)}}}}}};
  const auto written = write_file_atomic(
      *path, text.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  if (!written.ok()) SX_LOG(kWarn, "env.ignored", "variable", "TORCHELASTIC_ERROR_FILE");
}

FatalError fatal(const DistError& error, const std::string& where) {
  const std::string lost = "sextant doctor RUN   (flight records lie in RUN/flight)";
  switch (error.fault()) {
    case DistFault::kTimeout:
      return FatalError(Diagnostic{.exit = ExitCode::kPeer,
                                   .number = 3,
                                   .what = error.what(),
                                   .where = where,
                                   .rule = "a rank did not join a collective in time",
                                   .next = lost});
    case DistFault::kMismatch:
      return FatalError(
          Diagnostic{.exit = ExitCode::kPeer,
                     .number = 5,
                     .what = error.what(),
                     .where = where,
                     .rule = "the ranks did not make the same calls in the same order",
                     .next = lost});
    default:
      return FatalError(Diagnostic{.exit = ExitCode::kPeer,
                                   .number = 4,
                                   .what = error.what(),
                                   .where = where,
                                   .rule = "a rank is lost to the others",
                                   .next = lost});
  }
}

}  // namespace

std::optional<ProcessOptions> choose_processes(const Recipe& recipe) {
  const auto facts = env::detect_launcher();
  if (!facts.ok()) throw ConfigError(to_diagnostic(facts.error(), "unset them, or set them all"));
  const TransportKind transport = recipe.comm.transport;
  if (transport == TransportKind::kNccl) {
    throw ConfigError(Diagnostic{.number = 5,
                                 .what = "training over NCCL is not part of this build",
                                 .where = "comm.transport",
                                 .rule = "sextant-train computes on CPUs",
                                 .next = "comm.transport=auto"});
  }
  const bool local = transport == TransportKind::kThreads || transport == TransportKind::kSolo;
  const std::int64_t needed = recipe.parallelism.data_ranks();
  if (facts->world_size == 1) {
    if (transport == TransportKind::kTcp) throw no_launcher("tcp");
    if (transport == TransportKind::kMpi) throw no_launcher("mpi");
    return std::nullopt;
  }
  if (local) {
    throw ConfigError(Diagnostic{
        .number = 4,
        .what = fmt::format("comm.transport = \"{}\", but {} started {} processes",
                            to_word(transport), env::to_string(facts->launcher), facts->world_size),
        .where = "comm.transport",
        .rule = "rank threads all live in one process",
        .next = "start one process, or comm.transport=auto"});
  }
  if (facts->world_size != needed) {
    throw ConfigError(
        Diagnostic{.number = 10,
                   .what = fmt::format("{} started {} ranks, the recipe's degrees make {}",
                                       env::to_string(facts->launcher), facts->world_size, needed),
                   .where = "parallelism",
                   .rule = "world size = product of the parallel degrees",
                   .next = fmt::format("--set parallelism.dp_replicate={}", facts->world_size)});
  }
  ProcessOptions options;
  options.facts = *facts;
  options.wire = wire_for(transport, *facts);
  options.axis = AxisSet::world();
  options.purpose = Purpose::kReduce;
  options.init_timeout = recipe.comm.init_timeout;
  options.comm.timeout = recipe.comm.timeout;
  options.comm.first_timeout = recipe.comm.first_timeout;
  options.comm.flight_records = static_cast<std::size_t>(recipe.comm.flight_records);
  options.intra_op_threads = intra_op_threads(recipe);
  options.flush_denormals = recipe.run.flush_denormals;
  return options;
}

int run_as_rank(const ProcessOptions& options, const std::function<int(RankProcess&)>& body) {
  int code = 0;
  try {
    return with_dist_faults(where_of(options.facts), [&] {
      run_rank_process(options, [&](RankProcess& process) { code = body(process); });
      return code;
    });
  } catch (const PeerFailure& e) {
    console::write_line(e.what());
    write_error_file(e.what(), e.exit_code());
    return static_cast<int>(e.exit_code());
  } catch (const std::exception& e) {
    write_error_file(e.what(), exit_code_of(std::current_exception()));
    throw;
  }
}

int with_dist_faults(const std::string& where, const std::function<int()>& body) {
  try {
    return body();
  } catch (const DistError& e) {
    throw fatal(e, where);
  }
}

}  // namespace sx
