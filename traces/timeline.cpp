// Times of actions by rank and iteration, as a program and a measured trace of it.
// SPDX-License-Identifier: Apache-2.0
#include "traces/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/program/lower.hpp"
#include "plan/schedule/validate.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr const char* kMemory = "memory";
// A float of some seconds in ms resolves half a microsecond.
constexpr Seconds kClockNoise{1e-5};

std::string key_of(std::int64_t number, const char* list) {
  return fmt::format("{}.{}", number, list);
}

// Actions of one rank in the order of their starts.
std::vector<Action> order_of(const RankTimeline& rank, std::size_t i, Stage stage) {
  struct Timed {
    Seconds start, end;
    Action action;
  };
  std::vector<Timed> timed;
  const RankIteration& one = rank.iterations[i];
  for (std::size_t m = 0; m < one.forward_start.size(); ++m) {
    const Microbatch microbatch{m};
    timed.push_back({one.forward_start[m], one.forward_end[m], {stage, ActionKind::F, microbatch}});
    timed.push_back(
        {one.backward_start[m], one.backward_end[m], {stage, ActionKind::B, microbatch}});
  }
  // Files list starts by kind; the order is the clock's.
  std::ranges::stable_sort(timed, {}, &Timed::start);
  std::vector<Action> order;
  order.reserve(timed.size());
  for (std::size_t p = 0; p < timed.size(); ++p) {
    if (p > 0 && timed[p].start < timed[p - 1].end - kClockNoise) {
      throw InputError(
          rank.file, std::to_string(rank.numbers[i]),
          fmt::format("{} begins before {} has ended: a forward and a backward at once "
                      "are not read",
                      to_string(timed[p].action), to_string(timed[p - 1].action)));
    }
    order.push_back(timed[p].action);
  }
  return order;
}

void require_whole(const RankTimeline& rank, std::size_t i, std::size_t microbatches) {
  const RankIteration& one = rank.iterations[i];
  const std::pair<const char*, const std::vector<Seconds>*> lists[] = {
      {"fwd_start", &one.forward_start},
      {"fwd_end", &one.forward_end},
      {"bwd_start", &one.backward_start},
      {"bwd_end", &one.backward_end}};
  for (const auto& [name, values] : lists) {
    if (values->size() != microbatches) {
      throw InputError(rank.file, key_of(rank.numbers[i], name),
                       fmt::format("has {} times, expected one for each of {} micro-batches",
                                   values->size(), microbatches));
    }
  }
  for (std::size_t m = 0; m < microbatches; ++m) {
    if (one.forward_end[m] < one.forward_start[m])
      throw InputError(rank.file, key_of(rank.numbers[i], "fwd_end"), "ends before its start");
    if (one.backward_end[m] < one.backward_start[m])
      throw InputError(rank.file, key_of(rank.numbers[i], "bwd_end"), "ends before its start");
  }
}

Schedule schedule_of(const std::vector<RankTimeline>& ranks) {
  const RankTimeline& first = ranks.front();
  if (first.iterations.empty()) throw InputError(first.file, "", "has no iteration");
  const std::size_t microbatches = first.iterations.front().forward_start.size();
  if (microbatches == 0)
    throw InputError(first.file, key_of(first.numbers.front(), "fwd_start"), "is empty");
  Schedule schedule;
  schedule.name = "timeline";
  schedule.shape = looped_shape(static_cast<std::int32_t>(ranks.size()), 1,
                                static_cast<std::int32_t>(microbatches));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankTimeline& rank = ranks[r];
    if (rank.numbers != first.numbers)
      throw InputError(rank.file, "", "has other iterations than " + first.file);
    std::vector<Action> order;
    for (std::size_t i = 0; i < rank.iterations.size(); ++i) {
      require_whole(rank, i, microbatches);
      std::vector<Action> here = order_of(rank, i, Stage{r});
      if (i > 0 && here != order) {
        throw InputError(
            rank.file, std::to_string(rank.numbers[i]),
            fmt::format("has another order of actions than iteration {}", rank.numbers.front()));
      }
      order = std::move(here);
    }
    schedule.order.push_back(std::move(order));
  }
  schedule.overlapped.assign(ranks.size(), {});
  // What ran is read as it ran, also where its gradients were not added in order.
  if (const auto fault = validate(schedule, {.allow_reordered = true})) {
    throw InputError(
        ranks[fault->rank.position()].file, "",
        fmt::format("its times show no schedule: {}\n{}", fault->reason, fault->picture));
  }
  return schedule;
}

