// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/layout_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/words/figures.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

using layout::Polynomial;
using Rows = std::vector<std::vector<Cell>>;

// The first row has the heads; a row may end before the last column.
Table table_of(const Rows& rows) {
  Table table{{}, {rows.begin() + 1, rows.end()}, {}};
  for (const Cell& head : rows.front()) table.columns.push_back(left(head.text));
  for (auto& row : table.rows) row.resize(table.columns.size());
  return table;
}

// "b*d_io/n = 65536"; a zero is only a zero.
std::string with_value(const Polynomial& polynomial, const layout::Symbols& symbols) {
  if (polynomial.terms().empty()) return "0";
  return fmt::format("{} = {:.0f}", to_text(polynomial, symbols), value(polynomial, symbols));
}

const layout::NamedTensor& output_of(const layout::Program& program, std::size_t einsum) {
  return program.tensors[static_cast<std::size_t>(program.einsums[einsum].output)];
}

std::string shape_text(const layout::Program& program, const layout::Layout& layout,
                       const layout::NamedTensor& tensor) {
  return fmt::format("{}", fmt::join(local_shape(program, layout, tensor), " x "));
}

// "d_io*d_h (dv, dw), b*d_io (y)": the einsums each term of the communication comes from.
std::string sources(const layout::Program& program, const LayoutCost& cost) {
  std::vector<std::string> terms;
  for (const auto& [powers, coefficient] : cost.communication.terms()) {
    std::vector<std::string> names;
    for (std::size_t e = 0; e < cost.einsums.size(); ++e) {
      if (cost.einsums[e].communication == Polynomial(powers))
        names.push_back(output_of(program, e).name);
    }
    terms.push_back(
        fmt::format("{} by {}", to_text(powers, cost.symbols), fmt::join(names, " and ")));
  }
  return terms.empty() ? "none" : fmt::format("{}", fmt::join(terms, "; "));
}

void print_derivation(Printout& out, const layout::Program& program, const layout::Layout& layout) {
  const LayoutCost cost = layout_cost(program, layout);
  out.say("{}: {} on mesh {}\n", printable_in_line(layout.name), rules_text(program, layout),
          mesh_text(layout));
  Rows rows{{"", "its block", "multiply-adds", "all-reduced over", "elements", "memory"}};
  const auto memory_of = [&](const layout::NamedTensor& tensor) {
    return with_value(Polynomial(local_size(program, layout, tensor.dimensions)), cost.symbols);
  };
  std::vector<bool> counted(program.tensors.size(), false);
  // A tensor that some einsum makes is told with that einsum; the others are given.
  for (const layout::Einsum& einsum : program.einsums)
    counted[static_cast<std::size_t>(einsum.output)] = true;
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const layout::NamedTensor& tensor = program.tensors[t];
    if (!counted[t]) {
      rows.push_back({"  " + tensor.name + " given", shape_text(program, layout, tensor), "", "",
                      "", memory_of(tensor)});
    }
    counted[t] = false;
  }
  for (std::size_t e = 0; e < program.einsums.size(); ++e) {
    const layout::NamedTensor& output = output_of(program, e);
    const EinsumCost& one = cost.einsums[e];
    std::vector<std::string> over;
    for (const int m : one.all_reduced_over)
      over.push_back(layout.mesh[static_cast<std::size_t>(m)].name);
    // A tensor that two einsums make is a sum: its memory is counted once.
    const bool again = counted[static_cast<std::size_t>(program.einsums[e].output)];
    counted[static_cast<std::size_t>(program.einsums[e].output)] = true;
    rows.push_back(
        {"  " + to_text(program, program.einsums[e]), shape_text(program, layout, output),
         with_value(Polynomial(one.computation), cost.symbols),
         over.empty() ? "-" : fmt::format("{}", fmt::join(over, ", ")),
         with_value(one.communication, cost.symbols), again ? "added to it" : memory_of(output)});
  }
  out.show(table_of(rows));
  out.say("  in all: {} multiply-adds, {} elements all-reduced, {} elements of memory\n",
          with_value(cost.computation, cost.symbols), with_value(cost.communication, cost.symbols),
          with_value(cost.memory, cost.symbols));
  out.say("  communication comes from: {}\n\n", sources(program, cost));
}

