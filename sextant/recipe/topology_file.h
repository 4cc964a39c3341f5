#pragma once

#include <string>
#include <string_view>

#include "sextant/base/result.h"
#include "sextant/mesh/topology.h"

namespace sx {

/// Reads the file that `parallelism.topology` names (docs/formats/topology.md):
///
///   ranks_per_node = 8
///   ranks_per_island = 4
///   link.network = { bandwidth = "50GB", latency = "10us" }   # per second and direction
///
/// or, for ranks in any order, lists with an entry per rank: `node`, `island`, `rail`.
/// Errors: kInvalid for an unknown key, a wrong type, a list of another length than `ranks`, an
///         island on two nodes; kNotFound, kIo.
Result<Topology> read_topology_file(const std::string& path, std::int64_t ranks);
Result<Topology> read_topology(std::string_view toml, const std::string& label, std::int64_t ranks);

}  // namespace sx
