// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/started_by.hpp"

#include <charconv>
#include <cstring>
#include <tuple>

namespace weir {
namespace {

int number(const char* text) {
  int value = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

std::optional<Launched> launched(const std::function<const char*(const char*)>& environment) {
  if (const int n = number(environment("OMPI_COMM_WORLD_SIZE")); n > 1)
    return Launched{n, "mpirun (Open MPI)"};
  if (const int n = number(environment("PMI_SIZE")); n > 1)
    return Launched{n, "a launcher that speaks PMI"};
  if (environment("PMIX_RANK") != nullptr) {
    if (const int n = number(environment("SLURM_STEP_NUM_TASKS")); n > 1)
      return Launched{n, "srun"};
  }
  return std::nullopt;
}

std::optional<Launched> launched_without_mpi(
    const std::function<const char*(const char*)>& environment) {
  if (launched(environment)) return std::nullopt;
  for (const auto& [index, count, by] :
       {std::tuple{"RANK", "WORLD_SIZE", "torchrun"}, {"SLURM_PROCID", "SLURM_NTASKS", "srun"}}) {
    const int processes = number(environment(count));
    if (environment(index) != nullptr && processes > 1) return Launched{processes, by};
  }
  return std::nullopt;
}

}  // namespace weir
