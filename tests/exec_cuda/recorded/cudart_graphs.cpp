// Events, captures and graphs of the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "tests/exec_cuda/recorded/calls.hpp"

using namespace weir::recorded;

namespace {

Event& event_of(cudaEvent_t handle) { return *reinterpret_cast<Event*>(handle); }

cudaError_t broken(cudaError_t error, const char* why) {
  machine().violation(why);
  return failed(error);
}

cudaError_t record(Event& event, Stream& stream, bool external) {
  if (event.device != stream.context->device)
    return broken(cudaErrorInvalidResourceHandle,
                  "an event is recorded on another device's stream");
  if (stream.capture == nullptr) {
    event.mark = std::make_shared<Mark>();
    put(stream, {.what = "an event", .records = event.mark});
  } else if (external) {
    put(stream, {.what = "an event of a graph", .external = &event});
  } else {
    event.mark = std::make_shared<Mark>();
    event.mark->captured = stream.capture;
    event.mark->clock = stream.capture->clocks[stream.branch];
    put(stream, {.what = "an event", .records = event.mark});
  }
  return cudaSuccess;
}

// A stream that is not captured yet joins a capture by waiting for an event of it.
cudaError_t wait(Stream& stream, const std::shared_ptr<Mark>& mark) {
  if (mark->captured == nullptr) {
    if (stream.capture != nullptr)
      return broken(cudaErrorStreamCaptureIsolation, "a captured stream waits for what is not");
  } else {
    Graph& graph = *mark->captured;
    if (!graph.capturing || (stream.capture != nullptr && stream.capture != &graph))
      return broken(cudaErrorStreamCaptureWrongThread, "an event of another capture is waited for");
    if (stream.capture == nullptr) {
      stream.capture = &graph;
      stream.branch = graph.members.size();
      graph.members.push_back(&stream);
      graph.clocks.emplace_back();
    }
    join(graph.clocks[stream.branch], mark->clock);
  }
  put(stream, {.what = "a wait", .waits = mark});
  return cudaSuccess;
}

// The nodes on streams of the graph's own, behind what the origin has, and the origin behind them.
void launch(Graph& graph, Stream& origin) {
  const auto begun = std::make_shared<Mark>();
  put(origin, {.what = "a graph begins", .records = begun});
  for (const auto& branch : graph.branches) put(*branch, {.what = "a graph", .waits = begun});
  std::map<Mark*, std::shared_ptr<Mark>> fresh;
  const auto own = [&](const std::shared_ptr<Mark>& captured) {
    std::shared_ptr<Mark>& mark = fresh[captured.get()];
    if (!mark) mark = std::make_shared<Mark>();
    return mark;
  };
  for (const Graph::Node& node : graph.nodes) {
    Operation operation = node.operation;
    if (operation.records) operation.records = own(operation.records);
    if (operation.waits) operation.waits = own(operation.waits);
    if (operation.meeting) operation.meeting = operation.meeting->copy();
    if (operation.external != nullptr)
      operation.records = operation.external->mark = std::make_shared<Mark>();
    put(*graph.branches[node.branch], std::move(operation));
  }
  for (const auto& branch : graph.branches) {
    const auto done = std::make_shared<Mark>();
    put(*branch, {.what = "a branch ends", .records = done});
    put(origin, {.what = "a graph ends", .waits = done});
  }
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  WEIR_CALL();
  *event = reinterpret_cast<cudaEvent_t>(
      new Event{current().device, (flags & cudaEventDisableTiming) == 0, nullptr});
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  WEIR_CALL();
  delete &event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t on) {
  WEIR_CALL();
  Stream* stream = machine().find(on, current().device);
  return stream == nullptr ? failed(cudaErrorInvalidResourceHandle)
                           : record(event_of(event), *stream, false);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t on, unsigned flags) {
  WEIR_CALL();
  Stream* stream = machine().find(on, current().device);
  return stream == nullptr
             ? failed(cudaErrorInvalidResourceHandle)
             : record(event_of(event), *stream, (flags & cudaEventRecordExternal) != 0);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t event, unsigned) {
  WEIR_CALL();
  if (++machine().waits == machine().faults.dropped_wait) return cudaSuccess;
  Stream* stream = machine().find(on, current().device);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Mark> mark = event_of(event).mark;
  if (mark == nullptr) return cudaSuccess;  // never recorded: CUDA does not wait for it
  return wait(*stream, mark);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  WEIR_CALL();
  const std::shared_ptr<Mark>& mark = event_of(event).mark;
  if (mark == nullptr) return cudaSuccess;
  if (mark->captured != nullptr)
    return broken(cudaErrorCapturedEvent, "an event is asked for that was captured, not run");
  if (!mark->reached) {
    machine().progress();
    return failed(cudaErrorNotReady);
  }
  join(machine().host_clock(), mark->clock);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  WEIR_CALL();
  const Event &first = event_of(from), &last = event_of(to);
  if (!first.timing || !last.timing || !first.mark || !last.mark || first.device != last.device)
    return broken(cudaErrorInvalidResourceHandle, "events without a common clock are compared");
  if (!first.mark->reached || !last.mark->reached) return failed(cudaErrorNotReady);
  *milliseconds = static_cast<float>(static_cast<double>(last.mark->time - first.mark->time) / 1e6);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  WEIR_CALL();
  Stream* stream = machine().find(handle, current().device);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  *status =
      stream->capture == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  WEIR_CALL();
  if (machine().faults.capture == Faults::Capture::begin)
    return failed(cudaErrorStreamCaptureUnsupported);
  Stream* stream = machine().find(handle, current().device);
  if (stream == nullptr || stream->capture != nullptr)
    return broken(cudaErrorIllegalState, "a stream is captured twice");
  Graph& graph = machine().make_graph();
  graph.capturing = current().captures = true;
  graph.members.push_back(stream);
  graph.clocks.emplace_back();
  stream->capture = &graph;
  stream->branch = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* result) {
  WEIR_CALL();
  *result = nullptr;
  current().captures = false;
  Stream* stream = machine().find(handle, current().device);
  if (stream == nullptr || stream->capture == nullptr || stream->branch != 0)
    return broken(cudaErrorIllegalState, "a capture is ended where none began");
  Graph& graph = *stream->capture;
  graph.capturing = false;
  bool joined = true;
  for (std::size_t b = 0; b < graph.members.size(); ++b) {
    const auto branch = static_cast<std::uint32_t>(b);
    const Clock& own = graph.clocks[b];
    joined = joined && knows(graph.clocks[0], branch, b < own.size() ? own[b] : 0);
    graph.members[b]->capture = nullptr;
  }
  if (!joined)
    return broken(cudaErrorStreamCaptureUnjoined,
                  "a capture ends before all its streams have joined");
  if (machine().faults.capture == Faults::Capture::end)
    return failed(cudaErrorStreamCaptureInvalidated);
  *result = reinterpret_cast<cudaGraph_t>(&graph);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* result, cudaGraph_t handle, unsigned long long) {
  WEIR_CALL();
  if (machine().faults.capture == Faults::Capture::instantiate)
    return failed(cudaErrorNotSupported);
  const auto& captured = *reinterpret_cast<Graph*>(handle);
  Graph& graph = machine().make_graph();
  graph.nodes = captured.nodes;
  for (const Stream* member : captured.members)
    graph.branches.emplace_back(machine().own_stream(*member->context));
  *result = reinterpret_cast<cudaGraphExec_t>(&graph);
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  WEIR_CALL();
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle) {
  WEIR_CALL();
  Stream* stream = machine().find(handle, current().device);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  launch(*reinterpret_cast<Graph*>(graph), *stream);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t) {
  WEIR_CALL();
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  WEIR_CALL();
  for (const auto& branch : reinterpret_cast<Graph*>(graph)->branches)
    machine().end_stream(branch.get());
  return cudaSuccess;
}
}
