#pragma once

#include <string>

namespace sx {

/// Whether this build can talk over MPI (option SX_MPI and an MPI library when it was configured).
bool mpi_is_built();
/// "Open MPI v4.1.4, ..." as the library says it; empty without MPI. Needs no running MPI.
std::string mpi_version();

}  // namespace sx
