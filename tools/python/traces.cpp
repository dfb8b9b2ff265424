// Traces as NumPy arrays: one record a span, one a step, one a sample of a counter.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plan/job/summary.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "tools/python/bindings.hpp"
#include "tools/report/svg.hpp"
#include "tools/report/timeline.hpp"
#include "traces/trace.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

// NumPy's "U" text is UCS-4, padded with zeros: records with it compare to str without a detour
// over bytes.
template <std::size_t N>
struct Text {
  char32_t characters[N]{};
  void operator=(std::string_view text) {
    for (std::size_t i = 0; i < N; ++i)
      characters[i] = i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  }
};

struct SpanRecord {
  std::int32_t rank = 0;
  Text<7> lane;
  Text<11> kind;
  std::int32_t stage = 0, microbatch = 0, step = 0, operation = 0, peer = 0;
  std::int64_t start_ns = 0, end_ns = 0;
};

// Arrays are made by NumPy itself, of bytes and a description in NumPy's own words: pybind11 2.10
// looks into NumPy's structs as NumPy 1 laid them out, and with NumPy 2 its arrays are garbage.
struct Column {
  const char* name;
  const char* format;
  std::size_t offset;
};

template <class Record>
py::object array_of(const std::vector<Record>& records, std::initializer_list<Column> columns) {
  static_assert(std::is_trivially_copyable_v<Record>);
  py::list names, formats, offsets;
  for (const Column& column : columns) {
    names.append(column.name);
    formats.append(column.format);
    offsets.append(column.offset);
  }
  const auto numpy = py::module_::import("numpy");
  const py::dict layout(py::arg("names") = names, py::arg("formats") = formats,
                        py::arg("offsets") = offsets, py::arg("itemsize") = sizeof(Record));
  const py::object type = numpy.attr("dtype")(layout);
  if (records.empty()) return numpy.attr("empty")(0, type);
  // A bytearray of the array's own, so that it can be written to.
  const py::bytearray bytes(reinterpret_cast<const char*>(records.data()),
                            records.size() * sizeof(Record));
  return numpy.attr("frombuffer")(bytes, type);
}

py::object spans(const PlannedTrace& t) {
  std::vector<SpanRecord> records(t.trace.spans.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Span& span = t.trace.spans[i];
    SpanRecord& record = records[i];
    record.rank = span.rank.value;
    record.lane = weir::to_string(span.lane);
    record.kind = weir::to_string(span.action.kind);
    record.stage = span.action.stage.value;
    record.microbatch = span.action.microbatch.value;
    record.step = span.step;
    record.operation = span.operation.value;
    record.peer = span.peer.value;
    record.start_ns = span.start.count();
    record.end_ns = span.end.count();
  }
  return array_of(records, {{"rank", "i4", offsetof(SpanRecord, rank)},
                            {"lane", "U7", offsetof(SpanRecord, lane)},
                            {"kind", "U11", offsetof(SpanRecord, kind)},
                            {"stage", "i4", offsetof(SpanRecord, stage)},
                            {"microbatch", "i4", offsetof(SpanRecord, microbatch)},
                            {"start_ns", "i8", offsetof(SpanRecord, start_ns)},
                            {"end_ns", "i8", offsetof(SpanRecord, end_ns)},
                            {"step", "i4", offsetof(SpanRecord, step)},
                            {"operation", "i4", offsetof(SpanRecord, operation)},
                            {"peer", "i4", offsetof(SpanRecord, peer)}});
}

struct StepRecord {
  std::int64_t start_ns, end_ns;
};

py::object steps(const PlannedTrace& t) {
  std::vector<StepRecord> records;
  for (const auto& step : t.trace.steps) records.push_back({step.start.count(), step.end.count()});
  return array_of(records, {{"start_ns", "i8", offsetof(StepRecord, start_ns)},
                            {"end_ns", "i8", offsetof(StepRecord, end_ns)}});
}