Cell count_cell(double count) { return number(count, fmt::format("{:.0f}", count)); }

void print_tables(Printout& out, const layout::LayoutFile& file) {
  Rows formulas{{"layout", "rules", "computation", "communication", "communication / computation",
                 "memory a processor"}};
  Rows numbers{{"layout", "mesh", "computation", "communication", "ratio", "memory",
                "with constants: multiply-adds", "all-reduced", "memory (fp32)"}};
  for (const layout::Layout& layout : file.layouts) {
    const LayoutCost cost = layout_cost(file.program, layout);
    const LayoutNumbers all = layout_numbers(file.program, layout);
    // Formulas leave constants out, as papers do; the last columns have them.
    const Polynomial computation = cost.computation.without_constants();
    const Polynomial communication = cost.communication.without_constants();
    const Polynomial memory = cost.memory.without_constants();
    // A ratio of two sums may not be a polynomial: then it is written as what it is.
    const auto ratio = communication_per_computation(cost);
    formulas.push_back({layout.name, rules_text(file.program, layout),
                        to_text(computation, cost.symbols), to_text(communication, cost.symbols),
                        ratio ? to_text(*ratio, cost.symbols) : "(communication)/(computation)",
                        to_text(memory, cost.symbols)});
    const double work = value(computation, cost.symbols);
    const double sent = value(communication, cost.symbols);
    numbers.push_back({layout.name, mesh_text(layout), count_cell(work), count_cell(sent),
                       number(sent / work, format_figure(sent / work, 3)),
                       count_cell(value(memory, cost.symbols)), count_cell(all.multiply_adds),
                       count_cell(all.reduced_elements), all.memory});
  }
  out.say("A processor, constants dropped:\n");
  out.show(table_of(formulas));
  out.say("\nThe same in numbers:\n");
  out.show(table_of(numbers));
  out.say("\n");
}

// The terms of a layout's communication, constants dropped, that no einsum of [first, last)
// accounts for.
Polynomial missing_communication(const LayoutCost& cost, int first, int last) {
  Polynomial some;
  for (int e = first; e < last; ++e)
    some += cost.einsums[static_cast<std::size_t>(e)].communication;
  Polynomial missing;
  for (const auto& [powers, coefficient] : cost.communication.terms()) {
    if (!some.terms().contains(powers)) missing += Polynomial(powers);
  }
  return missing;
}

// Which einsums the table speaks of: what it would lose without the others.
void print_coverage(Printout& out, const layout::LayoutFile& file) {
  const int all = static_cast<int>(file.program.einsums.size());
  const int forward = file.program.forward;
  const auto lost = [&](int first, int last) {
    std::vector<std::string> rows;
    for (const layout::Layout& layout : file.layouts) {
      const LayoutCost cost = layout_cost(file.program, layout);
      // What this part sends and the others do not.
      const Polynomial missing = missing_communication(cost, first, last);
      if (!missing.terms().empty())
        rows.push_back(fmt::format("{} of {}", to_text(missing, cost.symbols), layout.name));
    }
    return rows.empty() ? "nothing" : fmt::format("{}", fmt::join(rows, ", "));
  };
  out.say(
      "The table covers the {} forward and {} backward einsums; elementwise work is not counted.\n",
      forward, all - forward);
  out.say("The forward einsums alone would lose of the communication: {}.\n", lost(0, forward));
  out.say("The backward einsums alone would lose of it: {}.\n", lost(forward, all));
}

constexpr double kQuiet = 0.5;  // preemptions a step that hardly show in a median

