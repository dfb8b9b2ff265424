// What people read of `weir doctor`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/machine/doctor.hpp"

#include <fmt/format.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

void print(Printout& out, const app::DoctorRequest&, const app::DoctorResult& result) {
  out.say("weir {} on {}\n", WEIR_VERSION, result.machine);
  for (const app::Finding& f : result.findings)
    out.say("  {:<3} {:<18} {}\n", f.works ? "yes" : "no", f.what, f.why);
  std::string file;
  for (const app::KnownConstant& c : result.constants) {
    if (c.file != file) out.say("\n{}\n", file = c.file);
    const Origin& origin = c.origin;
    const std::string rows = origin.rows ? fmt::format(" [{} rows]", *origin.rows) : "";
    out.say("  {:<44} {:<14} {}{}\n", c.key, c.value, origin.source, rows);
    if (!origin.chosen_seeing.empty())
      out.say("  {:<59} chosen seeing {}\n", "", origin.chosen_seeing);
  }
}

}  // namespace weir