// Times of one iteration, moved to begin at `origin`. A message is there when what it carries is.
void add_step(Trace& trace, const Program& program, const std::vector<RankTimeline>& ranks,
              std::size_t i, Nanoseconds origin) {
  const std::size_t first = trace.spans.size();
  Nanoseconds end{0};
  for (const OperationId id : program.ids()) {
    const Lane& lane = program.lane_of(id);
    Span span{id,        program.op(id).action, lane.rank,
              lane.kind, program.peer_rank(id), static_cast<std::int32_t>(i)};
    if (lane.kind == LaneKind::compute) {
      const RankIteration& one = ranks[lane.rank.position()].iterations[i];
      const std::size_t m = span.action.microbatch.position();
      const bool forward = span.action.kind == ActionKind::F;
      span.start = origin + to_nanoseconds(forward ? one.forward_start[m] : one.backward_start[m]);
      span.end = origin + to_nanoseconds(forward ? one.forward_end[m] : one.backward_end[m]);
      end = std::max(end, span.end);
    }
    trace.spans.push_back(span);
  }
  const auto at = [&](OperationId id) -> Span& { return trace.spans[first + id.position()]; };
  for (const Edge& edge : program.edges()) {
    for (const OperationId send : program.lane(edge.send_lane).operations()) {
      const Nanoseconds made = at(program.producer(send)).end;
      for (const OperationId half : {send, program.peer(send)})
        at(half).start = at(half).end = made;
    }
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankIteration& one = ranks[r].iterations[i];
    // An iteration may go on behind its last action, with the update.
    end = std::max(end, origin + to_nanoseconds(one.total));
    trace.counters[r].samples.push_back({origin, one.memory.count()});
  }
  trace.steps.push_back({origin, end});
}

std::vector<Seconds> milliseconds(JsonObject& iteration, const std::string& key) {
  std::vector<Seconds> times;
  const Json& list = iteration.at(key);
  if (!list.is_array()) iteration.fail(key, "expected a list of times in ms");
  for (const Json& value : list) {
    if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > 1e9)
      iteration.fail(key, "expected times from 0 to 1e9 ms");
    times.emplace_back(value.get<double>() / 1e3);
  }
  return times;
}

// Files of some schedules say which micro-batch and chunk each entry is of.
void require_in_order(JsonObject& iteration, const char* kind) {
  const std::string microbatches = fmt::format("{}_minibatch", kind);
  const std::string chunks = fmt::format("{}_chunk", kind);
  if (iteration.has(microbatches)) {
    std::int64_t next = 0;
    for (const std::int64_t microbatch : iteration.integers(microbatches)) {
      if (microbatch != next++)
        iteration.fail(microbatches, "micro-batches out of order are not read");
    }
  }
  if (iteration.has(chunks)) {
    for (const std::int64_t chunk : iteration.integers(chunks)) {
      if (chunk != 0) iteration.fail(chunks, "chunks of a rank are not read");
    }
  }
}

RankTimeline read_rank(const std::filesystem::path& path) {
  RankTimeline rank;
  rank.file = path.string();
  const Json json = parse_json(read_text_file(path), rank.file);
  if (!json.is_object()) throw InputError(rank.file, "", "expected an object of iterations");
  std::vector<std::pair<std::int64_t, std::string>> keys;
  for (const auto& [key, value] : json.items()) {
    const bool digits =
        !key.empty() && key.size() <= 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) throw InputError(rank.file, key, "expected the number of an iteration");
    keys.emplace_back(std::stoll(key), key);
  }
  // By number: as texts, 10 stands before 9.
  std::ranges::sort(keys);
  for (const auto& [number, key] : keys) {
    JsonObject one(json.at(key), rank.file, key);
    if (one.has("wgrad_start") && !one.at("wgrad_start").empty())
      one.fail("wgrad_start", "weight gradients apart from backwards are not read");
    require_in_order(one, "fwd");
    require_in_order(one, "bwd");
    RankIteration iteration;
    iteration.total = Seconds(one.number("total", 1e-6, 1e9) / 1e3);
    iteration.memory = Bytes(std::llround(one.number("memory", 1e-6, 1e6) * 0x1p30));
    iteration.forward_start = milliseconds(one, "fwd_start");
    iteration.forward_end = milliseconds(one, "fwd_end");
    iteration.backward_start = milliseconds(one, "bwd_start");
    iteration.backward_end = milliseconds(one, "bwd_end");
    rank.numbers.push_back(number);
    rank.iterations.push_back(std::move(iteration));
  }
  return rank;
}

}  // namespace

