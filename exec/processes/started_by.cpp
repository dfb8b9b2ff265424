// Reads what launchers leave in the environment.
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

std::optional<StartedBy> started_by(const std::function<const char*(const char*)>& environment) {
  if (const int n = number(environment("OMPI_COMM_WORLD_SIZE")); n > 1)
    return StartedBy{n, "mpirun (Open MPI)"};
  if (const int n = number(environment("PMI_SIZE")); n > 1)
    return StartedBy{n, "a launcher that speaks PMI"};
  if (environment("PMIX_RANK") != nullptr) {
    if (const int n = number(environment("SLURM_STEP_NUM_TASKS")); n > 1)
      return StartedBy{n, "srun"};
  }
  return std::nullopt;
}

int started_rank(const std::function<const char*(const char*)>& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (environment(name) != nullptr) return number(environment(name));
  }
  return 0;
}

std::optional<StartedBy> started_without_mpi(
    const std::function<const char*(const char*)>& environment) {
  if (started_by(environment)) return std::nullopt;
  for (const auto& [index, count, by] :
       {std::tuple{"RANK", "WORLD_SIZE", "torchrun"}, {"SLURM_PROCID", "SLURM_NTASKS", "srun"}}) {
    const int processes = number(environment(count));
    if (environment(index) != nullptr && processes > 1) return StartedBy{processes, by};
  }
  return std::nullopt;
}

}  // namespace weir
