// Texts that all processes have in the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "exec/processes/processes.hpp"

namespace weir {

// Collective: every process gives its own text and gets everybody's, by index. Throws
// Transport::Stopped once a process has failed.
[[nodiscard]] std::vector<std::string> all_gather(Processes& processes, const std::string& own);

}  // namespace weir
