// What MPI this build speaks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

struct MpiFacts {
  std::string version;  // the library's, "Open MPI v4.1.4"
  std::string start;    // how a run is started
};

[[nodiscard]] MpiFacts mpi_facts();

}  // namespace weir
