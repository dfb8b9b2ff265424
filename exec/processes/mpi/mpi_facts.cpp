// Asks MPI its version.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/mpi/mpi_facts.hpp"

#include <mpi.h>

#include "exec/processes/mpi/mpi_check.hpp"

namespace weir {

MpiFacts mpi_facts() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  WEIR_MPI_CHECK(MPI_Get_library_version(text, &length));  // may be asked before MPI_Init
  const std::string version(text, static_cast<std::size_t>(length));
  return {version.substr(0, version.find_first_of(",\n")), "mpirun -n K weir run PLAN"};
}

}  // namespace weir
