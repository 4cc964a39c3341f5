#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "sextant/base/exit_code.h"
#include "sextant/base/launcher.h"
#include "sextant/base/units.h"
#include "sextant/dist/comm_options.h"
#include "sextant/dist/communicator.h"
#include "sextant/dist/peer_failure.h"
#include "sextant/dist/plan_check.h"
#include "sextant/dist/rendezvous.h"

namespace sx {

/// What processes talk over.
enum class ProcessWire : std::uint8_t {
  kTcp,  ///< sockets between every two ranks, set up through the store
  kMpi,  ///< MPI, started by mpirun or srun
};

struct ProcessOptions {
  env::LauncherFacts facts;  ///< who this process is
  ProcessWire wire = ProcessWire::kTcp;
  AxisSet axis = AxisSet::world();
  Purpose purpose = Purpose::kControl;
  Seconds init_timeout{300.0};  ///< until all ranks have come together
  CommOptions comm;             ///< time-outs of calls, flight record
  int intra_op_threads = 1;     ///< LibTorch's threads
  bool flush_denormals = true;
};

/// One rank of a world of processes: the counterpart of a rank thread of `run_ranks`.
///
/// Threads: used by the thread that made it; it sets that thread's LibTorch state. Besides there
/// are a communication thread and a watcher, which looks once per half second whether another rank
/// has put a failure into the store, and at once whether a process on this host has ended.
class RankProcess {
 public:
  /// Store, wire, and a communicator over all ranks.
  /// Errors:  IoError, FatalError SX4-001 (ranks that did not come, named), ConfigError SX2-005.
  explicit RankProcess(const ProcessOptions& options);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  Communicator& world();
  RankStore& store();
  const env::LauncherFacts& facts() const;
  /// Where a failure's flight record goes; nowhere until this is called, or options.comm names it.
  void set_flight_folder(const std::filesystem::path& folder);

  /// Compares with all other ranks what this one is about to do (plan_check.h).
  void check_start(const StartFacts& facts);
  /// Rank 0's text on every rank, by way of the store; `name` is used once in a run.
  std::string agree(const std::string& name, const std::function<std::string()>& on_rank_0);

  /// Ends the rank's work: returns when every rank has done so. Errors: DistError.
  void finish();
  /// This rank fails with `error`: tells all others, waits up to a second until they have heard it,
  /// and rethrows; or throws PeerFailure when another rank was first.
  [[noreturn]] void fail(const std::exception_ptr& error);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs `body` as this process's rank. A fault of the body ends every rank of the world in less
/// than 5 s: this call throws what the body threw if it was the first, else PeerFailure.
void run_rank_process(const ProcessOptions& options,
                      const std::function<void(RankProcess& process)>& body);

/// The exit code that stands for an exception (architecture of errors: exit_code.h).
ExitCode exit_code_of(const std::exception_ptr& error);

}  // namespace sx
