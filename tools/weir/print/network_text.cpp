// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/network_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/words/figures.hpp"
#include "plan/words/indexed.hpp"

namespace weir {
namespace {

std::string mesh_of(const layout::NetworkLayout& layout) {
  return layout.mesh.empty() ? "one device" : mesh_text(layout);
}

std::string milliseconds_of(Seconds time) { return fmt::format("{:.3f}", time.count() * 1e3); }

std::string text_of(double value) { return fmt::format("{:.0f}", value); }

// In a column that is called after milliseconds, for people.
Column milliseconds_column(const std::string& head) {
  return {head + " ms", Column::Align::right, head};
}
Cell cell_of(Seconds time) { return number(time.count(), milliseconds_of(time), "s"); }
Cell cell_of(double value) { return number(value, text_of(value)); }

std::string name_of(const layout::NetworkLayer& layer) {
  return layer.repeat > 1 ? fmt::format("{} x {}", layer.name, layer.repeat) : layer.name;
}

// "8 x 512 x 128" of a device's block.
std::string shape_of(const layout::Network& network, const layout::NetworkLayout& layout,
                     const std::vector<int>& dimensions) {
  std::vector<std::int64_t> sizes;
  for (const int d : dimensions)
    sizes.push_back(network.dimensions[at(d)].size / members(layout, layout.over[at(d)]));
  return sizes.empty() ? "1" : fmt::format("{}", fmt::join(sizes, " x "));
}

// " x 32" for each of 32 steps.
std::string times_text(std::int64_t times) { return times == 1 ? "" : fmt::format(" x {}", times); }

// Where a tensor that no operation makes comes from.
std::string given_by(const layout::Network& network, const layout::NetworkLayer& layer,
                     std::size_t tensor) {
  const auto sources = sources_of(network, layer);
  for (std::size_t g = 0; g < sources.size(); ++g) {
    if (layer.given[g].tensor == static_cast<int>(tensor)) return "given by " + sources[g];
  }
  return "given";
}

// What a device holds of each tensor, and what of it waits for the backward.
void print_tensors(Printout& out, const app::NetworksResult& result,
                   const layout::NetworkLayout& layout) {
  Table table{{left("layer"),
               left("tensor"),
               left("made by"),
               left("a device's block"),
               {"elements"},
               left(""),
               left("kept until")},
              {},
              {}};
  // People read "512 x 32" in one cell.
  if (out.for_programs()) table.columns.push_back({"times"});
  for (std::size_t l = 0; l < result.network.layers.size(); ++l) {
    const layout::NetworkLayer& layer = result.network.layers[l];
    const layout::LayerShare share = layer_share(result.network, layout, l);
    for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
      const layout::NetworkTensor& tensor = layer.tensors[t];
      const auto made =
          std::ranges::find(layer.operations, static_cast<int>(t), &layout::Operation::output);
      const auto kept = std::ranges::find_if(share.kept, [t](const layout::Kept& one) {
        return one.tensor == static_cast<int>(t) && !one.statistics;
      });
      const std::int64_t times = times_of(result.network, layer, static_cast<int>(t));
      const double elements = block_elements(result.network, layout, tensor.dimensions);
      table.rows.push_back({name_of(layer), to_text(result.network, tensor),
                            made == layer.operations.end() ? given_by(result.network, layer, t)
                                                           : to_text(result.network, layer, *made),
                            block_text(result.network, layout, tensor.dimensions),
                            number(elements, text_of(elements) + times_text(times)),
                            shape_of(result.network, layout, tensor.dimensions),
                            kept == share.kept.end() ? ""
                            : kept->until_w          ? "W"
                                                     : "I"});
      if (out.for_programs()) table.rows.back().emplace_back(times);
    }
  }
  out.show(table);
}

void print_exchanges(Printout& out, const app::NetworksResult& result,
                     const layout::NetworkLayout& layout) {
  Table table{
      {left("layer"), left("pass"), left("tensor"), left("collective"), left("over"), {"bytes"}},
      {},
      {}};
  if (result.cluster) table.columns.push_back({"ms", Column::Align::right, "time"});
  if (out.for_programs()) table.columns.push_back({"times"});
  for (std::size_t l = 0; l < result.network.layers.size(); ++l) {
    const layout::NetworkLayer& layer = result.network.layers[l];
    const std::string name = name_of(layer);
    for (const layout::Exchange& e : layer_share(result.network, layout, l).exchanges) {
      const std::int64_t devices = members(layout, e.axes);
      Cell bytes = exchanged_bytes(e, result.job.dtype);
      bytes.text += times_text(e.times);
      std::vector<Cell> row{name,
                            std::string(to_string(e.pass)),
                            (e.gradient ? "d " : "") + layer.tensors[at(e.tensor)].name,
                            std::string(to_string(e.collective)),
                            axes_text(layout, e.axes),
                            bytes};
      if (result.cluster) {
        row.push_back(cell_of(exchange_time(e, devices, result.job.dtype,
                                            axes_link(layout, e.axes, *result.cluster)) *
                              static_cast<double>(e.times)));
      }
      if (out.for_programs()) row.emplace_back(e.times);
      table.rows.push_back(std::move(row));
    }
  }
  if (table.rows.empty()) return out.say("nothing is exchanged\n");
  out.show(table);
}

void print_cost(Printout& out, const app::NetworksResult& result,
                const layout::NetworkLayout& layout) {
  if (!result.cluster) return;
  const NetworkCost cost = network_cost(result.network, layout, result.job, *result.cluster);
  out.say(
      "a step on {}: {} ms = {} products + {} exchanges + {} gradients once a step; {} a device "
      "= {} weights' state + {} kept: {}\n",
      printable_in_line(result.cluster->name), milliseconds_of(cost.time()),
      milliseconds_of(cost.products), milliseconds_of(cost.exchanges),
      milliseconds_of(cost.reductions), format_bytes(cost.memory()), format_bytes(cost.state),
      format_bytes(cost.kept),
      cost.memory() <= result.cluster->device.memory ? "fits" : "does not fit");
}

std::vector<Cell> costs_of(const NetworkCost& cost) {
  return {cell_of(cost.time()), cell_of(cost.products), cell_of(cost.exchanges),
          cell_of(cost.reductions), cost.memory()};
}

void print_front(Printout& out, const app::NetworksResult& result) {
  const FoundLayouts& found = *result.found;
  // The fastest of those that fit.
  const FoundLayout* best = found.best(result.cluster->device.memory);
  out.say(
      "{} meshes, {} placings of a layer priced; no legal layout is faster and no larger than one "
      "of these (proof: all of them):\n",
      found.meshes, found.examined);
  Table table{{left("layout"),
               left("mesh"),
               left("rules"),
               milliseconds_column("step"),
               {"products"},
               {"exchanges"},
               {"gradients"},
               {"memory"},
               left("")},
              {},
              {}};
  for (const FoundLayout& one : found.front) {
    table.rows.push_back(
        {one.layout.name, mesh_of(one.layout), rules_text(result.network, one.layout),
         cell_of(one.cost.time()), cell_of(one.cost.products), cell_of(one.cost.exchanges),
         cell_of(one.cost.reductions), one.cost.memory(), &one == best ? "best that fits" : ""});
  }
  out.show(table);
  if (best == nullptr) {
    out.say("none fits into the {} of a device\n", format_bytes(result.cluster->device.memory));
  }
}

// The fastest of each mesh: what its shape is worth.
void print_meshes(Printout& out, const app::NetworksResult& result) {
  Table table{{left("mesh"),
               milliseconds_column("step"),
               {"products"},
               {"exchanges"},
               {"gradients"},
               {"memory"},
               left("best rules that fit")},
              {},
              {}};
  for (const MeshFront& one : result.found->by_mesh) {
    layout::NetworkLayout mesh;
    mesh.mesh = one.mesh;
    const FoundLayout* best = one.best(result.cluster->device.memory);
    std::vector<Cell> row{mesh_of(mesh)};
    for (const Cell& cell : best == nullptr ? std::vector<Cell>(5) : costs_of(best->cost))
      row.push_back(cell);
    row.emplace_back(best == nullptr ? "none" : rules_text(result.network, best->layout));
    table.rows.push_back(std::move(row));
  }
  out.say("By the mesh's shape:\n");
  out.show(table);
}

void print_shapes(Printout& out, const app::NetworksResult& result) {
  Table table{{left("mesh"),
               milliseconds_column("step"),
               {"products"},
               {"exchanges"},
               {"gradients"},
               {"memory"},
               left("")},
              {},
              {}};
  for (const ShapedLayout& one : *result.shapes) {
    std::vector<Cell> row{mesh_of(one.layout)};
    for (const Cell& cell : one.why ? std::vector<Cell>(5) : costs_of(one.cost))
      row.push_back(cell);
    const bool fits = one.cost.memory() <= result.cluster->device.memory;
    row.emplace_back(one.why ? *one.why : fits ? "fits" : "does not fit");
    table.rows.push_back(std::move(row));
  }
  out.say("The rules on every mesh of so many devices; the last mesh dimension has neighbours:\n");
  out.show(table);
}

// A pipeline's stages, one after the other.
void print_parts(Printout& out, const StagedLayout& pipeline) {
  Table table{{{"stage"},
               {"layers"},
               milliseconds_column("F"),
               milliseconds_column("I"),
               milliseconds_column("W"),
               {"exchanges"},
               {"once a step"},
               {"sends"},
               {"in flight"},
               {"memory"}},
              {},
              {}};
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const LayoutStage& stage = pipeline.stages[s];
    table.rows.push_back({s, fmt::format("{}-{}", stage.first, stage.first + stage.layers - 1),
                          cell_of(stage.passes[0]), cell_of(stage.passes[1]),
                          cell_of(stage.passes[2]), cell_of(stage.exchanges), cell_of(stage.step),
                          s + 1 == pipeline.stages.size() ? "" : Cell(stage.message),
                          stage.in_flight, stage.memory()});
  }
  out.show(table);
}

