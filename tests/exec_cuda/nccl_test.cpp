// An edge of NCCL whose two ends are one process: NCCL takes no two ranks on one GPU, so this is what one GPU can check
// of the path that messages between GPUs take. Between two GPUs it has not run. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "exec/nccl/nccl_check.hpp"
#include "exec/nccl/nccl_edge.hpp"
#include "exec/nccl/nccl_facts.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir {
namespace {

TEST(Nccl, SaysItsVersion) {
  EXPECT_THAT(nccl_facts().version, testing::MatchesRegex("NCCL [0-9]+\\.[0-9]+\\.[0-9]+"));
}

// Three messages of different lengths, each sent and received in one group, arrive in order and whole.
TEST(CudaNccl, AnEdgeToOneselfCarriesItsMessagesInOrder) {
  WEIR_NEEDS_DEVICE();
  ncclUniqueId id;
  NCCL_CHECK(ncclGetUniqueId(&id));
  NcclEdge edge(id, 1, 0, 0, [](const std::function<bool()>& ready) {
    while (!ready()) std::this_thread::yield();
  });
  for (const std::int64_t bytes : {std::int64_t{64}, std::int64_t{1} << 20, std::int64_t{4096}}) {
    std::vector<unsigned char> sent(static_cast<std::size_t>(bytes));
    std::iota(sent.begin(), sent.end(), static_cast<unsigned char>(bytes % 251));
    const DeviceArray<unsigned char> from(sent), to(sent.size());
    NCCL_CHECK(ncclGroupStart());
    edge.send(reinterpret_cast<const std::byte*>(from.get()), bytes);
    edge.receive(reinterpret_cast<std::byte*>(to.get()), bytes);
    NCCL_CHECK(ncclGroupEnd());
    edge.settle();
    edge.await_stream();
    EXPECT_EQ(to.host(), sent) << bytes;
  }
}

}  // namespace
}  // namespace weir
