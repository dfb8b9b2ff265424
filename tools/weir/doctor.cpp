// What people read of `weir doctor`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/doctor.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"

namespace weir {

void print(const app::DoctorRequest&, const app::DoctorResult& result) {
  fmt::print("weir {} on {}\n", WEIR_VERSION, result.machine);
  for (const app::Finding& f : result.findings)
    fmt::print("  {:<3} {:<18} {}\n", f.works ? "yes" : "no", f.what, f.why);
}

}  // namespace weir
