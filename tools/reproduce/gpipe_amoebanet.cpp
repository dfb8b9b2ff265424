// GPipe, Tables 2 and 3: how AmoebaNet-D's throughput grows with K and M. No time of a cell on a TPU or P100 is
// published, so each takes what built-in costs say of its sizes (plan/cnn): the longer of its convolutions' FLOPs and
// its bytes at fixed shares of the machine's rates. Nothing is fitted. Every cell hands on its output and, to the next
// but one, a skip; both cross a boundary. Boundaries are balanced by these costs; every stage re-materialises, R not
// waiting for the gradient. SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/cnn/network.hpp"
#include "sim/forecast.hpp"
#include "sim/search/balance.hpp"
#include "tools/reproduce/gpipe.hpp"
#include "tools/reproduce/pipeline.hpp"

namespace weir {
namespace {

constexpr int kBatch = 128;  // of Table 1's AmoebaNets

Seconds amoebanet_step(const Model& model, const Cluster& cluster, int k, int m) {
  Plan plan;
  plan.schedule = "gpipe";
  plan.pp = k;
  plan.microbatches = m;
  plan.micro_batch_size = kBatch / m;
  plan.dtype = cluster.device.peak_bf16.count() > 0 ? Dtype::bf16 : Dtype::fp32;
  plan.recompute = {RecomputeMode::full};
  plan.slots = 0;
  const Costs costs = builtin_costs(model, 0, plan.dtype, cluster);
  plan.boundaries = balanced_boundaries(model, plan, costs, cluster);
  const LoadedPlan loaded{plan, model, named_schedule(plan.schedule, k, 1, m)};
  return forecast(loaded, costs, cluster, {.detail = ForecastDetail::ranking}).forecast.step_time;
}

}  // namespace

CaseResult reproduce_gpipe_amoebanet(const Publications& published) {
  CaseResult result;
  for (const PublishedRow& row : published.table("gpipe-amoebanet.csv")) {
    const auto [k, m, base_k, base_m] = read_gain(row);
    if (k == base_k && m == base_m) continue;
    if (kBatch % m != 0 || kBatch % base_m != 0) row.fail("m", fmt::format("does not divide {} samples", kBatch));
    const std::string file = row.text("cluster") + ".json";
    if (!compiled_tables().contains(file)) row.fail("cluster", "is no file of tools/examples/clusters");
    const Cluster cluster = parse_cluster(compiled_tables().at(file), file);
    const Model model = cnn::amoebanet_d(row.integer("layers"), row.integer("filters"), {}, 1000);
    const double gain = amoebanet_step(model, cluster, base_k, base_m) / amoebanet_step(model, cluster, k, m);
    add_gain(result, {k, m, base_k, base_m},
             {fmt::format("table {}, AmoebaNet-D({},{}) K={} M={}", row.text("table"), row.integer("layers"),
                          row.integer("filters"), k, m),
              fmt::format("throughput over K={} M={}", base_k, base_m), row.printed("throughput"), gain,
              cluster.device.name});
  }
  result.notes.push_back(
      fmt::format("One mini-batch of {}, as in Table 1; the paper adjusted its own from cell to cell and does not "
                  "print it, so ratios "
                  "of its cells mix batch sizes, and nothing tells by how much.",
                  kBatch));
  return result;
}

}  // namespace weir
