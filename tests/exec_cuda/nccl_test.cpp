// A communicator of NCCL with one member: NCCL takes no two on one GPU, so this is what one GPU can
// check of the path that messages between GPUs take. Between two GPUs it has not run.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "exec/cuda/cuda_graph_capture.hpp"
#include "exec/nccl/nccl_check.hpp"
#include "exec/nccl/nccl_communicator.hpp"
#include "exec/nccl/nccl_facts.hpp"
#include "exec/nccl/nccl_library.hpp"
#include "plan/words/error.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::nccl_test {
namespace {

#define WEIR_NEEDS_NCCL()                                             \
  if (const std::string missing = nccl_missing(); !missing.empty()) { \
    GTEST_SKIP() << missing;                                          \
  }                                                                   \
  static_assert(true)

TEST(Nccl, SaysItsVersion) {
  WEIR_NEEDS_NCCL();
  EXPECT_THAT(nccl_facts().why, testing::MatchesRegex("NCCL [0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(Nccl, WhereItIsMissingOneLineSaysSo) {
  EXPECT_EQ(why_no_nccl({"libnccl.so.none", "/nowhere/libnccl.so.none"}),
            "no libnccl.so.none on this machine");
  EXPECT_EQ(why_no_nccl({"libm.so.6"}), "this library has no ncclGetVersion");
  EXPECT_GE(nccl_libraries().size(), 3U);  // the search path, the runtime's folder, Python's
}

// The status alone would be "unhandled cuda error" for whatever went wrong.
TEST(Nccl, ErrorsSayWhatFailedAndWhere) {
  WEIR_NEEDS_NCCL();
  EXPECT_NO_THROW(NCCL_CHECK(ncclInProgress));
  try {
    NCCL_CHECK(ncclCommGetAsyncError(nullptr, nullptr));
    FAIL() << "no communicator, and no error";
  } catch (const RunFailed& failed) {
    EXPECT_THAT(failed.what(),
                testing::MatchesRegex(
                    "NCCL: invalid argument.* in ncclCommGetAsyncError\\(nullptr, nullptr\\) "
                    "\\(nccl_test.cpp:[0-9]+\\)"));
  }
}

NcclCommunicator alone() {
  ncclUniqueId id;
  NCCL_CHECK(ncclGetUniqueId(&id));
  return NcclCommunicator(id, 1, 0, 8, [](const std::function<bool()>& ready) {
    while (!ready()) std::this_thread::yield();
  });
}

void finish(const StreamHandle& stream) { CUDA_CHECK(cudaStreamSynchronize(stream.get())); }

// Three messages of different lengths, each sent and received in one group, arrive in order and
// whole.
TEST(CudaNccl, AMessageToOneselfArrivesWhole) {
  WEIR_NEEDS_DEVICE();
  WEIR_NEEDS_NCCL();
  NcclCommunicator communicator = alone();
  const StreamHandle stream = make_stream_handle();
  for (const std::int64_t bytes : {std::int64_t{64}, std::int64_t{1} << 20, std::int64_t{4096}}) {
    std::vector<unsigned char> sent(static_cast<std::size_t>(bytes));
    std::iota(sent.begin(), sent.end(), static_cast<unsigned char>(bytes % 251));
    const DeviceArray<unsigned char> from(sent), to(sent.size());
    const NcclPart out{0, reinterpret_cast<std::byte*>(from.get()), bytes};
    const NcclPart in{0, reinterpret_cast<std::byte*>(to.get()), bytes};
    communicator.exchange({&out, 1}, {&in, 1}, stream.get());
    communicator.check();
    finish(stream);
    EXPECT_EQ(to.host(), sent) << bytes;
  }
}

// With --graphs messages are captured with the step: a communicator that does not block launches
// from a thread of its own, which the capture must see. Each repetition sends what lies there then.
TEST(CudaNccl, AMessageIsCapturedAndRepeated) {
  WEIR_NEEDS_DEVICE();
  WEIR_NEEDS_NCCL();
  NcclCommunicator communicator = alone();
  const StreamHandle stream = make_stream_handle();
  const DeviceArray<int> from(1024), to(1024);
  const NcclPart out{0, reinterpret_cast<std::byte*>(from.get()), 4096},
      in{0, reinterpret_cast<std::byte*>(to.get()), 4096};
  communicator.exchange({&out, 1}, {&in, 1}, stream.get());  // connects
  finish(stream);
  CudaGraphCapture graph(stream.get());
  graph.begin();
  communicator.exchange({&out, 1}, {&in, 1}, stream.get());
  graph.end();
  for (const int value : {0x01010101, 0x02020202}) {
    CUDA_CHECK(cudaMemsetAsync(from.get(), value & 0xFF, 4096, stream.get()));
    graph.replay();
    finish(stream);
    EXPECT_EQ(to.host(), std::vector<int>(1024, value));
  }
}

}  // namespace
}  // namespace weir::nccl_test
