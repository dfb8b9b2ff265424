// One forecast for each K and layout.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/networks_staged.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "plan/words/error.hpp"
#include "plan/words/indexed.hpp"
#include "sim/layouts/layout_search.hpp"

namespace weir::app {
namespace {

using layout::Network;
using layout::NetworkLayout;
using Json = nlohmann::ordered_json;

StagedJob job_of(const StagesRequest& request, const NetworkJob& job, int stages) {
  StagedJob staged{job, stages, request.schedule};
  staged.job.micro_batches = request.microbatches;
  return staged;
}

void require_stages(const Network& network, const StagedJob& job) {
  if (const auto why = not_staged(network, job))
    throw UsageError(fmt::format("--stages {}: {}", job.stages, *why));
}

// In the order in which they were asked for.
std::vector<int> each_once(const std::vector<int>& asked) {
  std::vector<int> once;
  for (const int one : asked) {
    if (std::ranges::find(once, one) == once.end()) once.push_back(one);
  }
  return once;
}

void require_devices(const Cluster& cluster, std::int64_t devices) {
  const std::int64_t there = std::int64_t{cluster.nodes} * cluster.devices_per_node;
  if (devices > there)
    throw UsageError(
        fmt::format("--stages: {} devices in all, {} has {}", devices, cluster.name, there));
}

}  // namespace

Fields fields(StagesRequest& r) {
  constexpr Range kCounts{1, 1 << 16};
  return {
      {"--stages",
       &r.stages,
       "With --cluster: pipelines of so many stages, each on devices of its own under the layout; "
       "with --devices: each of these with the layouts that are best without stages",
       {.range = kCounts}},
      {"--microbatches",
       &r.microbatches,
       "With --stages: micro-batches of a step",
       {.range = kCounts}},
      {"--schedule", &r.schedule, "With --stages: a schedule's name, of one stage a rank"}};
}

std::vector<StagedRow> staged_rows(const Network& network,
                                   const std::vector<NetworkLayout>& layouts,
                                   const StagesRequest& request, const NetworkJob& job,
                                   const Cluster& cluster) {
  std::vector<StagedRow> rows;
  for (const int stages : each_once(request.stages)) {
    const StagedJob staged = job_of(request, job, stages);
    require_stages(network, staged);
    for (const NetworkLayout& layout : layouts) {
      require_devices(cluster, stages * members(layout, ~layout::Axes{0}));
      rows.push_back({stages, layout, staged_layout(network, layout, staged, cluster)});
    }
  }
  return rows;
}

std::vector<StagedRow> staged_front(const Network& network, int devices,
                                    const StagesRequest& request, const NetworkJob& job,
                                    const Cluster& cluster) {
  std::vector<StagedRow> all;
  require_devices(cluster, devices);
  for (const int stages : each_once(request.stages)) {
    if (devices % stages != 0)
      throw UsageError(fmt::format("--stages {} does not divide --devices {}", stages, devices));
    StagesRequest one = request;
    one.stages = {stages};
    const NetworkJob of_step = job_of(request, job, stages).job;
    require_stages(network, job_of(request, job, stages));
    std::vector<NetworkLayout> layouts;
    for (const FoundLayout& found :
         search_layouts(network, of_step, cluster, {devices / stages}).front)
      layouts.push_back(found.layout);
    for (StagedRow& row : staged_rows(network, layouts, one, job, cluster))
      all.push_back(std::move(row));
  }
  std::ranges::stable_sort(all, [](const StagedRow& a, const StagedRow& b) {
    return std::pair(a.forecast.step_time, a.forecast.memory()) <
           std::pair(b.forecast.step_time, b.forecast.memory());
  });
  std::vector<StagedRow> front;
  for (StagedRow& row : all) {
    // In order of time, only less memory than the last one's is worth having.
    if (front.empty() || row.forecast.memory() < front.back().forecast.memory())
      front.push_back(std::move(row));
  }
  return front;
}

Json to_json(const StagedRow& row, const Network& network, const Cluster& cluster) {
  Json parts = Json::array();
  for (const LayoutStage& stage : row.forecast.stages) {
    parts.push_back({{"first_layer", stage.first},
                     {"layers", stage.layers},
                     {"forward_s", stage.passes[0].count()},
                     {"input_s", stage.passes[1].count()},
                     {"weights_s", stage.passes[2].count()},
                     {"exchanges_s", stage.exchanges.count()},
                     {"step_s", stage.step.count()},
                     {"message_bytes", stage.message.count()},
                     {"in_flight", stage.in_flight},
                     {"memory_bytes", stage.memory().count()}});
  }
  return {{"stages", row.stages},
          {"name", row.layout.name},
          {"mesh", mesh_text(row.layout)},
          {"rules", rules_text(network, row.layout)},
          {"step_time_s", row.forecast.step_time.count()},
          {"bubble_fraction", row.forecast.bubble_fraction},
          {"memory_bytes", row.forecast.memory().count()},
          {"fits", row.forecast.memory() <= cluster.device.memory},
          {"parts", parts}};
}

}  // namespace weir::app