std::int32_t Timeline::step_of(std::int64_t number, const std::string& file) const {
  const auto found = std::ranges::find(numbers, number);
  if (found == numbers.end()) {
    throw InputError(file, "",
                     fmt::format("has no iteration {}: it has {} to {}", number, numbers.front(),
                                 numbers.back()));
  }
  return static_cast<std::int32_t>(found - numbers.begin());
}

Timeline make_timeline(const std::vector<RankTimeline>& ranks) {
  Timeline timeline;
  timeline.schedule = schedule_of(ranks);
  LoweringOptions lowering;
  // Files have no updates, and messages of a run that ended held nobody back for ever.
  lowering.slots = 0;
  lowering.optimizer = false;
  timeline.program = lower(timeline.schedule, lowering);
  timeline.numbers = ranks.front().numbers;
  Trace& trace = timeline.trace;
  trace.origin = TraceOrigin::measured;
  trace.ranks = timeline.schedule.shape.ranks;
  for (const Rank rank : timeline.program.ranks())
    trace.counters.push_back({kMemory, rank, CounterUnit::bytes, {}});
  for (std::size_t i = 0; i < timeline.numbers.size(); ++i) {
    const Nanoseconds origin = trace.steps.empty() ? Nanoseconds(0) : trace.steps.back().end;
    add_step(trace, timeline.program, ranks, i, origin);
  }
  return timeline;
}

bool is_timeline(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) && std::filesystem::exists(path / "pp_rank_0.json");
}

Timeline read_timeline(const std::filesystem::path& folder) {
  const std::filesystem::path config = folder / "config.json";
  const Json json = parse_json(read_text_file(config), config.string());
  JsonObject keys(json, config.string(), "");
  const std::int64_t ranks = keys.integer("pp_size", 1, 4096);
  // Older files have the second name of each.
  const char* const chunks = keys.has("vp_size") ? "vp_size" : "vpp_size";
  if (keys.integer(chunks, 1, 4096) != 1)
    keys.fail(chunks, "chunks of a rank are not told apart in these files: expected 1");
  const char* const count = keys.has("num_mbs") ? "num_mbs" : "micro_batches";
  const std::int64_t microbatches = keys.integer(count, 1, kMostMicrobatches);
  std::vector<RankTimeline> all;
  for (std::int64_t r = 0; r < ranks; ++r)
    all.push_back(read_rank(folder / fmt::format("pp_rank_{}.json", r)));
  Timeline timeline = make_timeline(all);
  if (timeline.schedule.shape.microbatches != microbatches) {
    keys.fail(count, fmt::format("is {}, while the ranks' files have {} micro-batches",
                                 microbatches, timeline.schedule.shape.microbatches));
  }
  return timeline;
}

Timeline only_iterations(const Timeline& timeline, const std::vector<std::int64_t>& keep) {
  Timeline some{timeline.schedule, timeline.program, {}, {}};
  some.trace.origin = timeline.trace.origin;
  some.trace.ranks = timeline.trace.ranks;
  for (const Counter& counter : timeline.trace.counters)
    some.trace.counters.push_back({counter.name, counter.rank, counter.unit, {}});
  for (std::size_t i = 0; i < timeline.numbers.size(); ++i) {
    if (std::ranges::find(keep, timeline.numbers[i]) == keep.end()) continue;
    some.numbers.push_back(timeline.numbers[i]);
    const auto step = static_cast<std::int32_t>(i);
    Trace one = some.trace;
    one.steps = {timeline.trace.steps[i]};
    one.spans.clear();
    for (Span span : timeline.trace.of_step(step)) {
      span.step = 0;
      one.spans.push_back(span);
    }
    for (std::size_t c = 0; c < one.counters.size(); ++c)
      one.counters[c].samples = {timeline.trace.counters[c].samples[i]};
    append(some.trace, one);
  }
  return some;
}

std::vector<Bytes> memory_of(const Timeline& timeline, std::int32_t step) {
  std::vector<Bytes> memory;
  for (const Counter& counter : timeline.trace.counters)
    memory.emplace_back(counter.samples[static_cast<std::size_t>(step)].value);
  return memory;
}

}  // namespace weir