// Of several the fastest that fits, the fastest where none does.
const app::StagedRow& row_in_full(const std::vector<app::StagedRow>& rows, Bytes memory) {
  return *std::ranges::min_element(rows, {}, [memory](const app::StagedRow& row) {
    return std::pair(row.forecast.memory() > memory, row.forecast.step_time);
  });
}

void print_staged(Printout& out, const app::NetworksResult& result) {
  out.say("Pipelines, the layout inside each stage; layers count repetitions, from 0:\n");
  Table table{{{"stages"},
               left("layout"),
               left("mesh of a stage"),
               left("rules"),
               milliseconds_column("step"),
               {"bubble"},
               {"memory"},
               left("")},
              {},
              {}};
  for (const app::StagedRow& row : result.staged) {
    const bool fits = row.forecast.memory() <= result.cluster->device.memory;
    table.rows.push_back({row.stages, row.layout.name, mesh_of(row.layout),
                          rules_text(result.network, row.layout), cell_of(row.forecast.step_time),
                          percent(row.forecast.bubble_fraction, "{:.1f} %"), row.forecast.memory(),
                          fits ? "fits" : "does not fit"});
  }
  out.show(table);
  const app::StagedRow& shown = row_in_full(result.staged, result.cluster->device.memory);
  out.say("The stages of K = {} under layout {}{}:\n", shown.stages,
          printable_in_line(shown.layout.name),
          result.staged.size() == 1                                  ? ""
          : shown.forecast.memory() <= result.cluster->device.memory ? ", the fastest that fits"
                                                                     : ", the fastest; none fits");
  print_parts(out, shown.forecast);
}

