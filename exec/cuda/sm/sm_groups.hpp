// Disjoint groups of one device's multiprocessors, by green contexts: K stages on one GPU, each on
// multiprocessors of its own. What stays shared: the second-level cache, memory bandwidth, copy
// engines, clocks and power; so the times of a group depend on what the others do. The driver
// promises neither that groups run at the same time nor that one makes progress while another
// waits: nothing may spin on a flag that another group writes; order is made by events alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/driver/driver_api.hpp"
#include "exec/cuda/driver/stream_handle.hpp"
#include "exec/cuda/sm/sm_split.hpp"

namespace weir {

class SmGroups;
struct SmGroupsResult {
  std::unique_ptr<SmGroups> groups;  // null where the device cannot be divided so
  std::string why;                   // then: one line
};

class SmGroups {
 public:
  SmGroups(const SmGroups&) = delete;
  SmGroups& operator=(const SmGroups&) = delete;
  ~SmGroups();

  [[nodiscard]] const SmSplit& split() const { return split_; }  // as the device gave it
  // Does not wait for the default stream. Kernels on it run on the group's multiprocessors only.
  // Lower numbers go first; the driver clamps them to its range. This object outlives the stream.
  // Call with the device current.
  [[nodiscard]] StreamHandle make_stream_handle(int group, int priority) const;

  // The group's context is this thread's current one for as long as this lives: what a library
  // makes then belongs to the group, as its streams do. Without groups nothing changes. Throws
  // RunFailed.
  class Entered {
   public:
    Entered(const SmGroups* groups, int group);
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    ~Entered();

   private:
    const SmGroups* groups_;
  };

 private:
  friend SmGroupsResult divide_device(int device, int groups);
  [[nodiscard]] static SmGroupsResult divide(int device, int groups);  // throws RunFailed
  explicit SmGroups(const DriverApi& api) : api_(api) {}

  DriverApi api_;
  SmSplit split_;
  std::vector<CUgreenCtx> contexts_;  // one a group; released by the destructor
};

// The largest groups of multiprocessors of which the driver gives as many as asked: the device's
// processing clusters may make fewer than the arithmetic says, and then smaller groups are tried.
// Empty where none fit. Throws RunFailed.
[[nodiscard]] std::vector<CUdevResource> equal_parts(const DriverApi& api, const CUdevResource& all,
                                                     int groups, SmGranularity granularity);

// Equal groups, the largest that the device gives. Whatever stands in the way (no driver, an old
// one, too many groups, a call that fails) is an answer: ranks can share a device by streams
// instead. Makes `device` current.
[[nodiscard]] SmGroupsResult divide_device(int device, int groups);

}  // namespace weir
