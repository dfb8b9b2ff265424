// GPipe, Tables 2 and 3: how AmoebaNet-D's throughput grows with K and M. No time of a cell on a
// TPU or P100 is published, so each takes what built-in costs say of its sizes (plan/model/cnn):
// the longer of its convolutions' FLOPs and its bytes at fixed shares of the machine's rates.
// Nothing is fitted. Every cell hands on its output and, to the next but one, a skip; both cross a
// boundary. Boundaries are balanced by these costs; every stage re-materialises, R not waiting for
// the gradient.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <sstream>

#include "costmodel/table/builtin.hpp"
#include "plan/model/cnn/network.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/search/partitions/balance.hpp"
#include "tools/reproduce/gpipe.hpp"
#include "tools/reproduce/pipeline.hpp"

namespace weir {
namespace {

constexpr int kBatch = 128;  // of Table 1's AmoebaNets

Plan gpipe_plan(int k, int m, int batch) {
  Plan plan;
  plan.schedule = "gpipe";
  plan.pp = k;
  plan.microbatches = m;
  plan.micro_batch_size = batch / m;
  plan.recompute.mode = RecomputeMode::stage;
  plan.slots = 0;
  return plan;
}

// With the plan's boundaries, or balanced ones where it has none.
Seconds step_of(Plan plan, const Model& model, const Cluster& cluster) {
  plan.dtype = cluster.device.peak_bf16.count() > 0 ? Dtype::bf16 : Dtype::fp32;
  const Costs costs = builtin_costs(model, 0, plan.dtype, cluster);
  if (plan.boundaries.empty()) plan.boundaries = balanced_boundaries(model, plan, costs, cluster);
  const ResolvedPlan loaded =
      derive(plan, model, named_schedule(plan.schedule, plan.pp, 1, plan.microbatches));
  return forecast(loaded, costs, cluster, {.detail = ForecastDetail::ranking}).forecast.step_time;
}

Cluster cluster_of(const PublishedRow& row) {
  const std::string file = row.text("cluster") + ".json";
  if (!compiled_tables().contains(file))
    row.fail("cluster", "is no file of tools/examples/clusters");
  return parse_cluster(compiled_tables().at(file), file);
}

// "7 17" are 7 layers and 17: the second stage begins at layer 7.
std::vector<int> boundaries_of(const PublishedRow& row, const Plan& plan, const Model& model) {
  std::istringstream words(row.text("balance"));
  std::vector<int> boundaries;
  int first = 0, count = 0;
  while (words >> count && count > 0) boundaries.push_back(first += count);
  const bool all = static_cast<int>(boundaries.size()) == plan.pp &&
                   first == static_cast<int>(model.layers.size());
  if (!all)
    row.fail("balance",
             fmt::format("expected {} numbers of layers, {} in all", plan.pp, model.layers.size()));
  boundaries.pop_back();
  return boundaries;
}

}  // namespace

CaseResult reproduce_gpipe_amoebanet(const Publications& published) {
  CaseResult result;
  for (const PublishedRow& row : published.table("gpipe-amoebanet.csv")) {
    const auto [k, m, base_k, base_m] = read_gain(row);
    // The row that all others are measured by is 1 by definition.
    if (k == base_k && m == base_m) continue;
    // Unequal micro-batches were not what the paper ran.
    if (kBatch % m != 0 || kBatch % base_m != 0)
      row.fail("m", fmt::format("does not divide {} samples", kBatch));
    // The rate of the machine cancels: both steps are its own.
    const Cluster cluster = cluster_of(row);
    const Model model = cnn::amoebanet_d(row.integer("layers"), row.integer("filters"), {}, 1000);
    const double gain = step_of(gpipe_plan(base_k, base_m, kBatch), model, cluster) /
                        step_of(gpipe_plan(k, m, kBatch), model, cluster);
    add_gain(result, {k, m, base_k, base_m},
             {fmt::format("table {}, AmoebaNet-D({},{}) K={} M={}", row.text("table"),
                          row.integer("layers"), row.integer("filters"), k, m),
              fmt::format("throughput over K={} M={}", base_k, base_m), row.printed("throughput"),
              gain, cluster.device.name});
  }
  result.notes.push_back(
      fmt::format("One mini-batch of {}, as in Table 1; the paper adjusted its own from cell to "
                  "cell and does not "
                  "print it, so ratios "
                  "of its cells mix batch sizes, and nothing tells by how much.",
                  kBatch));
  return result;
}

// The rate cancels in ratios: of the first row, which every other is measured by.
CaseResult reproduce_torchgpipe(const Publications& published) {
  CaseResult result;
  double base_published = 0, base_forecast = 0;
  for (const PublishedRow& row : published.table("torchgpipe-amoebanet.csv")) {
    const Cluster cluster = cluster_of(row);
    const Model model = cnn::amoebanet_d(row.integer("layers"), row.integer("filters"), {}, 1000);
    const int m = row.integer("m"), batch = m * row.share("batch", m);
    Plan plan = gpipe_plan(row.integer("k"), m, batch);
    plan.boundaries = boundaries_of(row, plan, model);
    // torchgpipe may spare the last micro-batch, whose backward comes first.
    plan.recompute.except_last = row.text("checkpoint") == "except_last";
    const double rate = batch / step_of(plan, model, cluster).count(),
                 measured = row.number("samples_per_s");
    // The first row of the table is the measure: it sets the rate, and is no forecast.
    if (base_published == 0) {
      base_published = measured;
      base_forecast = rate;
      continue;
    }
    // A printed ratio is as exact as the printed numbers behind it.
    const Printed ratio{measured / base_published,
                        row.printed("samples_per_s").last_digit / base_published};
    result.add(Role::predicted,
               {fmt::format("AmoebaNet-D({},{}) K={} M={}", row.integer("layers"),
                            row.integer("filters"), plan.pp, m),
                "throughput over the first row", ratio, rate / base_forecast, cluster.device.name});
  }
  result.notes.emplace_back(
      "The same network, rule and costs as gpipe-amoebanet, where batch, partition and "
      "checkpointed micro-batches are "
      "stated for each row.");
  return result;
}

}  // namespace weir