void print_run(Printout& out, const app::NetworksResult& result) {
  const NetworksRunResult& run = *result.run;
  const Cluster& machine = *result.cluster;
  out.say(
      "Run on {} {}, forward and backward, medians of {} interleaved rounds, ms a worker; a "
      "core's rates, all busy: products {:.2f} GFLOP/s, exchanges {:.1f} us + {:.2f} GB/s\n",
      run.workers, run.processes.empty() ? "workers" : "processes over " + run.processes,
      run.rounds, machine.device.peak_fp32.count() / 1e9, machine.intra.latency.count() * 1e6,
      machine.intra.bandwidth.count() / 1e9);
  Table table{{left("layout"),
               left("mesh"),
               left("rules"),
               {"predicted"},
               {"measured"},
               {"spread"},
               {"= products"},
               {"+ exchanges"},
               {"elementwise"},
               {"step"},
               {"exchanged"},
               {"of derived"},
               {"in order"},
               {"reordered"}},
              {},
              {}};
  for (const NetworkRunRow& row : run.rows) {
    const double share =
        row.derived_elements > 0 ? row.exchanged_elements / row.derived_elements : 1;
    table.rows.push_back(
        {row.layout.name, mesh_of(row.layout), rules_text(result.network, row.layout),
         cell_of(row.predicted.time()), cell_of(row.priced()),
         row.spread ? percent(*row.spread, "{:.0f} %") : "", cell_of(row.products),
         cell_of(row.exchanges), cell_of(row.elementwise), cell_of(row.step),
         cell_of(row.exchanged_elements), percent(share, "{:.0f} %"),
         row.in_order == 0 ? "equal" : number(row.in_order, fmt::format("{:.1e}", row.in_order)),
         number(row.reordered, fmt::format("{:.1e}", row.reordered))});
  }
  out.show(table);
  out.say(
      "Every block against the unsplit computation: equal bits where its sums keep that one's "
      "order, else the largest difference over the tensor's largest number. Multiply-adds are the "
      "derived ones, and so are the bytes of a run's blocks, which hold no optimizer's state and "
      "which the rules optimizer and gradients do not divide. Measured by the workers' core "
      "clocks, the step by the wall clock; spread: interquartile range of measured over its "
      "median.\n");
  if (run.pairs > 0) {
    out.say("Of {} pairs that are predicted to differ by more than 5 %, {} are so measured.\n",
            run.pairs, run.pairs_right);
  }
  if (run.oversubscribed) out.say("oversubscribed: more workers than cores\n");
}

}  // namespace

