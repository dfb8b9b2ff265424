// SPDX-License-Identifier: Apache-2.0
#include "exec/nccl/nccl_edge.hpp"

#include <utility>

#include "exec/nccl/nccl_check.hpp"

namespace weir {

NcclEdge::NcclEdge(const ncclUniqueId& id, int ranks, int own_rank, int peer, Wait wait)
    : peer_(peer), wait_(std::move(wait)), stream_(make_stream()) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // a peer that never comes is noticed
  ncclComm_t made = nullptr;
  NCCL_CHECK(ncclCommInitRankConfig(&made, ranks, id, own_rank, &config));
  communicator_ = Communicator(made);
  settle();
}

void NcclEdge::settle() const {
  wait_([this] {
    ncclResult_t status = ncclSuccess;
    NCCL_CHECK(ncclCommGetAsyncError(communicator_.get(), &status));
    NCCL_CHECK(status);
    return status == ncclSuccess;
  });
}

void NcclEdge::send(const std::byte* data, std::int64_t bytes) {
  NCCL_CHECK(ncclSend(data, static_cast<std::size_t>(bytes), ncclInt8, peer_, communicator_.get(), stream_.get()));
}

void NcclEdge::receive(std::byte* data, std::int64_t bytes) {
  NCCL_CHECK(ncclRecv(data, static_cast<std::size_t>(bytes), ncclInt8, peer_, communicator_.get(), stream_.get()));
}

void NcclEdge::await_stream() const {
  wait_([this] {
    const cudaError_t status = cudaStreamQuery(stream_.get());
    if (status == cudaErrorNotReady) return false;
    CUDA_CHECK(status);
    return true;
  });
}

}  // namespace weir
