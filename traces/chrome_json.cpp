// weir.trace/1 inside Chrome's trace format: events for viewers, exact nanoseconds for ourselves.
// SPDX-License-Identifier: Apache-2.0
#include "traces/chrome_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "plan/text/seal.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 60;

std::string microseconds(Nanoseconds time) {
  const std::int64_t ns = time.count();
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

// Threads of a process, top to bottom: compute, its kernels, then one row per lane and peer.
std::int64_t thread_of(const Span& span) {
  // Peers stay below 100,000, so rows of different lanes do not meet.
  return span.lane == LaneKind::compute
             ? 0
             : static_cast<std::int64_t>(span.lane) * 100'000 + span.peer.value + 1;
}
std::int64_t kernel_thread_of(const Span& action) {
  return thread_of(action) + (action.lane == LaneKind::compute ? 1 : 50'000);
}

std::string lane_name(const Span& span) {
  if (span.lane == LaneKind::send) return fmt::format("send to {}", span.peer.value);
  if (span.lane == LaneKind::receive) return fmt::format("receive from {}", span.peer.value);
  return std::string(to_string(span.lane));
}

LaneKind parse_lane(JsonObject& args) {
  if (const auto lane = parse_lane_kind(args.text("lane"))) return *lane;
  args.fail("lane", "expected compute, send, receive or reduce");
}

bool is_kernel(JsonObject& event) {
  const std::string category = event.text_or("cat", "");
  return category == to_string(DeviceWork::kernel) || category == to_string(DeviceWork::copy) ||
         category == to_string(DeviceWork::fill);
}

Span parse_span(JsonObject& event, std::int64_t ranks) {
  JsonObject args = event.object("args");
  Span span;
  span.operation = OperationId{args.integer("operation", 0, (std::int64_t{1} << 31) - 1)};
  const auto action = parse_action(event.text("name"));
  if (!action) event.fail("name", "expected an action like 2F0");
  span.action = *action;
  span.rank = Rank{static_cast<std::int32_t>(event.integer("pid", 0, ranks - 1))};
  span.lane = parse_lane(args);
  span.peer = Rank{static_cast<std::int32_t>(args.integer("peer", 0, ranks - 1))};
  span.step = static_cast<std::int32_t>(args.integer("step", 0, 1 << 30));
  span.start = Nanoseconds(args.integer("start_ns", -kLongest, kLongest));
  span.end = Nanoseconds(args.integer("end_ns", span.start.count(), kLongest));
  span.rebuild = Nanoseconds(args.integer_or("rebuild_ns", 0, 0, span.duration().count()));
  return span;
}

Counter parse_counter(JsonObject object, std::int64_t ranks) {
  Counter counter;
  counter.name = object.text("name");
  counter.rank = Rank{static_cast<std::int32_t>(object.integer("rank", 0, ranks - 1))};
  counter.unit = object.text("unit") == "bytes" ? CounterUnit::bytes : CounterUnit::count;
  const auto times = object.integers("time_ns", -kLongest, kLongest);
  const auto values = object.integers("value", -kLongest, kLongest);
  if (times.size() != values.size()) object.fail("value", "expected as many values as times");
  for (std::size_t i = 0; i < times.size(); ++i)
    counter.samples.push_back({Nanoseconds(times[i]), values[i]});
  object.finish();
  return counter;
}

using Row =
    std::pair<std::int32_t, std::int64_t>;  // process and thread: a rank and one of its rows

void name_thread(std::string& text, const Row& row, const std::string& name) {
  text +=
      fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}},)"
                  "\n",
                  row.first, row.second, name);
}

void add_kernels(std::string& text, const Trace& trace, std::span<const KernelSpan> kernels) {
  std::set<Row> named;
  for (const KernelSpan& kernel : kernels) {
    const Span& action = trace.spans[kernel.action];
    const Row row{action.rank.value, kernel_thread_of(action)};
    if (named.insert(row).second) name_thread(text, row, lane_name(action) + ", kernels");
    text += fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},)"
                        R"("args":{{"action":"{}","step":{}}}}},)"
                        "\n",
                        Json(kernel.name).dump(), to_string(kernel.work), row.first, row.second,
                        microseconds(kernel.start), microseconds(kernel.end - kernel.start),
                        to_string(action.action), action.step);
  }
}

}  // namespace

