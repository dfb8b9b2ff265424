// A communicator of NCCL: what is launched with it by all its members in one order. None of the
// calls waits for another process on the host but through `Wait`, so one that is gone is noticed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <span>

#include "exec/cuda/driver/stream_handle.hpp"
#include "exec/cuda/driver/unique_handle.hpp"

namespace weir {

// Cancels what is under way, so it cannot hang when another member is gone. Whoever needs the
// results has waited.
inline void release_communicator(ncclComm_t communicator) noexcept {
  const ncclResult_t status = ncclCommAbort(communicator);
  static_cast<void>(status);  // nothing left to release it with
}

// Part of a message in a group: to or from a member.
struct NcclPart {
  int peer = 0;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

class NcclCommunicator {
 public:
  // How to wait for what is in progress: calls the argument until it says true, or throws.
  using Wait = std::function<void(const std::function<bool()>&)>;

  // Collective over the members, on the current device. `blocks`: the most thread blocks that one
  // of its kernels takes there, each on a multiprocessor. Throws RunFailed.
  NcclCommunicator(const ncclUniqueId& id, int members, int own, int blocks, Wait wait);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  // Finalised where it was not aborted: what is under way is done first. A member that is gone is
  // waited for no longer than two seconds.
  ~NcclCommunicator();

  // All are launched on `stream`, and hold it up until the other members do their part.
  void send(const NcclPart& to, cudaStream_t stream);
  void receive(const NcclPart& from, cudaStream_t stream);
  // Sends and receives that need each other. Between two members both ends stand in the same order.
  void exchange(std::span<const NcclPart> sends, std::span<const NcclPart> receives,
                cudaStream_t stream);

  void check() const;  // throws RunFailed when a connection broke
  void abort() noexcept { handle_.reset(); }

 private:
  using Handle = UniqueHandle<ncclComm_t, release_communicator>;
  [[nodiscard]] bool settled()
      const;            // what was asked for is launched; throws RunFailed when it cannot be
  void settle() const;  // waits for that

  Wait wait_;
  Handle handle_;
};

// Waits until all that was put on `stream` is done.
void await_stream(cudaStream_t stream, const NcclCommunicator::Wait& wait);

}  // namespace weir
