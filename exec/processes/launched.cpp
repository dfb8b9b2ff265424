// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/launched.hpp"

#include <charconv>
#include <cstring>
#include <utility>

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
      return Launched{n, "srun", false};
  }
  return std::nullopt;
}

std::optional<ProcessNumber> process_number(
    const std::function<const char*(const char*)>& environment) {
  for (const auto& [index, count] :
       {std::pair{"RANK", "WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}}) {
    if (environment(index) == nullptr || environment(count) == nullptr) continue;
    return ProcessNumber{number(environment(index)), number(environment(count))};
  }
  return std::nullopt;
}

}  // namespace weir
