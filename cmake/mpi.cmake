# MPI for the mpi transport (sextant/dist/mpi.cpp): Open MPI or MPICH. Without one the transport is left out, and
# `sextant doctor` says so.
set(SX_MPI_FOUND OFF)
if(SX_MPI)
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(SX_MPI_FOUND ON)
    message(STATUS "MPI ${MPI_C_VERSION} (${MPI_C_LIBRARIES}), started by ${MPIEXEC_EXECUTABLE}")
  else()
    message(STATUS "MPI not found: the mpi transport is not built")
  endif()
endif()
