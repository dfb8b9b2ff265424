// The recorded machine finds what is planted: each misuse of CUDA is one violation, and its mended
// twin none.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cuda_graph_capture.hpp"
#include "exec/cuda/cuda_stream.hpp"
#include "exec/cuda/driver/event_handle.hpp"
#include "exec/cuda/driver/memory_pool.hpp"
#include "exec/cuda/kernels/sums.hpp"
#include "plan/words/error.hpp"
#include "tests/exec_cuda/device.hpp"
#include "tests/exec_cuda/recorded/fixture.hpp"

namespace weir::recorded::machine_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class RecordedMachine : public Recorded {
 protected:
  // What was found since the last call; afterwards it is forgotten.
  static std::vector<std::string> found() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::vector<std::string> all = machine().violations();
    machine().forget();
    return all;
  }
};

constexpr std::size_t kBytes = 4096;

TEST_F(RecordedMachine, AReadThatNoEventPutsBehindItsWrite) {
  const StreamHandle writer = make_stream_handle(), reader = make_stream_handle();
  const EventHandle written = make_event_handle(cudaEventDisableTiming);
  const DeviceArray<float> from(kBytes / 4), to(kBytes / 4);
  for (const bool waits : {true, false}) {
    CUDA_CHECK(cudaMemsetAsync(from.get(), 0, kBytes, writer.get()));
    CUDA_CHECK(cudaEventRecord(written.get(), writer.get()));
    if (waits) CUDA_CHECK(cudaStreamWaitEvent(reader.get(), written.get(), 0));
    CUDA_CHECK(
        cudaMemcpyAsync(to.get(), from.get(), kBytes, cudaMemcpyDeviceToDevice, reader.get()));
    if (waits) {
      EXPECT_THAT(found(), SizeIs(0));
    } else {
      EXPECT_THAT(found(), SizeIs(::testing::Ge(1U)));
    }
  }
}

// What a kernel reads and writes is seen at every access, not told.
TEST_F(RecordedMachine, AKernelOnTheWrongStream) {
  const StreamHandle one = make_stream_handle(), other = make_stream_handle();
  const DeviceFloats from(std::vector<float>(256, 1.0F)), to(std::vector<float>(256, 2.0F));
  const cuda::Additions sum{{{from.get(), to.get(), 256}}, 1};
  CUDA_CHECK(cudaMemsetAsync(from.get(), 0, 1024, one.get()));
  cuda::accumulate(sum, cuda::Beta::one, one.get());
  EXPECT_THAT(found(), SizeIs(0));
  EXPECT_EQ(to.host()[255], 2.0F);
  CUDA_CHECK(cudaMemsetAsync(from.get(), 0, 1024, one.get()));
  cuda::accumulate(sum, cuda::Beta::one, other.get());
  EXPECT_THAT(found(), ::testing::Contains(HasSubstr("no event orders the two")));
}

TEST_F(RecordedMachine, AKernelThatReachesBeyondItsMemory) {
  const StreamHandle stream = make_stream_handle();
  const DeviceFloats from(std::vector<float>(256, 1.0F)), to(std::vector<float>(255, 2.0F));
  cuda::accumulate({{{from.get(), to.get(), 256}}, 1}, cuda::Beta::one, stream.get());
  EXPECT_THAT(found(), ::testing::Contains(HasSubstr("accumulate_kernel reaches beyond")));
}

TEST_F(RecordedMachine, MemoryThatWasFreedOrIsFreedTooEarly) {
  MemoryPool pool(0);
  const StreamHandle one = make_stream_handle(), other = make_stream_handle();
  void* block = pool.allocate(kBytes, one.get());
  CUDA_CHECK(cudaMemsetAsync(block, 0, kBytes, one.get()));
  pool.release(block, one.get());
  CUDA_CHECK(cudaMemsetAsync(block, 0, kBytes, one.get()));
  EXPECT_THAT(found(), ElementsAre(HasSubstr("a fill uses memory that was freed")));
  block = pool.allocate(kBytes, one.get());
  CUDA_CHECK(cudaMemsetAsync(block, 0, kBytes, one.get()));
  pool.release(block, other.get());  // before what the other stream does with it is done
  EXPECT_THAT(found(), SizeIs(1));
}

TEST_F(RecordedMachine, CapturesThatCudaRefuses) {
  const StreamHandle origin = make_stream_handle(), branch = make_stream_handle();
  const EventHandle fork = make_event_handle(cudaEventDisableTiming);
  const DeviceArray<float> data(kBytes / 4);
  EXPECT_EQ(found().size(), 0U);
  {
    CudaGraphCapture capture(origin.get());
    capture.begin();
    CUDA_CHECK(cudaEventRecord(fork.get(), origin.get()));
    CUDA_CHECK(cudaStreamWaitEvent(branch.get(), fork.get(), 0));
    CUDA_CHECK(cudaMemsetAsync(data.get(), 0, kBytes, branch.get()));
    EXPECT_THROW(capture.end(), RunFailed);  // the branch has not joined
    EXPECT_THAT(found(), ElementsAre(HasSubstr("before all its streams have joined")));
  }
  CUDA_CHECK(cudaEventRecord(fork.get(), branch.get()));
  CudaGraphCapture capture(origin.get());
  capture.begin();
  EXPECT_NE(cudaStreamWaitEvent(origin.get(), fork.get(), 0), cudaSuccess);
  EXPECT_NE(cudaStreamSynchronize(origin.get()), cudaSuccess);
  static_cast<void>(cudaGetLastError());
  capture.end();
  EXPECT_THAT(found(), ElementsAre(HasSubstr("waits for what is not"), HasSubstr("captured")));
}

TEST_F(RecordedMachine, AnotherDevicesStreamAndMemory) {
  machine().reset(2);
  CUDA_CHECK(cudaSetDevice(1));
  const StreamHandle stream = make_stream_handle();
  CUDA_CHECK(cudaSetDevice(0));
  MemoryPool alone(0), shared(0, 2);
  const StreamHandle own = make_stream_handle();
  auto* mine = static_cast<float*>(alone.allocate(kBytes, own.get()));
  auto* ours = static_cast<float*>(shared.allocate(kBytes, own.get()));
  CUDA_CHECK(cudaStreamSynchronize(own.get()));
  CUDA_CHECK(cudaMemsetAsync(ours, 0, kBytes, stream.get()));
  EXPECT_THAT(found(), SizeIs(0));
  CUDA_CHECK(cudaMemsetAsync(mine, 0, kBytes, stream.get()));
  EXPECT_THAT(found(), ElementsAre(HasSubstr("a device that it does not reach")));
  EXPECT_THROW(cuda::accumulate({{{ours, ours + 8, 8}}, 1}, cuda::Beta::one, stream.get()),
               RunFailed);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("while device 0 is current")));
}

}  // namespace
}  // namespace weir::recorded::machine_test
