// Traces as NumPy arrays: one record a span, one a step, one a sample of a counter.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <pybind11/numpy.h>

#include <cstddef>
#include <cstring>
#include <string_view>

#include "plan/words/error.hpp"
#include "tools/python/bindings.hpp"
#include "tools/weir/traced_plan.hpp"
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

struct Field {
  const char* name;
  const char* format;
  std::size_t offset;
};

constexpr Field kSpanFields[] = {{"rank", "i4", offsetof(SpanRecord, rank)},
                                 {"lane", "U7", offsetof(SpanRecord, lane)},
                                 {"kind", "U11", offsetof(SpanRecord, kind)},
                                 {"stage", "i4", offsetof(SpanRecord, stage)},
                                 {"microbatch", "i4", offsetof(SpanRecord, microbatch)},
                                 {"start_ns", "i8", offsetof(SpanRecord, start_ns)},
                                 {"end_ns", "i8", offsetof(SpanRecord, end_ns)},
                                 {"step", "i4", offsetof(SpanRecord, step)},
                                 {"operation", "i4", offsetof(SpanRecord, operation)},
                                 {"peer", "i4", offsetof(SpanRecord, peer)}};

py::dtype span_type() {
  py::list names, formats, offsets;
  for (const Field& field : kSpanFields) {
    names.append(field.name);
    formats.append(field.format);
    offsets.append(field.offset);
  }
  return py::dtype(names, formats, offsets, sizeof(SpanRecord));
}

std::string_view to_string(LaneKind lane) {
  static constexpr std::string_view kNames[] = {"compute", "send", "receive", "reduce"};
  return kNames[static_cast<std::size_t>(lane)];
}

py::array spans(const PlannedTrace& t) {
  py::array array(span_type(), t.trace.spans.size());
  auto* records = static_cast<std::byte*>(array.mutable_data());
  for (std::size_t i = 0; i < t.trace.spans.size(); ++i) {
    const Span& span = t.trace.spans[i];
    SpanRecord record;
    record.rank = span.rank.value;
    record.lane = to_string(span.lane);
    record.kind = weir::to_string(span.action.kind);
    record.stage = span.action.stage.value;
    record.microbatch = span.action.microbatch.value;
    record.step = span.step;
    record.operation = span.operation;
    record.peer = span.peer.value;
    record.start_ns = span.start.count();
    record.end_ns = span.end.count();
    std::memcpy(records + i * sizeof(SpanRecord), &record, sizeof(SpanRecord));
  }
  return array;
}

struct StepRecord {
  std::int64_t start_ns, end_ns;
};

py::array steps(const PlannedTrace& t) {
  py::array_t<StepRecord> array(static_cast<py::ssize_t>(t.trace.steps.size()));
  auto records = array.mutable_unchecked<1>();
  for (std::size_t i = 0; i < t.trace.steps.size(); ++i)
    records(static_cast<py::ssize_t>(i)) = {t.trace.steps[i].start.count(),
                                            t.trace.steps[i].end.count()};
  return array;
}

struct SampleRecord {
  std::int64_t time_ns, value;
};

py::list counters(const PlannedTrace& t) {
  py::list list;
  for (const Counter& counter : t.trace.counters) {
    py::array_t<SampleRecord> array(static_cast<py::ssize_t>(counter.samples.size()));
    auto records = array.mutable_unchecked<1>();
    for (std::size_t i = 0; i < counter.samples.size(); ++i)
      records(static_cast<py::ssize_t>(i)) = {counter.samples[i].time.count(),
                                              counter.samples[i].value};
    py::dict row;
    row["name"] = counter.name;
    row["rank"] = counter.rank.value;
    row["unit"] = counter.unit == CounterUnit::bytes ? "bytes" : "count";
    row["samples"] = array;
    list.append(row);
  }
  return list;
}

const char* origin(const PlannedTrace& t) {
  return t.trace.origin == TraceOrigin::predicted ? "predicted" : "measured";
}

void save(const PlannedTrace& t, const std::filesystem::path& folder,
          const std::optional<std::string>& name) {
  if (!t.plan) throw UsageError("save: this trace has no plan to go with it");
  save_traced_plan(t.trace, moved_to(*t.plan, folder), folder, folder, name.value_or(origin(t)));
}

PlannedTrace read_trace(const std::filesystem::path& file) {
  TracedPlan traced = load_traced_plan(file);
  return {std::move(traced.trace),
          PlacedPlan{std::move(traced.plan), std::filesystem::absolute(file).parent_path(), false}};
}

}  // namespace

void bind_traces(py::module_& m) {
  PYBIND11_NUMPY_DTYPE(StepRecord, start_ns, end_ns);
  PYBIND11_NUMPY_DTYPE(SampleRecord, time_ns, value);
  py::class_<PlannedTrace>(
      m, "Trace", "What happened, or is predicted to; times in ns since the trace's origin.")
      .def_property_readonly("origin", &origin, "'predicted' or 'measured'.")
      .def_property_readonly("ranks", [](const PlannedTrace& t) { return t.trace.ranks; })
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
      .def_property_readonly("info", [](const PlannedTrace& t) { return t.trace.info; })
      .def_property_readonly("plan", [](const PlannedTrace& t) { return t.plan; })
      .def("save", &save, py::arg("folder"), py::arg("name") = py::none(),
           "Writes NAME.json (any Chrome-trace viewer) and NAME.pftrace (Perfetto); NAME is its "
           "origin.")
      .def("__repr__", [](const PlannedTrace& t) {
        return fmt::format("<weir.Trace {}: {} ranks, {} steps, {} spans>", origin(t),
                           t.trace.ranks, t.trace.steps.size(), t.trace.spans.size());
      });
  m.def("load_trace", &read_trace, py::arg("file"),
        "Reads NAME.json, as Trace.save or the command wrote it.");
}

}  // namespace weir::python
