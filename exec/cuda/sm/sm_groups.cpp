// Green contexts: disjoint groups of multiprocessors, and streams on them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/sm/sm_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/cuda/driver/cuda_check.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// What the device says of its own groups; drivers that leave the fields empty go by capability.
SmGranularity granularity_of(int device, const CUdevResource& all) {
  int major = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  SmGranularity granularity = sm_granularity(major);
  if (all.sm.minSmPartitionSize > 0 && all.sm.smCoscheduledAlignment > 0) {
    granularity = {static_cast<int>(all.sm.minSmPartitionSize),
                   static_cast<int>(all.sm.smCoscheduledAlignment)};
  }
  return granularity;
}

}  // namespace

std::vector<CUdevResource> equal_parts(const DriverApi& api, const CUdevResource& all, int groups,
                                       SmGranularity granularity) {
  const auto wanted = equal_split(static_cast<int>(all.sm.smCount), groups, granularity);
  if (!wanted) return {};
  // Clusters of unequal size can make the driver refuse what arithmetic allows: smaller groups may
  // still fit.
  for (int size = wanted->size; size >= granularity.least; size -= granularity.multiple) {
    std::vector<CUdevResource> parts(static_cast<std::size_t>(groups));
    auto got = static_cast<unsigned>(groups);
    CUdevResource remaining{};
    const CUresult status =
        api.split_by_count(parts.data(), &got, &all, &remaining, 0, static_cast<unsigned>(size));
    if (status == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION) continue;
    check_driver(api, status, "cuDevSmResourceSplitByCount", __FILE__, __LINE__);
    if (got == static_cast<unsigned>(groups)) return parts;
  }
  return {};
}

SmGroups::~SmGroups() {
  for (CUgreenCtx context : contexts_) {
    CUDA_CHECK_NOEXCEPT(
        static_cast<cudaError_t>(api_.green_context_destroy(context)));  // the same numbers
  }
}

StreamHandle SmGroups::make_stream_handle(int group, int priority) const {
  CUstream stream = nullptr;
  DRIVER_CHECK(
      api_, api_.green_context_stream_create(&stream, contexts_.at(static_cast<std::size_t>(group)),
                                             CU_STREAM_NON_BLOCKING, priority));
  return StreamHandle(stream);
}

SmGroups::Entered::Entered(const SmGroups* groups, int group) : groups_(groups) {
  if (groups == nullptr) return;
  const DriverApi& api = groups->api_;
  CUcontext context = nullptr;
  DRIVER_CHECK(
      api, api.context_of_green(&context, groups->contexts_.at(static_cast<std::size_t>(group))));
  DRIVER_CHECK(api, api.push_current(context));
}

SmGroups::Entered::~Entered() {
  if (groups_ == nullptr) return;
  CUcontext left = nullptr;
  CUDA_CHECK_NOEXCEPT(static_cast<cudaError_t>(groups_->api_.pop_current(&left)));
}

SmGroupsResult SmGroups::divide(int device, int groups) {
  const DriverLookup driver = find_driver_api();
  if (!driver.api) return {nullptr, driver.why};
  const DriverApi& api = *driver.api;
  CUDA_CHECK(
      cudaSetDevice(device));  // the primary context, which every group's context is made beside
  CUdevice handle = 0;
  DRIVER_CHECK(api, api.device_get(&handle, device));
  CUdevResource all{};
  const CUresult status = api.device_get_resource(handle, &all, CU_DEV_RESOURCE_TYPE_SM);
  if (status == CUDA_ERROR_NOT_SUPPORTED) return {nullptr, "the device has no green contexts"};
  check_driver(api, status, "cuDeviceGetDevResource", __FILE__, __LINE__);
  const SmGranularity granularity = granularity_of(device, all);
  std::vector<CUdevResource> parts = equal_parts(api, all, groups, granularity);
  if (parts.empty()) {
    return {nullptr, fmt::format("{} multiprocessors in groups of at least {} give no {} groups",
                                 all.sm.smCount, granularity.least, groups)};
  }
  auto made = std::unique_ptr<SmGroups>(new SmGroups(api));  // the constructor is private
  made->split_ = {groups, static_cast<int>(parts.front().sm.smCount),
                  static_cast<int>(all.sm.smCount)};
  for (CUdevResource& part : parts) {
    made->split_.size = std::min(made->split_.size, static_cast<int>(part.sm.smCount));
    CUdevResourceDesc description = nullptr;
    DRIVER_CHECK(api, api.generate_description(&description, &part, 1));
    CUgreenCtx context = nullptr;
    DRIVER_CHECK(
        api, api.green_context_create(&context, description, handle, CU_GREEN_CTX_DEFAULT_STREAM));
    made->contexts_.push_back(context);
  }
  // Told to the user: what the same device would give if its clusters were even.
  const auto even = equal_split(made->split_.total, groups, granularity);
  if (even && even->size > made->split_.size) made->split_.even = even->size;
  return {std::move(made), ""};
}

SmGroupsResult divide_device(int device, int groups) {
  try {
    return SmGroups::divide(device, groups);
  } catch (const RunFailed& failed) {
    return {nullptr, failed.what()};
  }
}

}  // namespace weir
