// What people read of `weir export`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/export.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {

void print(const app::ExportRequest& request, const app::ExportResult& result) {
  for (const auto& file : result.files) say("{}\n", file.string());
  say("\nlaunch, in {}:\n  {}\n", request.output.string(), result.launch);
  if (!result.not_carried.empty()) say("\nnot carried:\n");
  for (const Remark& remark : result.not_carried) say("  {}: {}\n", remark.name, remark.text);
}

}  // namespace weir
