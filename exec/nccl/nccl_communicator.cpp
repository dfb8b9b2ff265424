// A communicator that does not block: every call is followed by waiting until NCCL has taken it.
// SPDX-License-Identifier: Apache-2.0
#include "exec/nccl/nccl_communicator.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "exec/nccl/nccl_check.hpp"

namespace weir {
namespace {

// Calls between begin and end are launched as one. A group that is left by an exception is ended
// all the same.
class Group {
 public:
  Group() { NCCL_CHECK(ncclGroupStart()); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (open_) static_cast<void>(ncclGroupEnd());
  }
  void end() {
    open_ = false;
    NCCL_CHECK(ncclGroupEnd());
  }

 private:
  bool open_ = true;
};

}  // namespace

NcclCommunicator::NcclCommunicator(const ncclUniqueId& id, int members, int own, int blocks,
                                   Wait wait)
    : wait_(std::move(wait)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Not blocking: a member that never comes must not hold this thread for ever.
  config.blocking = 0;
  config.maxCTAs = blocks;
  ncclComm_t made = nullptr;
  const ncclResult_t status = ncclCommInitRankConfig(&made, members, id, own, &config);
  handle_ = Handle(made);  // there even where the call fails later
  NCCL_CHECK(status);
  settle();
}

// The handle then releases what is left; of a communicator that is finalised nothing is cut short.
NcclCommunicator::~NcclCommunicator() {
  if (!handle_) return;
  constexpr int kTries = 2000;
  constexpr std::chrono::milliseconds kPause{1};
  ncclResult_t status = ncclCommFinalize(handle_.get());
  for (int tries = 0; status == ncclInProgress && tries < kTries; ++tries) {
    std::this_thread::sleep_for(kPause);
    if (ncclCommGetAsyncError(handle_.get(), &status) != ncclSuccess) return;
  }
}

bool NcclCommunicator::settled() const {
  ncclResult_t status = ncclSuccess;
  NCCL_CHECK(ncclCommGetAsyncError(handle_.get(), &status));
  NCCL_CHECK(status);
  return status == ncclSuccess;
}

void NcclCommunicator::settle() const {
  if (!settled()) wait_([this] { return settled(); });
}

void NcclCommunicator::check() const { static_cast<void>(settled()); }

void NcclCommunicator::send(const NcclPart& to, cudaStream_t stream) {
  exchange({&to, 1}, {}, stream);
}

void NcclCommunicator::receive(const NcclPart& from, cudaStream_t stream) {
  exchange({}, {&from, 1}, stream);
}

void NcclCommunicator::exchange(std::span<const NcclPart> sends, std::span<const NcclPart> receives,
                                cudaStream_t stream) {
  // One group: each member's sends and receives are started together, so that no two wait for each
  // other.
  Group group;
  for (const NcclPart& to : sends) {
    NCCL_CHECK(ncclSend(to.data, static_cast<std::size_t>(to.bytes), ncclInt8, to.peer,
                        handle_.get(), stream));
  }
  for (const NcclPart& from : receives) {
    NCCL_CHECK(ncclRecv(from.data, static_cast<std::size_t>(from.bytes), ncclInt8, from.peer,
                        handle_.get(), stream));
  }
  group.end();
  settle();
}

void await_stream(cudaStream_t stream, const NcclCommunicator::Wait& wait) {
  wait([stream] { return CUDA_DONE(cudaStreamQuery(stream)); });
}

}  // namespace weir