struct SampleRecord {
  std::int64_t time_ns, value;
};

py::list counters(const PlannedTrace& t) {
  py::list list;
  for (const Counter& counter : t.trace.counters) {
    std::vector<SampleRecord> records;
    for (const auto& sample : counter.samples)
      records.push_back({sample.time.count(), sample.value});
    py::dict row;
    row["name"] = counter.name;
    row["rank"] = counter.rank.value;
    row["unit"] = counter.unit == CounterUnit::bytes ? "bytes" : "count";
    row["samples"] = array_of(records, {{"time_ns", "i8", offsetof(SampleRecord, time_ns)},
                                        {"value", "i8", offsetof(SampleRecord, value)}});
    list.append(row);
  }
  return list;
}

const char* origin(const PlannedTrace& t) {
  return t.trace.origin == TraceOrigin::predicted ? "predicted" : "measured";
}

void save_with_plan(const PlannedTrace& t, const std::filesystem::path& folder,
                    const std::optional<std::string>& name) {
  if (!t.plan) throw UsageError("save: this trace has no plan to go with it");
  save_traced_plan(t.trace, moved_to(*t.plan, folder), folder, {folder, name.value_or(origin(t))},
                   app::Session());
}

PlannedTrace read_trace(const std::filesystem::path& file) {
  TracedPlan traced = load_traced_plan(file);
  return {std::move(traced.trace),
          PlacedPlan{std::move(traced.plan), std::filesystem::absolute(file).parent_path(), false}};
}

}  // namespace

void bind_traces(py::module_& m) {
  py::class_<PlannedTrace>(
      m, "Trace", "What happened, or is predicted to; times in ns since the trace's origin.")
      .def_property_readonly("origin", &origin, "'predicted' or 'measured'.")
      .def_property_readonly(
          "ranks", [](const PlannedTrace& t) { return t.trace.ranks; }, "K.")
      .def_property_readonly(
          "spans", &spans,
          "A structured array: rank, lane ('compute', 'send', 'receive', 'reduce'), kind ('F', "
          "'B', ...), stage, microbatch (-1: none), start_ns, end_ns, step, operation, peer.")
      .def_property_readonly("steps", &steps,
                             "A structured array: start_ns, end_ns of each training step.")
      .def_property_readonly(
          "counters", &counters,
          "Dicts of name, rank, unit and samples, a structured array of time_ns and value; each "
          "sample holds until the next.")
      .def_property_readonly(
          "info", [](const PlannedTrace& t) { return t.trace.info; },
          "Where it was made: machine, version, backend.")
      .def_property_readonly(
          "plan", [](const PlannedTrace& t) { return t.plan; }, "The one it is of, or None.")
      .def("save", &save_with_plan, py::arg("folder"), py::arg("name") = py::none(),
           "Writes NAME.json (any Chrome-trace viewer) and NAME.pftrace (Perfetto); NAME is its "
           "origin.")
      // IPython asks for this where it can show a picture: the first step, of a trace that has one.
      .def("_repr_svg_",
           [](const PlannedTrace& t) -> std::optional<std::string> {
             if (t.trace.steps.empty()) return std::nullopt;
             return timeline_svg(t.trace, t.plan ? summary(t.plan->loaded.plan) : "");
           })
      .def("__repr__", [](const PlannedTrace& t) {
        return fmt::format("<weir.Trace {}: {} ranks, {} steps, {} spans>", origin(t),
                           t.trace.ranks, t.trace.steps.size(), t.trace.spans.size());
      });
  m.def("load_trace", &read_trace, py::arg("file"),
        "Reads NAME.json, as Trace.save or the command wrote it.");
}

std::string timeline_svg(const Trace& trace, const std::string& title) {
  const char* const label = trace.origin == TraceOrigin::measured ? "measured" : "predicted";
  const std::array panels{TimelinePanel{title, {{&trace, 0, label}}}};
  return to_svg(draw_timeline(panels, {}));
}

}  // namespace weir::python