void print_networks(Printout& out, const app::NetworksResult& result) {
  std::vector<std::string> sizes;
  for (const layout::Dimension& d : result.network.dimensions)
    sizes.push_back(fmt::format("{} {}", d.name, d.size));
  out.say("{} in {}: {}\n", printable_in_line(result.network.name), to_string(result.job.dtype),
          fmt::join(sizes, ", "));
  if (result.run) return print_run(out, result);
  if (!result.staged.empty()) return print_staged(out, result);
  if (result.shapes) return print_shapes(out, result);
  if (result.found) {
    print_front(out, result);
    print_meshes(out, result);
    if (!result.least_live) return;
    const LeastLive& least = *result.least_live;
    return out.say(
        "Fewest bytes of tensors that live at once (Mesh-TensorFlow's measure; proof: all meshes "
        "and rules): {} by {} on {}\n",
        format_bytes(least.bytes), rules_text(result.network, least.layout), mesh_of(least.layout));
  }
  for (const layout::NetworkLayout& layout : result.layouts) {
    out.say("{}: {} on mesh {}, a device and a micro-batch:\n", printable_in_line(layout.name),
            rules_text(result.network, layout), mesh_of(layout));
    print_tensors(out, result, layout);
    print_exchanges(out, result, layout);
    print_cost(out, result, layout);
  }
}

}  // namespace weir
