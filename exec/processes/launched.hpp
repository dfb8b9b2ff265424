// Whether a launcher started this process as one of several, by what it left in the environment. No
// MPI is asked: starting MPI costs time, and where nobody launched several it is not needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace weir {

struct Launched {
  int processes = 1;
  std::string by;          // "mpirun (Open MPI)"
  bool speaks_mpi = true;  // srun may have been started for its numbers alone
};

// Nothing where this process stands alone. `environment` gives a variable's value or null
// (std::getenv).
//   Open MPI's mpirun          OMPI_COMM_WORLD_SIZE
//   MPICH's and Intel's, srun --mpi=pmi2   PMI_SIZE
//   srun --mpi=pmix            PMIX_RANK, and SLURM_STEP_NUM_TASKS: SLURM's alone are also set in a
//   batch script
[[nodiscard]] std::optional<Launched> launched(
    const std::function<const char*(const char*)>& environment);

// Which of how many this process is, by what a launcher that need not know MPI left.
struct ProcessNumber {
  int index = 0;
  int count = 1;
};

// Nothing where nobody said so, or only half of it.
//   torchrun                   RANK, WORLD_SIZE: first, since it may stand in a Slurm job of its
//   own srun                       SLURM_PROCID, SLURM_NTASKS
[[nodiscard]] std::optional<ProcessNumber> process_number(
    const std::function<const char*(const char*)>& environment);

}  // namespace weir
