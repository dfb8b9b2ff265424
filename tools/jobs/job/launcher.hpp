// The programs that start a training on its devices, by their command lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

// Whether an option is a launcher's by its name, where no program stands behind it that tells them
// apart from the training's.
[[nodiscard]] bool is_launchers(std::string_view name);

// Processes, one a device, that a command starts: "mpirun -np 64", "srun -n 64", "srun -N 8
// --ntasks-per-node 8", "jsrun -n 8 -g 6". nullopt where it is none of these or does not say.
[[nodiscard]] std::optional<std::int64_t> launched_processes(
    const std::vector<std::string>& command);

}  // namespace weir
