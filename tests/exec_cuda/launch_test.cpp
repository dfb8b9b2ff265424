// Streams, events and graphs on a GPU: a step that is launched without waiting, and one that is
// repeated as a graph, train what ranks that wait would. Whether the launcher's waits are all there
// is shown without a GPU (tests/exec/streams/step_launcher_test).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/cuda/cuda_backend.hpp"
#include "exec/cuda/cuda_stream.hpp"
#include "tests/exec/tiny.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::launch_test {
namespace {

RunResult train(const ResolvedPlan& loaded, int steps, bool graphs) {
  RunOptions options;
  options.backend = BackendKind::cuda;
  options.steps = steps;
  options.warmup_steps = 0;
  options.graphs = graphs ? Graphs::always : Graphs::never;
  return run(loaded, options, {{BackendKind::cuda, cuda_backends()}});
}

// Dropout and AdamW change with the step: a graph that had step 1's numbers baked in would differ
// from the second on.
TEST(CudaGraphs, FiveRepeatedStepsAreFiveLaunchedOnes) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model;
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {3}, {1, 3}}) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      const ResolvedPlan loaded = model.load(model.plan(boundaries, 4, schedule));
      const RunResult launched = train(loaded, 5, false), repeated = train(loaded, 5, true);
      EXPECT_EQ(repeated.parameters_sha256, launched.parameters_sha256) << schedule;
      for (std::size_t step = 0; step < 5; ++step) {
        EXPECT_EQ(repeated.steps[step].loss, launched.steps[step].loss)
            << schedule << " step " << step;
      }
    }
  }
}

// Times of events, recorded in a graph or not: every action takes some, after what it waited for,
// within its step.
TEST(CudaTrace, ActionsHaveDeviceTimes) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model;
  const ResolvedPlan loaded = model.load(model.plan({3}, 4));
  const Program& program = loaded.program;
  for (const bool graphs : {false, true}) {
    const RunResult result = train(loaded, 3, graphs);
    ASSERT_EQ(result.trace.spans.size(), 3 * program.size());
    EXPECT_GT(result.host_per_action.value(), Seconds(0));
    for (const Span& span : result.trace.spans) {
      const auto step = static_cast<std::size_t>(span.step);
      EXPECT_GE(span.start, result.trace.steps[step].start);
      EXPECT_LE(span.end, result.trace.steps[step].end);
      if (span.lane == LaneKind::compute) {
        EXPECT_LT(span.start, span.end)
            << to_string(span.action) << " step " << step << " graphs " << graphs;
      }
    }
  }
}

// A long chain of writes on one stream, and a read on another that only an event orders behind it.
TEST(CudaStreamEvents, OrderOneStreamBehindAnother) {
  WEIR_NEEDS_DEVICE();
  CudaStream writer(0, make_stream_handle(), make_stream_handle),
      reader(0, make_stream_handle(), make_stream_handle);
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const DeviceArray<unsigned char> source(kBytes), target(kBytes);
  const Event begun = writer.make_event(), written = writer.make_event();
  writer.record(begun);
  for (int value = 0; value < 50; ++value)
    CUDA_CHECK(cudaMemsetAsync(source.get(), value, kBytes, writer.handle()));
  writer.record(written);
  reader.wait_for(written);
  CUDA_CHECK(cudaMemcpyAsync(target.get(), source.get(), kBytes, cudaMemcpyDeviceToDevice,
                             reader.handle()));
  CUDA_CHECK(cudaStreamSynchronize(reader.handle()));
  const std::vector<unsigned char> read = target.host();
  EXPECT_EQ(std::count(read.begin(), read.end(), 49), static_cast<std::ptrdiff_t>(kBytes));
  EXPECT_GT(writer.ns_between(begun, written), 0);
}

// "Not yet" is an answer: it is not left behind as the error of the next launch.
TEST(CudaStreamEvents, AnEventThatIsNotReachedIsNoError) {
  WEIR_NEEDS_DEVICE();
  CudaStream stream(0, make_stream_handle(), make_stream_handle);
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const DeviceArray<unsigned char> target(kBytes);
  const Event written = stream.make_event();
  for (int value = 0; value < 50; ++value)
    CUDA_CHECK(cudaMemsetAsync(target.get(), value, kBytes, stream.handle()));
  stream.record(written);
  int waits = 0;
  while (!stream.reached(written)) {
    ASSERT_EQ(cudaPeekAtLastError(), cudaSuccess);
    ++waits;
  }
  EXPECT_GT(waits, 0) << "3 ms of writing were over before they could be asked for";
}

// A step of two streams, captured and repeated: each repetition reads what lies at its source then.
TEST(CudaStreamEvents, ACapturedStepRepeats) {
  WEIR_NEEDS_DEVICE();
  CudaStream origin(0, make_stream_handle(), make_stream_handle),
      other(0, make_stream_handle(), make_stream_handle);
  const DeviceArray<int> source(1), middle(1), target(1);
  const Event fork = origin.make_event(), copied = other.make_event();
  const auto capture = origin.make_capture();
  capture->begin();
  CUDA_CHECK(
      cudaMemcpyAsync(middle.get(), source.get(), 4, cudaMemcpyDeviceToDevice, origin.handle()));
  origin.record(fork);
  other.wait_for(fork);
  CUDA_CHECK(
      cudaMemcpyAsync(target.get(), middle.get(), 4, cudaMemcpyDeviceToDevice, other.handle()));
  other.record(copied);
  origin.wait_for(copied);
  capture->end();
  for (const int value : {7, 8, 9}) {
    CUDA_CHECK(cudaMemcpy(source.get(), &value, 4, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaStreamSynchronize(
        nullptr));  // a copy from pageable memory may return before it has arrived
    capture->replay();
    CUDA_CHECK(cudaStreamSynchronize(origin.handle()));
    EXPECT_EQ(target.host().front(), value);
    EXPECT_GE(origin.ns_between(fork, copied), 0);
  }
}

}  // namespace
}  // namespace weir::launch_test
