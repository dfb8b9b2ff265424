// One directed edge over NCCL: a communicator of its two ends, so that no other edge can hold it up, and a stream on
// which its messages follow each other. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstdint>
#include <functional>

#include "exec/cuda/stream.hpp"
#include "exec/cuda/unique_handle.hpp"

namespace weir {

// Cancels what is under way, so it cannot hang when the other end is gone. Whoever needs the messages has waited.
inline void release_communicator(ncclComm_t communicator) noexcept {
  const ncclResult_t status = ncclCommAbort(communicator);
  static_cast<void>(status);  // nothing left to release it with
}
using Communicator = UniqueHandle<ncclComm_t, release_communicator>;

class NcclEdge {
 public:
  // How to wait for what is in progress: calls the argument until it says true, or throws.
  using Wait = std::function<void(const std::function<bool()>&)>;

  // Collective over the communicator's ranks: the sender is rank 0 and the receiver rank 1, or, where one process is
  // both ends, it is rank 0 of one. On the current device. Throws RunFailed.
  NcclEdge(const ncclUniqueId& id, int ranks, int own_rank, int peer, Wait wait);

  // Enqueued on the edge's stream; blocks the stream until the other end does its part. Between the two ends of one
  // process both must stand in one NCCL group.
  void send(const std::byte* data, std::int64_t bytes);
  void receive(std::byte* data, std::int64_t bytes);

  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  void await_stream() const;  // all that was enqueued is done
  void settle() const;        // what was asked of the communicator is no longer in progress

 private:
  int peer_;
  Wait wait_;
  Stream stream_;
  Communicator communicator_;  // before the stream goes
};

}  // namespace weir
