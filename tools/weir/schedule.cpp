// `weir schedule`: draws a schedule, proves that it cannot deadlock, times it with given durations,
// converts it to CSV.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "costmodel/table/given_times.hpp"
#include "plan/program/comms_csv.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast_json.hpp"
#include "tools/report/timeline.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/schedule_proof.hpp"
#include "tools/weir/schedule_source.hpp"
#include "tools/weir/terminal_timeline.hpp"
#include "tools/weir/timed_schedule.hpp"

namespace weir {
namespace {

struct ScheduleOptions {
  ScheduleSource source;
  std::string uniform, width, grid, transfers = "buffered", palette = "standard",
                                    csv_format = "compute_only";
  std::optional<int> slots;
  bool list = false, no_title = false, prove = false;
  std::optional<std::filesystem::path> csv, picture, times;
};

UniformTimes parse_uniform(const std::string& text) {
  UniformTimes uniform;
  bool f = false, i = false, w = false;
  for (const std::string& part : parse_words(text)) {
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const auto value =
        equals == std::string::npos ? std::nullopt : parse_duration(part.substr(equals + 1));
    if (!value)
      throw UsageError(fmt::format(
          "--uniform {}: expected F=..,I=..,W=..,latency=.. with units, as F=18.5ms", part));
    if (key == "F") {
      uniform.f = *value;
      f = true;
    } else if (key == "I") {
      uniform.i = *value;
      i = true;
    } else if (key == "W") {
      uniform.w = *value;
      w = true;
    } else if (key == "latency") {
      uniform.latency = *value;
    } else {
      throw UsageError(fmt::format("--uniform {}: expected F, I, W or latency", part));
    }
  }
  if (!f || !i || !w) throw UsageError("--uniform: expected all of F, I and W");
  return uniform;
}

void list_generators(const GlobalOptions& global) {
  if (global.json) {
    nlohmann::ordered_json json{{"schema", "weir.schedules/1"},
                                {"schedules", nlohmann::ordered_json::array()}};
    for (const Generator& g : generators()) {
      json["schedules"].push_back({{"name", g.name},
                                   {"source", g.source},
                                   {"bubble", g.bubble},
                                   {"in_flight", g.in_flight},
                                   {"weight_copies", g.weight_copies},
                                   {"default_vpp", g.default_chunks}});
    }
    fmt::print("{}\n", json.dump(2));
    return;
  }
  for (const Generator& g : generators()) {
    fmt::print("{}\n  bubble {}; in flight {}; {} cop{} of the weights\n  {}\n", g.name, g.bubble,
               g.in_flight, g.weight_copies, g.weight_copies == 1 ? "y" : "ies", g.source);
  }
}

double points(const std::string& text) {
  if (text.empty()) return 720;
  const double scale = text.ends_with("in")   ? 72
                       : text.ends_with("cm") ? 72 / 2.54
                       : text.ends_with("pt") ? 1
                                              : 0;
  const double number = std::atof(text.c_str());
  if (scale == 0 || number <= 0)
    throw UsageError(fmt::format("--width {}: expected a length, as 3.3in, 8cm or 240pt", text));
  return number * scale;
}

// The receive slots to prove it for: as many as were asked for, or 2, a plan's default, or more
// where 2 are too few.
void print_proof(const Schedule& schedule, const std::optional<int>& asked) {
  LoweringOptions lowering;
  lowering.slots = asked ? *asked : fewest_slots(schedule, 2);
  const Program program = lower(schedule, lowering);
  if (const auto cycle = find_cycle(program)) {
    throw NoFeasiblePlan(fmt::format("deadlocks with {} receive slots an edge ({} are enough):\n{}",
                                     lowering.slots, fewest_slots(schedule, 1),
                                     describe_cycle(program, *shortest_cycle(program))));
  }
  fmt::print("cannot deadlock with {} receive slots an edge{} (proved: {} operations, no cycle)\n",
             lowering.slots, !asked && lowering.slots > 2 ? ", but with fewer" : "",
             program.operations.size());
}

Palette palette_of(const std::string& text) {
  if (text == "standard") return Palette::standard;
  if (text == "colour-blind" || text == "colorblind") return Palette::colour_blind;
  if (text == "grey" || text == "gray") return Palette::grey;
  throw UsageError(fmt::format("--palette {}: expected standard, colour-blind or grey", text));
}

std::string csv_of(const ScheduleOptions& o, const Schedule& schedule, const Program& program) {
  if (o.csv_format == "compute_only") return to_csv(schedule);
  if (o.csv_format == "compute_comms") return to_comms_csv(program);
  throw UsageError(
      fmt::format("--csv-format {}: expected compute_only or compute_comms", o.csv_format));
}

void run_schedule(const ScheduleOptions& o, const GlobalOptions& global) {
  if (o.list) {
    list_generators(global);
    return;
  }
  if (o.source.name.empty())
    throw UsageError("schedule: expected a name, a CSV file or exec:COMMAND, or --list");
  if (o.prove != !o.grid.empty())
    throw UsageError("--grid and --prove belong together: --grid K=..,M=.. --prove");
  if (o.prove) {
    prove_grid(o.source, o.grid, o.slots.value_or(2), global);
    return;
  }
  if (o.times && !o.uniform.empty()) throw UsageError("--times and --uniform exclude each other");
  const Schedule schedule = obtain_schedule(o.source);
  const CostTable table =
      o.times ? parse_times(read_text_file(*o.times), o.times->string(), schedule.shape)
              : uniform_table(schedule.shape,
                              o.uniform.empty() ? UniformTimes{} : parse_uniform(o.uniform));
  const TimedSchedule timed = time_schedule(schedule, table, parse_transfers(o.transfers));
  const std::array rows{TimelineRow{&timed.trace, 0, ""}};
  if (o.picture) {
    TimelineOptions drawing{points(o.width), "", true, palette_of(o.palette)};
    if (!o.no_title)
      drawing.title = fmt::format("{}, K = {}, M = {}", schedule.name, schedule.shape.ranks,
                                  schedule.shape.microbatches);
    save_drawing(draw_timeline(rows, drawing), timeline_csv(rows), *o.picture);
  }
  if (o.csv) {
    const std::string text = csv_of(o, schedule, timed.program);
    if (*o.csv == "-") {
      fmt::print("{}", text);
      return;
    }
    write_file_atomically(*o.csv, text);
  }
  if (global.json) {
    fmt::print("{}\n", to_json(timed.forecast));
    return;
  }
  fmt::print("{}: K = {}, {} stages, M = {}, at most {} in flight on a rank\n", schedule.name,
             schedule.shape.ranks, schedule.shape.stages, schedule.shape.microbatches,
             *std::max_element(timed.forecast.peak_in_flight.begin(),
                               timed.forecast.peak_in_flight.end()));
  if (parse_transfers(o.transfers) == TransferMode::buffered) {
    print_proof(schedule, o.slots);
  } else {
    fmt::print("cannot deadlock with {} transfers (proved: {} operations, no cycle)\n", o.transfers,
               timed.program.operations.size());
  }
  fmt::print("step {}, bubble {:.4f} by span, lower bound {}\n",
             format_duration(timed.forecast.step_time), timed.forecast.metrics.bubble_fraction_span,
             format_duration(timed.forecast.lower_bound));
  draw_in_terminal(timed.trace);
}

}  // namespace

void add_schedule_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand("schedule", "Draw, prove, time and convert a schedule");
  auto o = std::make_shared<ScheduleOptions>();
  ScheduleSource& source = o->source;
  const CLI::Range positive(1, 1 << 20);
  command->add_option(
      "name", source.name,
      "A schedule's name, a CSV file in PyTorch's dialect, or exec:COMMAND, run as COMMAND K M v");
  command->add_option("-K,--pp", source.ranks, "Ranks")
      ->check(CLI::Range(1, 1 << 12))
      ->capture_default_str();
  command->add_option("-v,--vpp", source.chunks, "Stages a rank (default: the schedule's own)")
      ->check(CLI::Range(1, 1024));
  command->add_option("-M,--microbatches", source.microbatches, "Micro-batches")
      ->check(positive)
      ->capture_default_str();
  command
      ->add_option("--slots", o->slots,
                   "Receive slots an edge for the proof (0: unlimited; default 2 or the fewest)")
      ->check(CLI::Range(0, 1 << 20));
  command
      ->add_option("--transfers", o->transfers, "buffered, rendezvous, or batched as NCCL groups")
      ->capture_default_str();
  command->add_option("--uniform", o->uniform,
                      "Durations: F=..,I=..,W=..,latency=.. a rank and micro-batch");
  command->add_option(
      "--times", o->times,
      "Durations of each stage: CSV stage,f_ms,i_ms,w_ms[,b_ms,r_ms,send_ms,latency_ms]");
  command->add_option("--csv", o->csv, "Write the schedule as CSV (- for stdout)");
  command->add_option("--csv-format", o->csv_format, "compute_only or compute_comms")
      ->capture_default_str();
  command->add_option("--svg,--pdf", o->picture,
                      "Write the picture (.svg or .pdf), its data as CSV beside it");
  command->add_option("--width", o->width, "Width of the picture, as 3.3in");
  command->add_option("--palette", o->palette, "standard, colour-blind or grey")
      ->capture_default_str();
  command->add_flag("--no-title", o->no_title, "No title in the picture");
  command->add_flag("--allow-reordered", source.allow_reordered,
                    "Accept gradients out of micro-batch order");
  command->add_option("--grid", o->grid, "With --prove: K=2..16,M=1..64");
  command->add_flag("--prove", o->prove,
                    "For each (K, M) of --grid and each transport: free of deadlock, or why not");
  command->add_flag("--list", o->list, "All schedules with their formulas");
  command->callback([o, &global] { run_schedule(*o, global); });
}

}  // namespace weir
