// Who sits where, and whether there are cores for all. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <vector>

#include "exec/processes.hpp"

namespace weir {

struct MpiPlaces {
  std::vector<ProcessPlace> places;  // by process
  bool oversubscribed = false;
};

// Collective. Cores are those the launcher's binding leaves each process.
[[nodiscard]] MpiPlaces mpi_places(MPI_Comm world);

}  // namespace weir
