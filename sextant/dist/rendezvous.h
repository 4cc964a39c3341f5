#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sextant/base/launcher.h"
#include "sextant/base/units.h"

namespace sx {

/// A small table of strings that all processes of a run share: for coming together, for the start
/// check and for the first error, never on the way of a step.
///
/// Copies share the connection. Threads: safe; a `get` that waits holds others of the same
/// connection up, so a thread that polls takes a `clone()`.
/// Errors:  IoError when the table cannot be reached.
class RankStore {
 public:
  /// Within one process.
  static RankStore in_process();
  /// A file that all processes see; they must not be used again with another run.
  static RankStore file(const std::string& path, std::int64_t world_size);
  /// One process is the server (port 0 = any free one), the others connect.
  static RankStore tcp_server(int port, Seconds timeout);
  static RankStore tcp_client(const std::string& host, int port, Seconds timeout);

  RankStore with_prefix(const std::string& prefix) const;
  RankStore clone() const;

  void set(const std::string& key, const std::string& value);
  /// Waits for the key. Empty when it did not come in time, or `give_up` (asked now and then) says
  /// so.
  std::optional<std::string> get(const std::string& key, Seconds timeout,
                                 const std::function<bool()>& give_up = {});
  bool has(const std::string& key);
  /// Sets an absent key; returns what it holds afterwards. The first one wins.
  std::string set_once(const std::string& key, const std::string& value);
  /// Adds and returns the sum; an absent key counts as 0.
  std::int64_t add(const std::string& key, std::int64_t value);

  /// Port of a TCP store, 0 of the others.
  int port() const;

  struct State;
  explicit RankStore(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// The store of the run this process was started for, under "sx/<run id>/<restart count>/".
///
/// torchrun: the agent's store if there is one, else rank 0 serves at MASTER_ADDR:MASTER_PORT.
/// Slurm:    rank 0 serves on the first free of 16 ports from the one the job gives; the others
/// look
///           for it there.
/// MPI has no address to agree on: see mpi.h. Not for a single process.
/// Errors:  IoError (no address, port taken), FatalError SX4-001 (rank 0 did not come in time).
RankStore open_rank_store(const env::LauncherFacts& facts, Seconds timeout);

/// Own host in a form that two ranks can compare: boot id and the namespaces of processes and IPC.
/// Equal on two ranks that see each other's process numbers and shared memory.
std::string host_identity();
/// Name of this host as others may reach it.
std::string host_name();

}  // namespace sx