Cell milliseconds(Seconds time) {
  return number(time.count(), fmt::format("{:.2f}", time.count() * 1e3), "s");
}

}  // namespace

void print_layouts(Printout& out, const layout::LayoutFile& file) {
  std::vector<std::string> sizes;
  for (const layout::Dimension& dimension : file.program.dimensions) {
    sizes.push_back(fmt::format("{} {} = {}", dimension.name, dimension.symbol, dimension.size));
  }
  out.say("{}: {}\n", printable_in_line(file.name), fmt::join(sizes, ", "));
  out.say(
      "Rule: a dimension on a mesh dimension is divided by it in every tensor; an einsum runs on "
      "the blocks; its\n"
      "output's block is all-reduced over the mesh dimensions that its summed dimensions are "
      "on.\n\n");
  for (const layout::Layout& layout : file.layouts) print_derivation(out, file.program, layout);
  print_tables(out, file);
  print_coverage(out, file);
}

void print_layout_run(Printout& out, const layout::LayoutFile& file,
                      const LayoutRunRequest& request, const LayoutRunResult& result) {
  const LayoutRates& rates = result.rates;
  out.say(
      "\nRun on {} workers, forward and backward, medians of {} interleaved rounds, times in ms\n",
      request.workers, request.rounds);
  out.say(
      "rates of one core, all busy: products {:.1f} GFLOP/s, elementwise {:.2f} G/s, all-reduce "
      "{:.1f} us + {:.2f} "
      "GB/s,"
      " and {:.1f} us of waiting\n",
      rates.products.count() / 1e9, rates.elementwise_per_s / 1e9,
      rates.all_reduce_latency.count() * 1e6, rates.all_reduce_bandwidth.count() / 1e9,
      rates.all_reduce_wait.count() * 1e6);
  Rows rows{{"layout", "rules", "mesh", "", "compute", "elementwise", "all-reduce", "= work",
             "error", "waiting", "= step", "error", "spread", "result"}};
  const auto parts = [](std::vector<Cell> row, const LayoutTime& time, double work_error,
                        double step_error) {
    const auto error = [](double e) { return e == 0 ? Cell() : percent(e, "{:+.1f}%"); };
    row.insert(row.end(),
               {milliseconds(time.products), milliseconds(time.elementwise),
                milliseconds(time.all_reduces), milliseconds(time.work()), error(work_error),
                milliseconds(time.waiting), milliseconds(time.step()), error(step_error)});
    return row;
  };
  for (const LayoutRunRow& row : result.rows) {
    rows.push_back(parts(
        {row.layout.name, rules_text(file.program, row.layout), mesh_text(row.layout), "measured"},
        row.measured, 0, 0));
    rows.back().push_back(row.spread ? percent(*row.spread) : "");
    rows.back().emplace_back(row.difference == 0 ? "bitwise equal"
                                                 : fmt::format("within {:.1e}", row.difference));
    // With more workers than cores rates of a core predict nothing.
    if (result.oversubscribed) continue;
    rows.push_back(parts({"", "", "", "predicted"}, row.predicted,
                         row.predicted.work() / row.measured.work() - 1,
                         row.predicted.step() / row.measured.step() - 1));
  }
  out.show(table_of(rows));
  out.say(
      "Work is by the workers' core clocks, the step by the wall clock. Counted on every worker "
      "and equal to the\n"
      "derivation: multiply-adds, all-reduced elements, memory. Result: against the unsplit "
      "computation{}.\n",
      result.rounds_nowhere ? ", bit for bit,\nof whole numbers so small that fp32 rounds nowhere"
                            : "");
  if (result.oversubscribed)
    out.say("oversubscribed: more workers than cores, so nothing is predicted\n");
  if (result.preemptions > kQuiet) {
    out.say(
        "The cores are shared: other work took a worker's core {:.1f} times a step, so only the "
        "work compares.\n",
        result.preemptions);
  }
}

}  // namespace weir