std::string to_chrome_json(const Trace& trace, std::span<const KernelSpan> kernels) {
  std::string text = "{\"traceEvents\":[\n";
  std::set<Row> named;
  for (std::int32_t rank = 0; rank < trace.ranks; ++rank) {
    text += fmt::format(
        R"({{"ph":"M","name":"process_name","pid":{0},"tid":0,"args":{{"name":"rank {0}"}}}},)"
        "\n",
        rank);
  }
  for (const Span& span : trace.spans) {
    const Row row{span.rank.value, thread_of(span)};
    if (named.insert(row).second) name_thread(text, row, lane_name(span));
    text += fmt::format(
        R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},)"
        R"("args":{{"operation":{},"step":{},)"
        R"("lane":"{}","peer":{},"start_ns":{},"end_ns":{}{}}}}},)"
        "\n",
        to_string(span.action), to_string(span.action.kind), span.rank.value, row.second,
        microseconds(span.start), microseconds(span.duration()), span.operation.value, span.step,
        to_string(span.lane), span.peer.value, span.start.count(), span.end.count(),
        span.rebuild.count() > 0 ? fmt::format(",\"rebuild_ns\":{}", span.rebuild.count()) : "");
  }
  add_kernels(text, trace, kernels);
  for (const Counter& counter : trace.counters) {
    for (const Counter::Sample& sample : counter.samples) {
      text += fmt::format(
          R"({{"ph":"C","name":{},"pid":{},"tid":0,"ts":{},"args":{{"value":{}}}}},)"
          "\n",
          Json(counter.name).dump(), counter.rank.value, microseconds(sample.time), sample.value);
    }
  }
  // JSON has no comma behind the last element.
  if (text.ends_with(",\n")) text.erase(text.size() - 2, 1);
  Json weir;
  weir["schema"] = "weir.trace/1";
  weir["origin"] = trace.origin == TraceOrigin::predicted ? "predicted" : "measured";
  weir["ranks"] = trace.ranks;
  weir["steps"] = Json::array();
  for (const StepWindow& step : trace.steps) {
    weir["steps"].push_back({{"start_ns", step.start.count()}, {"end_ns", step.end.count()}});
  }
  weir["counters"] = Json::array();
  for (const Counter& counter : trace.counters) {
    Json times = Json::array(), values = Json::array();
    for (const Counter::Sample& sample : counter.samples) {
      times.push_back(sample.time.count());
      values.push_back(sample.value);
    }
    weir["counters"].push_back({{"name", counter.name},
                                {"rank", counter.rank.value},
                                {"unit", counter.unit == CounterUnit::bytes ? "bytes" : "count"},
                                {"time_ns", times},
                                {"value", values}});
  }
  weir["info"] = trace.info;
  weir["sha256"] = open_seal();
  text += "],\n\"displayTimeUnit\":\"ms\",\n\"weir\":" + weir.dump() + "}\n";
  return sealed(std::move(text));
}

Trace parse_chrome_json(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  if (!top.has("weir")) top.fail("weir", "is missing: not a trace written by weir");
  JsonObject weir = top.object("weir");
  weir.expect_schema("weir.trace/1");
  require_seal_if_any(text, json["weir"], file);
  static_cast<void>(weir.text_or("sha256", ""));
  Trace trace;
  const std::string origin = weir.text("origin");
  if (origin != "predicted" && origin != "measured")
    weir.fail("origin", "expected predicted or measured");
  trace.origin = origin == "predicted" ? TraceOrigin::predicted : TraceOrigin::measured;
  trace.ranks = static_cast<std::int32_t>(weir.integer("ranks", 1, 1 << 16));
  for (JsonObject& step : weir.objects("steps")) {
    const Nanoseconds start(step.integer("start_ns", -kLongest, kLongest));
    trace.steps.push_back({start, Nanoseconds(step.integer("end_ns", start.count(), kLongest))});
  }
  for (const JsonObject& counter : weir.objects("counters"))
    trace.counters.push_back(parse_counter(counter, trace.ranks));
  const Json& info = weir.at("info");
  if (!info.is_object()) weir.fail("info", "expected an object of texts");
  for (const auto& [key, value] : info.items()) {
    if (!value.is_string()) weir.fail("info." + key, "expected a text");
    trace.info[key] = value.get<std::string>();
  }
  weir.finish();
  for (JsonObject& event : top.objects("traceEvents")) {
    // Kernels are written for viewers only: a trace has no place for them.
    if (event.text("ph") == "X" && !is_kernel(event))
      trace.spans.push_back(parse_span(event, trace.ranks));
  }
  // of_step() searches, so spans must be in the order of steps and operations, however a viewer
  // saved them.
  std::ranges::stable_sort(trace.spans, {},
                           [](const Span& span) { return std::pair(span.step, span.operation); });
  return trace;
}

Trace load_trace(const std::filesystem::path& file) {
  return parse_chrome_json(read_text_file(file), file.string());
}
void save_trace(const Trace& trace, const std::filesystem::path& file) {
  write_file_atomically(file, to_chrome_json(trace));
}

}  // namespace weir
