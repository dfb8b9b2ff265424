// One schedule, drawn, timed and converted, or many (K, M) proved.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "costmodel/table/given_times.hpp"
#include "plan/program/comms_csv.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/forecast_json.hpp"
#include "tools/app/schedule/schedule_source.hpp"
#include "tools/app/shared/memory_need.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "traces/in_flight.hpp"

namespace weir::app {

using Json = nlohmann::ordered_json;

namespace {

// What whole nanoseconds in 64 bits can count; whether the sum of all can is told where it is made.
constexpr Seconds kLongestPass{9e9};

UniformTimes parse_uniform(const std::string& text) {
  std::optional<Seconds> f, i, w, s, t, latency;
  const std::pair<std::string_view, std::optional<Seconds>*> known[] = {
      {"F", &f}, {"I", &i}, {"W", &w}, {"S", &s}, {"T", &t}, {"latency", &latency}};
  for (const std::string& part : parse_words(text)) {
    const auto refuse = [&part](const std::string& why) {
      throw UsageError(fmt::format("--uniform {}: {}", part, why));
    };
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const auto value =
        equals == std::string::npos ? std::nullopt : parse_duration(part.substr(equals + 1));
    if (!value) refuse("expected F=..,I=..,W=..,S=..,T=..,latency=.. with units, as F=18.5ms");
    const auto one =
        std::ranges::find_if(known, [&key](const auto& word) { return word.first == key; });
    if (one == std::end(known)) refuse("expected F, I, W, S, T or latency");
    if (*one->second) refuse(fmt::format("{} is there twice", key));
    if (*value > kLongestPass) refuse(fmt::format("expected at most {} s", kLongestPass.count()));
    *one->second = value;
  }
  // A latency may be left out; the three passes may not.
  if (!f || !i || !w) throw UsageError("--uniform: expected all of F, I and W");
  UniformTimes uniform{.f = *f, .i = *i, .w = *w, .s = s, .t = t};
  if (latency) uniform.latency = *latency;
  return uniform;
}

std::string csv_of(const ScheduleRequest& o, const Schedule& schedule, const Program& program) {
  // Refuses what neither dialect has words for.
  std::string alone = to_csv(schedule);
  if (o.csv_format == "compute_only") return alone;
  if (o.csv_format == "compute_comms") return to_comms_csv(program);
  throw UsageError(
      fmt::format("--csv-format {}: expected compute_only or compute_comms", o.csv_format));
}

Json generators_json() {
  Json json{{"schema", "weir.schedules/1"}, {"schedules", Json::array()}};
  for (const auto all : {generators(), vocabulary_generators()}) {
    for (const Generator& g : all) {
      json["schedules"].push_back({{"name", g.name},
                                   {"source", g.source},
                                   {"bubble", g.bubble},
                                   {"in_flight", g.in_flight},
                                   {"weight_copies", g.weight_copies},
                                   {"default_vpp", g.default_chunks},
                                   {"default_slices", g.default_slices}});
    }
  }
  return json;
}

std::string title_of(const Schedule& schedule) {
  return fmt::format("{}, K = {}, M = {}", schedule.name, schedule.shape.ranks,
                     schedule.shape.microbatches);
}

CostTable times_of(const ScheduleRequest& r, const ScheduleShape& shape) {
  if (r.times) return parse_times(read_text_file(*r.times), r.times->string(), shape);
  return uniform_table(shape, r.uniform.empty() ? UniformTimes{} : parse_uniform(r.uniform));
}

// All on one scale, and under them the one that was to stand beside.
void draw(const ScheduleRequest& r, ScheduleResult& result, const Session& session) {
  const auto panel = [&](const Schedule& schedule, TimedSchedule& timed) {
    // Counters are made only where they are drawn.
    if (r.picture.held) timed.trace.counters = in_flight_counters(timed.trace);
    const ScheduleShape& shape = schedule.shape;
    return TimelinePanel{r.no_title ? "" : title_of(schedule),
                         {{&timed.trace, 0, ""}},
                         shape.stages / shape.ranks * shape.segments};
  };
  std::vector<TimelinePanel> panels;
  for (ComparedSchedule& one : result.schedules) {
    if (one.timed) panels.push_back(panel(*one.schedule, *one.timed));
  }
  TimedSchedule other;
  if (is_given(r.beside)) {
    const Schedule under = obtain_schedule(
        r.beside, {"", r.pp, std::nullopt, r.microbatches, std::nullopt, r.allow_reordered});
    other = time_schedule(under, times_of(r, under.shape), parse_transfers(r.transfers));
    panels.push_back(panel(under, other));
  }
  save_timeline(r.picture, panels, session);
}

// A file brings its own K, M and v: those that were asked for are the same, or it is not that
// file's schedule.
void require_asked(const ScheduleRequest& r, const Schedule& schedule, const Session& session) {
  const ScheduleShape& has = schedule.shape;
  const auto require = [&](const char* option, int asked, int found) {
    // A default is no contradiction: only what was given is compared.
    if (session.given(option) && asked != found)
      throw UsageError(fmt::format("--{} {} contradicts {}, which has {}", option, asked,
                                   name_of(r.names.front()), found));
  };
  require("pp", r.pp, has.ranks);
  require("microbatches", r.microbatches, has.microbatches);
  require("vpp", r.vpp.value_or(0), has.stages / has.ranks);
  require("slices", r.slices.value_or(0), has.segments);
}

// Of several the first file's sizes are those of all, where none were asked for.
void take_sizes_of_file(const std::vector<ScheduleChoice>& choices, const Session& session,
                        ScheduleSource& shape) {
  const auto own = std::ranges::find_if(choices, &has_own_sizes);
  if (own == choices.end()) return;
  const ScheduleShape sizes = obtain_schedule(*own, shape).shape;
  if (!session.given("pp")) shape.ranks = sizes.ranks;
  if (!session.given("microbatches")) shape.microbatches = sizes.microbatches;
}

// Times of passes that nobody has would be dropped without a word.
void refuse_idle_times(const ScheduleRequest& r, const std::vector<ComparedSchedule>& schedules) {
  if (r.uniform.empty()) return;
  const UniformTimes times = parse_uniform(r.uniform);
  const bool any = std::ranges::any_of(schedules, [](const ComparedSchedule& one) {
    return !one.schedule || one.schedule->shape.shards() > 0;
  });
  const bool beside = is_given(r.beside) && divides_vocabulary(name_of(r.beside));
  if ((times.s || times.t) && !any && !beside)
    throw UsageError("--uniform: S and T are of schedules that divide the vocabulary");
}

void refuse_contradictions(const ScheduleRequest& r, const Session& session) {
  if (!std::ranges::all_of(r.names, [](const auto& name) { return is_given(name); }) ||
      r.names.empty())
    throw UsageError("schedule: expected a name, a CSV file or exec:COMMAND, or --list");
  if (r.names.size() > 1 && (r.prove || r.csv))
    throw UsageError(fmt::format("{} takes one schedule, {} were given",
                                 r.prove ? "--prove" : "--csv", r.names.size()));
  if (r.prove != !r.grid.empty())
    throw UsageError("--grid and --prove belong together: --grid K=..,M=.. --prove");
  if (is_given(r.beside) && !r.picture.file)
    throw UsageError(
        "--beside goes with a picture: --svg NAME.svg, --pdf NAME.pdf or --tikz NAME.tex");
  if (r.times && !r.uniform.empty()) throw UsageError("--times and --uniform exclude each other");
  // A proof is drawn nowhere: fields of pictures, and of a CSV, would be passed over.
  refuse_without_picture(r.picture, session);
  if (!r.csv) session.refuse({"csv-format"}, "goes with --csv");
}

}  // namespace

Fields fields(ScheduleRequest& r) {
  Fields all{
      {"name", &r.names,
       "A schedule's name, a CSV file in PyTorch's dialect, or exec:COMMAND, run as COMMAND K "
       "M v; several: a table of them, drawn together"},
      {"-K,--pp", &r.pp, "Ranks", {.range = kRanks}},
      {"-v,--vpp",
       &r.vpp,
       "Stages a rank (default: the schedule's own); of several, where they allow it",
       {.range = kChunks}},
      {"-M,--microbatches", &r.microbatches, "Micro-batches", {.range = kPositive}},
      {"--slices", &r.slices, kSlicesHelp, {.range = kSlices}},
      {"--slots",
       &r.slots,
       "Receive slots an edge for the proof (0: unlimited; default 2 or the fewest)",
       {.range = kSlots}},
      {"--transfers", &r.transfers, "buffered, rendezvous, or batched as NCCL groups"},
      {"--uniform", &r.uniform,
       "Durations: F=..,I=..,W=..,latency=.. a rank and micro-batch; S=..,T=.. of a vocabulary's "
       "shards (default half of F)"},
      {"--times", &r.times,
       "Durations of each stage: CSV stage,f_ms,i_ms,w_ms[,b_ms,r_ms,send_ms,latency_ms]"},
      {"--csv", &r.csv, "Write the schedule as CSV (- for stdout)", {.writes = Writes::file}},
      {"--csv-format", &r.csv_format, "compute_only or compute_comms"}};
  append(all, fields(r.picture, "the timeline"));
  append(all,
         {held_field(r.picture),
          {"--beside", &r.beside,
           "Another schedule under it in the picture, with the same K, M and times: a name, a CSV "
           "file or exec:COMMAND"},
          {"--no-title", &r.no_title, "No title in the picture"},
          {"--allow-reordered", &r.allow_reordered, "Accept gradients out of micro-batch order"},
          {"--grid", &r.grid, "With --prove: K=2..16,M=1..64"},
          {"--prove", &r.prove,
           "For each (K, M) of --grid and each transport: free of deadlock, or why not"},
          {"--list", &r.list, "All schedules with their formulas"}});
  return all;
}

ScheduleResult schedule(const ScheduleRequest& r, const Session& session) {
  ScheduleResult result;
  if (r.list) return result;
  refuse_contradictions(r, session);
  ScheduleSource shape{"", r.pp, r.vpp, r.microbatches, r.slices, r.allow_reordered};
  // A proof is of many shapes: each makes its schedule itself.
  if (r.prove) {
    const GridRequest grid{r.names.front(), shape, r.grid, r.slots.value_or(2), r.stopping};
    result.proof = prove_grid(grid, session);
    return result;
  }
  const auto timed = [&](const Schedule& schedule) {
    // Itself it is small beside its program and times.
    say_need_of_schedule(schedule.shape.stages, schedule.shape.units(), session);
    return time_schedule(schedule, times_of(r, schedule.shape), parse_transfers(r.transfers));
  };
  if (r.names.size() > 1) {
    take_sizes_of_file(r.names, session, shape);
    result.schedules = beside_each_other({r.names, shape, r.transfers, r.slots, timed});
  } else {
    ComparedSchedule& one = result.schedules.emplace_back();
    one.schedule = obtain_schedule(r.names.front(), shape);
    require_asked(r, *one.schedule, session);
    one.timed.emplace(timed(*one.schedule));
  }
  refuse_idle_times(r, result.schedules);
  if (r.picture.file) draw(r, result, session);
  if (r.csv) {
    const ComparedSchedule& one = result.schedules.front();
    result.csv = csv_of(r, *one.schedule, one.timed->program);
    if (*r.csv != "-") write_file_atomically(session.output(*r.csv), std::exchange(result.csv, ""));
  }
  return result;
}

Json to_json(const ScheduleResult& result) {
  if (result.proof) return to_json(*result.proof);
  if (result.schedules.empty()) return generators_json();
  if (result.schedules.size() > 1) return to_json(result.schedules);
  const TimedSchedule& timed = *result.schedules.front().timed;
  Json json = forecast_json(timed.forecast);
  json["timeline"] = timeline_json(timed);
  return json;
}

std::string json_text(const ScheduleResult& result) {
  return result.csv.empty() ? to_json(result).dump(2) : "";
}

}  // namespace weir::app
