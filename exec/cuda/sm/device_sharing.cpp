// Which device, and which multiprocessors of it, each rank gets.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/sm/device_sharing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "exec/cuda/driver/cuda_check.hpp"

namespace weir {
namespace {

// Ranks on different devices hand tensors to each other by address, so each device must reach every
// other.
int devices_that_reach_each_other() {
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      int reaches = 1;
      if (from != to) CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, from, to));
      if (reaches == 0) return 1;
    }
  }
  return devices;
}

int attribute_of(int device, cudaDeviceAttr attribute) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

}  // namespace

StreamHandle Seat::make_stream_handle(Use use) const {
  CUDA_CHECK(cudaSetDevice(place.device));
  int lowest = 0, highest = 0;  // numerically: the highest priority is the smallest number
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  const int priority = use == Use::communication ? highest : lowest;
  if (groups) return groups->make_stream_handle(place.group, priority);
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return StreamHandle(stream);
}

std::string sharing_label(int ranks, int devices, const std::optional<SmSplit>& split,
                          const std::string& why) {
  if (ranks <= devices)
    return ranks == 1 ? "one GPU" : fmt::format("{} GPUs, one rank each", ranks);
  if (split) {
    const std::string where =
        devices == 1 ? "" : fmt::format(", on each of {} GPUs, ranks in turn", devices);
    std::string left = split->left() > 0 ? fmt::format(", {} in none", split->left()) : "";
    if (split->even > 0)
      left += fmt::format(" (its clusters are uneven: even ones would give {} each)", split->even);
    return fmt::format("SM-partitioned: {} groups of {} of {} multiprocessors{}{}", split->groups,
                       split->size, split->total, left, where);
  }
  const std::string where =
      devices == 1 ? "one GPU" : fmt::format("{} GPUs, ranks in turn", devices);
  return fmt::format("streams with priorities on {} ({})", where, why);
}

DeviceSharing::DeviceSharing() {
  // As many hardware queues as the driver offers, or streams of different groups wait behind each
  // other. It is read when the first context is made; what the user set stays.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

Seat DeviceSharing::seat(int rank, int ranks, RanksAre are) {
  // Backends may be made on several threads; the first divides the devices.
  const std::scoped_lock lock(mutex_);
  Seat seat;
  seat.devices = std::min(ranks, devices_that_reach_each_other());
  seat.place = place_rank(rank, ranks, seat.devices);
  std::optional<SmSplit> split;
  // Green contexts divide a device within one process. Processes that share one run in turn.
  const bool in_turn = are == RanksAre::processes && ranks > seat.devices;
  if (seat.place.groups > 1 && !in_turn) {
    divide(seat.place.groups, seat.devices);
    if (!groups_.empty()) {
      seat.groups = groups_[static_cast<std::size_t>(seat.place.device)];
      split = groups_.front()->split();
      // Devices may differ: what is said of a group holds for the smallest.
      for (const auto& groups : groups_) split->size = std::min(split->size, groups->split().size);
    }
  }
  seat.device_multiprocessors = attribute_of(seat.place.device, cudaDevAttrMultiProcessorCount);
  seat.capability_major = attribute_of(seat.place.device, cudaDevAttrComputeCapabilityMajor);
  seat.multiprocessors = split ? split->size : seat.device_multiprocessors;
  if (in_turn) {
    const std::string where = seat.devices == 1 ? "one GPU" : fmt::format("{} GPUs", seat.devices);
    seat.label = fmt::format("{} processes in turn on {}", ranks, where);
  } else {
    seat.label = sharing_label(ranks, seat.devices, split, why_);
  }
  return seat;
}

void DeviceSharing::divide(int groups, int devices) {
  if (divided_into_ == groups && devices_ == devices) return;
  divided_into_ = groups;
  devices_ = devices;
  groups_.clear();
  for (int device = 0; device < devices; ++device) {
    SmGroupsResult result = divide_device(device, groups);
    if (!result.groups) {  // all or none: the stages of a run are to be equal
      groups_.clear();
      why_ = result.why;
      return;
    }
    groups_.push_back(std::move(result.groups));
  }
}

}  // namespace weir
