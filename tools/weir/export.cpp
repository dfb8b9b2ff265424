// What people read of `weir export`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/jobs/export.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

void print_changes(Printout& out, const std::vector<ArgumentChange>& changes) {
  for (const ArgumentChange& c : changes) {
    if (!c.after) {
      out.say("remove  --{}{}\n", c.name, c.before->empty() ? "" : " " + *c.before);
      continue;
    }
    const std::string value =
        c.after->find('|') != std::string::npos ? "'" + *c.after + "'" : *c.after;
    const std::string argument = fmt::format("--{}{}{}", c.name, value.empty() ? "" : " ", value);
    out.say("{}  {}{}\n", c.before ? "change" : "add   ", argument,
            c.before ? fmt::format("  (was {})", *c.before) : "");
  }
}

void print_patch(Printout& out, const std::string& script, const Patch& patch) {
  if (patch.changes.empty())
    out.say("{}: {} to change\n", script, patch.difference.empty() ? "nothing" : "no argument");
  print_changes(out, patch.changes);
  if (patch.devices_before && *patch.devices_before != patch.devices)
    out.say("\non {} devices (was {})\n", patch.devices, *patch.devices_before);
  if (!patch.difference.empty()) out.say("\n{}", patch.difference);
  if (!patch.not_edited.empty()) out.say("\nnot edited:\n");
  for (const Remark& remark : patch.not_edited) out.say("  {}: {}\n", remark.name, remark.text);
  if (!patch.remarks.empty()) out.say("\nnot carried:\n");
  for (const Remark& remark : patch.remarks) out.say("  {}: {}\n", remark.name, remark.text);
}

}  // namespace

void print(Printout& out, const app::ExportRequest& request, const app::ExportResult& result) {
  if (result.patch) return print_patch(out, request.patch->string(), *result.patch);
  for (const auto& file : result.files) out.say("{}\n", file.string());
  if (!result.launch.empty())
    out.say("\nlaunch, in {}:\n  {}\n", request.output.string(), result.launch);
  if (!result.changes.empty()) out.say("\nagainst the job's own arguments:\n");
  print_changes(out, result.changes);
  if (!result.not_carried.empty()) out.say("\nnot carried:\n");
  for (const Remark& remark : result.not_carried) out.say("  {}: {}\n", remark.name, remark.text);
}

}  // namespace weir
