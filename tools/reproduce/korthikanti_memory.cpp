// Korthikanti et al. (2022): memory of the first device, from costmodel/memory/korthikanti and the
// order of the schedule.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "costmodel/memory/korthikanti.hpp"
#include "tools/reproduce/pipeline.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

constexpr double kGib = 1 << 30;

struct KorthikantiRow {
  KorthikantiBlock block;
  int layers = 0;
  Schedule schedule;
};

KorthikantiRow read_row(const PublishedRow& cells) {
  const int p = cells.integer("pipeline_parallel"), v = cells.integer("interleave");
  const int m = cells.share("global_batch", cells.integer("micro_batch"));
  return {{2048, cells.integer("micro_batch"), cells.integer("hidden"), cells.integer("heads"),
           cells.integer("tensor_parallel")},
          cells.integer("layers"),
          named_schedule(v == 1 ? "1f1b" : "interleaved-1f1b", p, v, m)};
}

// On the rank that holds most, in GiB, of `layer` bytes a layer and micro-batch.
double held_gib(const KorthikantiRow& row, Bytes layer) {
  const std::vector<Bytes> stages(static_cast<std::size_t>(row.schedule.shape.stages),
                                  layer * (row.layers / row.schedule.shape.stages));
  const std::vector<Bytes> peaks = peak_held(row.schedule, stages);
  return static_cast<double>(std::max_element(peaks.begin(), peaks.end())->count()) / kGib;
}

}  // namespace

CaseResult reproduce_korthikanti_memory(const Publications& published) {
  CaseResult result;
  for (const PublishedRow& cells : published.table("korthikanti-models.csv")) {
    const KorthikantiRow row = read_row(cells);
    const auto add = [&](Role role, const char* quantity, const char* column, double value) {
      result.add(role, {cells.text("model"), quantity, cells.printed(column), value});
    };
    const KorthikantiBlock& x = row.block;
    const double h = static_cast<double>(x.h), t = static_cast<double>(x.t);
    // The share of each technique is of what tensor parallelism alone keeps.
    const double baseline = held_gib(row, korthikanti_tensor(x));
    // 18 bytes: the fp16 weight, and in fp32 gradient, weight and two moments.
    add(Role::formula, "parameters and optimizer, GiB (12 L h^2 18 B / (t p))", "state_gib",
        12 * row.layers * h * h * 18 / (t * row.schedule.shape.ranks) / kGib);
    add(Role::formula, "activations, GiB, tensor parallel", "baseline_gib", baseline);
    add(Role::formula, "activations, GiB, sequence parallel and selective",
        "sequence_selective_gib", held_gib(row, korthikanti_sequence_selective(x)));
    const auto percent = [&](const char* quantity, const char* column, Bytes layer) {
      add(Role::predicted, quantity, column, held_gib(row, layer) / baseline * 100);
    };
    percent("% of baseline, sequence parallel", "sequence_percent", korthikanti_sequence(x));
    percent("% of baseline, selective", "selective_percent", korthikanti_tensor_selective(x));
    percent("% of baseline, sequence parallel and selective", "sequence_selective_percent",
            korthikanti_sequence_selective(x));
    percent("% of baseline, full", "full_percent", korthikanti_full(x));
  }
  result.notes.emplace_back(
      "In flight by the schedule's own order: L layers' worth on 1F1B's first rank, (1 + (p - 1) / "
      "(p v)) of that "
      "interleaved.");
  result.notes.emplace_back(
      "Percentages were read from bars (Calculon's Figure 7), so their last digits are not exact.");
  return result;
}

}  // namespace weir
