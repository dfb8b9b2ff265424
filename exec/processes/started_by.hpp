// Whether a launcher started this process as one of several, by what it left in the environment. No
// MPI is asked: starting MPI costs time, and where nobody started several it is not needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace weir {

struct StartedBy {
  int processes = 1;
  std::string by;  // "mpirun (Open MPI)"
};

// Nothing where this process stands alone. `environment` gives a variable's value or null
// (std::getenv).
//   Open MPI's mpirun                     OMPI_COMM_WORLD_SIZE
//   MPICH's and Intel's, srun --mpi=pmi2  PMI_SIZE
//   srun --mpi=pmix                       PMIX_RANK, and SLURM_STEP_NUM_TASKS: Slurm's alone are
//                                         also set in a batch script
[[nodiscard]] std::optional<StartedBy> started_by(
    const std::function<const char*(const char*)>& environment);

// Which of them this process is; 0 where nobody says so. Known before MPI is.
[[nodiscard]] int started_rank(const std::function<const char*(const char*)>& environment);

// A launcher that started several processes and gave them no MPI to meet by.
//   torchrun         RANK, WORLD_SIZE: first, since it may stand in a Slurm job of its own
//   srun --mpi=none  SLURM_PROCID, SLURM_NTASKS
[[nodiscard]] std::optional<StartedBy> started_without_mpi(
    const std::function<const char*(const char*)>& environment);

}  // namespace weir
