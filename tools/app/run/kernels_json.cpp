// The kernels of a run as JSON: what ran, and how much of each action nothing did.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/kernels_json.hpp"

#include <nlohmann/json.hpp>

#include "plan/words/units.hpp"
#include "traces/kernel_table.hpp"

namespace weir {
namespace {

double seconds(Nanoseconds time) { return Seconds(time).count(); }

}  // namespace

nlohmann::ordered_json kernels_json(const Trace& trace, const KernelTrace& kernels) {
  const KernelTable table = tabulate(trace, kernels);
  nlohmann::ordered_json json{{"total_s", seconds(table.total)},
                              {"by_name", nlohmann::ordered_json::array()}};
  for (const KernelRow& row : table.kernels) {
    json["by_name"].push_back({{"name", row.name},
                               {"calls", row.calls},
                               {"total_s", seconds(row.total)},
                               {"share", row.share}});
  }
  json["others"] = {{"names", table.other_names},
                    {"calls", table.others.calls},
                    {"total_s", seconds(table.others.total)},
                    {"share", table.others.share}};
  json["by_action"] = nlohmann::ordered_json::array();
  for (const ActionRow& row : table.actions) {
    json["by_action"].push_back({{"action", to_string(row.kind)},
                                 {"actions", row.actions},
                                 {"kernels", row.kernels},
                                 {"time_s", seconds(row.time)},
                                 {"idle_s", seconds(row.idle)},
                                 {"idle_share", row.idle_share()}});
  }
  json["outside_actions"] = kernels.outside;
  json["untimed"] = kernels.untimed;
  json["dropped_records"] = kernels.dropped;
  json["clock"] = {{"uncertainty_s", seconds(kernels.uncertainty)},
                   {"overhang_s", seconds(kernels.overhang)}};
  return json;
}

}  // namespace weir
