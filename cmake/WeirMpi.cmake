# Ranks as processes: the target weir_exec_mpi, and mpirun in MPIEXEC_EXECUTABLE for the tests.
# SPDX-License-Identifier: Apache-2.0
set_property(CACHE WEIR_MPI PROPERTY STRINGS AUTO ON OFF)
if(WEIR_MPI)  # AUTO counts as true
  set(MPI_CXX_SKIP_MPICXX ON)  # the C interface alone
  if(WEIR_MPI STREQUAL "AUTO")
    find_package(MPI 3.0 COMPONENTS CXX)
  else()
    find_package(MPI 3.0 REQUIRED COMPONENTS CXX)
  endif()
  if(MPI_CXX_FOUND)
    weir_floor(weir_exec_mpi FOLDER exec/processes/mpi LINK weir_exec MPI::MPI_CXX)
  endif()
endif()
