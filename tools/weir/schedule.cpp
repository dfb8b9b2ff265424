// `weir schedule`: draws a schedule, proves that it cannot deadlock, times it with given durations, converts it to CSV.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "costmodel/cost_table.hpp"
#include "plan/error.hpp"
#include "plan/lower.hpp"
#include "plan/schedule_csv.hpp"
#include "plan/schedules/schedules.hpp"
#include "plan/text_file.hpp"
#include "plan/validate.hpp"
#include "sim/bounds.hpp"
#include "sim/engine/event_engine.hpp"
#include "sim/forecast_json.hpp"
#include "tools/report/timeline.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/options.hpp"

namespace weir {
namespace {

struct ScheduleOptions {
  std::string name, uniform, width;
  int pp = 4, vpp = 1, microbatches = 8;
  int slots = 2;
  bool list = false, no_title = false, allow_reordered = false;
  std::optional<std::filesystem::path> csv, picture;
};

// Durations of a rank's F, I and W for one micro-batch, and of a crossing.
struct Uniform {
  Seconds f{1e-3}, i{1e-3}, w{1e-3}, latency{0};
};

Uniform parse_uniform(const std::string& text) {
  Uniform uniform;
  bool f = false, i = false, w = false;
  for (const std::string& part : parse_words(text)) {
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const auto value = equals == std::string::npos ? std::nullopt : parse_duration(part.substr(equals + 1));
    if (!value)
      throw UsageError(fmt::format("--uniform {}: expected F=..,I=..,W=..,latency=.. with units, as F=18.5ms", part));
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

Schedule load(const ScheduleOptions& o) {
  if (o.name.ends_with(".csv")) {
    Schedule schedule = parse_schedule_csv(read_text_file(o.name), o.name);
    ValidationOptions options;
    options.allow_reordered = o.allow_reordered;
    if (const auto fault = validate(schedule, options)) {
      throw InputError(o.name, fmt::format("row {}", fault->rank.value + 1), fault->reason + "\n" + fault->picture);
    }
    return schedule;
  }
  int chunks = o.vpp;
  for (const Generator& g : generators()) {
    if (g.name == o.name && chunks == 1) chunks = g.default_chunks;
  }
  auto made = make_schedule(o.name, {o.pp, chunks, o.microbatches});
  if (const auto* reason = std::get_if<std::string>(&made)) throw UsageError(*reason);
  return std::get<Schedule>(std::move(made));
}

// DESIGN section 4: each chunk takes 1/v rounded to ns, B = I + W, the latency occupies nothing, unlimited slots.
CostTable uniform_table(const ScheduleShape& shape, const Uniform& u) {
  // A rank of a replicated schedule holds a stage of each replica, and a micro-batch visits one of them.
  const double share = static_cast<double>(shape.ranks) / shape.stages / shape.segments;
  CostTable table;
  StageCost cost;
  cost.f = to_nanoseconds(u.f * share);
  cost.i = to_nanoseconds(u.i * share);
  cost.w = to_nanoseconds(u.w * share);
  cost.b = cost.i + cost.w;
  const auto stages = static_cast<std::size_t>(shape.total_stages());
  table.stages.assign(stages, cost);
  table.forward_messages.assign(stages, {Nanoseconds(0), to_nanoseconds(u.latency)});
  table.backward_messages = table.forward_messages;
  return table;
}

struct Timed {
  Program program;
  Trace trace;
  Forecast forecast;
};

Timed time_uniformly(const Schedule& schedule, const Uniform& uniform) {
  LoweringOptions lowering;
  lowering.slots = 0;
  lowering.optimizer = false;
  Timed timed{lower(schedule, lowering), {}, {}};
  const OperationCosts costs = expand(timed.program, uniform_table(schedule.shape, uniform));
  timed.trace = to_trace(timed.program, std::get<Timing>(simulate(timed.program, costs)));
  timed.forecast.metrics = step_metrics(timed.program, timed.trace);
  timed.forecast.step_time = to_seconds(timed.forecast.metrics.step_time);
  timed.forecast.lower_bound = to_seconds(step_lower_bound(timed.program, costs));
  return timed;
}

// One character cell per twelfth of F, wide enough for names at F = I = W = 1.
void draw_terminal(const Timed& timed) {
  const bool colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  constexpr std::int64_t kCellsAcross = 4'000;
  std::int64_t shortest = timed.trace.steps[0].end.count();
  for (const Span& span : timed.trace.spans) {
    if (span.lane == LaneKind::compute && span.duration().count() > 0)
      shortest = std::min(shortest, span.duration().count());
  }
  const double scale = 5.0 / static_cast<double>(std::max<std::int64_t>(shortest, 1));
  const auto width = static_cast<std::size_t>(
      std::min<double>(kCellsAcross, static_cast<double>(timed.trace.steps[0].end.count()) * scale));
  for (std::int32_t rank = 0; rank < timed.trace.ranks; ++rank) {
    std::string row(width + 1, '.');
    std::vector<ActionKind> kinds(width + 1, ActionKind::OPTIMIZER);
    for (const Span& span : timed.trace.spans) {
      if (span.lane != LaneKind::compute || span.rank.value != rank) continue;
      const auto first = static_cast<std::size_t>(static_cast<double>(span.start.count()) * scale);
      const auto last = std::min(static_cast<std::size_t>(static_cast<double>(span.end.count()) * scale), width);
      std::string cell = to_string(span.action);
      cell.resize(last > first ? last - first : 0, ' ');
      if (!cell.empty()) cell.back() = '|';
      for (std::size_t i = first; i < last; ++i) {
        row[i] = cell[i - first];
        kinds[i] = span.action.kind;
      }
    }
    fmt::print("{:>3} ", rank);
    static constexpr const char* kColours[] = {"\x1b[44;97m", "\x1b[42;30m", "\x1b[46;30m", "\x1b[102;30m"};
    ActionKind now = ActionKind::OPTIMIZER;
    for (std::size_t i = 0; i < width; ++i) {
      if (colour && kinds[i] != now) {
        fmt::print("\x1b[0m{}", kinds[i] <= ActionKind::W ? kColours[static_cast<std::size_t>(kinds[i])] : "");
        now = kinds[i];
      }
      fmt::print("{}", row[i]);
    }
    fmt::print("{}\n", colour ? "\x1b[0m" : "");
  }
}

int peak_in_flight(const Schedule& schedule) {
  int most = 0;
  for (const auto& order : schedule.order) {
    int now = 0;
    for (const Action& action : order) {
      now += action.kind == ActionKind::F ? 1 : action.kind == ActionKind::B || action.kind == ActionKind::W ? -1 : 0;
      most = std::max(most, now);
    }
  }
  return most;
}

void list_generators() {
  for (const Generator& g : generators()) {
    fmt::print("{}\n  bubble {}; in flight {}; {} cop{} of the weights\n  {}\n", g.name, g.bubble, g.in_flight,
               g.weight_copies, g.weight_copies == 1 ? "y" : "ies", g.source);
  }
}

double points(const std::string& text) {
  if (text.empty()) return 720;
  const double scale = text.ends_with("in") ? 72 : text.ends_with("cm") ? 72 / 2.54 : text.ends_with("pt") ? 1 : 0;
  const double number = std::atof(text.c_str());
  if (scale == 0 || number <= 0)
    throw UsageError(fmt::format("--width {}: expected a length, as 3.3in, 8cm or 240pt", text));
  return number * scale;
}

void run_schedule(const ScheduleOptions& o, const GlobalOptions& global) {
  if (o.list) {
    list_generators();
    return;
  }
  if (o.name.empty()) throw UsageError("schedule: expected a name or a CSV file, or --list");
  const Schedule schedule = load(o);
  const Timed timed = time_uniformly(schedule, o.uniform.empty() ? Uniform{} : parse_uniform(o.uniform));
  const std::array rows{TimelineRow{&timed.trace, 0, ""}};
  if (o.picture) {
    const std::string title =
        fmt::format("{}, K = {}, M = {}", schedule.name, schedule.shape.ranks, schedule.shape.microbatches);
    save_drawing(draw_timeline(rows, {points(o.width), o.no_title ? "" : title, true}), timeline_csv(rows), *o.picture);
  }
  if (o.csv) {
    if (*o.csv == "-") {
      fmt::print("{}", to_csv(schedule));
      return;
    }
    write_file_atomically(*o.csv, to_csv(schedule));
  }
  if (global.json) {
    fmt::print("{}\n", to_json(timed.forecast));
    return;
  }
  LoweringOptions lowering;
  lowering.slots = o.slots;
  const Program program = lower(schedule, lowering);
  const auto cycle = find_cycle(program);
  fmt::print("{}: K = {}, {} stages, M = {}, at most {} in flight on a rank\n", schedule.name, schedule.shape.ranks,
             schedule.shape.stages, schedule.shape.microbatches, peak_in_flight(schedule));
  if (!cycle) {
    fmt::print("cannot deadlock with {} receive slots an edge (proved: {} operations, no cycle)\n", o.slots,
               program.operations.size());
  } else {
    fmt::print("deadlocks with {} receive slots an edge:\n{}\n", o.slots, describe_cycle(program, *cycle));
  }
  fmt::print("step {}, bubble {:.4f} by span, lower bound {}\n", format_duration(timed.forecast.step_time),
             timed.forecast.metrics.bubble_fraction_span, format_duration(timed.forecast.lower_bound));
  draw_terminal(timed);
}

}  // namespace

void add_schedule_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand("schedule", "Draw, prove, time and convert a schedule");
  auto o = std::make_shared<ScheduleOptions>();
  const CLI::Range positive(1, 1 << 20);
  command->add_option("name", o->name, "A schedule's name, or a CSV file in PyTorch's dialect");
  command->add_option("-K,--pp", o->pp, "Ranks")->check(CLI::Range(1, 1 << 12))->capture_default_str();
  command->add_option("-v,--vpp", o->vpp, "Stages a rank")->check(CLI::Range(1, 1024))->capture_default_str();
  command->add_option("-M,--microbatches", o->microbatches, "Micro-batches")->check(positive)->capture_default_str();
  command->add_option("--slots", o->slots, "Receive slots an edge for the proof (0: unlimited)")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("--uniform", o->uniform, "Durations: F=..,I=..,W=..,latency=.. a rank and micro-batch");
  command->add_option("--csv", o->csv, "Write the schedule as CSV (- for stdout)");
  command->add_option("--svg,--pdf", o->picture, "Write the picture (.svg or .pdf), its data as CSV beside it");
  command->add_option("--width", o->width, "Width of the picture, as 3.3in");
  command->add_flag("--no-title", o->no_title, "No title in the picture");
  command->add_flag("--allow-reordered", o->allow_reordered, "Accept gradients out of micro-batch order");
  command->add_flag("--list", o->list, "All schedules with their formulas");
  command->callback([o, &global] { run_schedule(*o, global); });
}

}  // namespace weir
