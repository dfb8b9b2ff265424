// The structs are the oldest that have what is needed: CUPTI adds to the end of a record from
// version to version, so they read those of later ones too.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cupti/cupti_records.hpp"

#include <map>

#include "traces/kernel_name.hpp"

namespace weir {
namespace {

std::string copy_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy to the device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy to the host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "copy on the device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "copy between devices";
    default:
      return "copy";
  }
}

}  // namespace

void CuptiRecords::read(const CuptiApi& api, std::uint8_t* buffer, std::size_t valid) {
  if (valid == 0) return;  // nothing was written, and CUPTI takes no empty buffer
  CUpti_Activity* record = nullptr;
  while (true) {
    const CUptiResult status = api.next_record(buffer, valid, &record);
    if (status == CUPTI_ERROR_MAX_LIMIT_REACHED) return;
    if (status == CUPTI_ERROR_INVALID_KIND) {  // a record that was never completed, and where the
                                               // next begins is unknown
      ++broken_off_;
      return;
    }
    check_cupti(api, status, "cuptiActivityGetNextRecord", __FILE__, __LINE__);
    add(*record);
  }
}

void CuptiRecords::add(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& call = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
      // CUSTOM0 is the kind that we push; other tools in the process may push theirs.
      if (call.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) {
        action_of_call_[call.correlationId] = call.externalId;
      }
      return;
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel9&>(record);
      work_.push_back({kernel.name != nullptr ? kernel.name : "kernel without a name",
                       DeviceWork::kernel, kernel.correlationId, 0, kernel.start, kernel.end});
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy5&>(record);
      work_.push_back({copy_name(copy.copyKind), DeviceWork::copy, copy.correlationId,
                       copy.runtimeCorrelationId, copy.start, copy.end});
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record);
      work_.push_back({copy_name(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP), DeviceWork::copy,
                       copy.correlationId, 0, copy.start, copy.end});
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      work_.push_back({"fill", DeviceWork::fill, fill.correlationId, 0, fill.start, fill.end});
      return;
    }
    default:
      return;  // calls: recorded only because external ids are given to calls
  }
}

std::uint64_t CuptiRecords::action_of(const Work& work) const {
  for (const std::uint32_t call : {work.call, work.runtime_call}) {
    const auto found = action_of_call_.find(call);
    if (found != action_of_call_.end()) return found->second;
  }
  return 0;
}

KernelRecords CuptiRecords::resolve(const std::vector<LaunchingAction>& actions) const {
  KernelRecords resolved;
  resolved.dropped = broken_off_;
  std::map<std::string, std::string> short_names;
  for (const Work& work : work_) {
    const std::uint64_t id = action_of(work);
    // Launched outside every action, such as by a library on its own account.
    if (id == 0 || id > actions.size()) {
      ++resolved.outside;
      continue;
    }
    if (work.start_ns == 0 ||
        work.end_ns < work.start_ns) {  // CUPTI's way to say that it has no time
      ++resolved.untimed;
      continue;
    }
    std::string& name = short_names[work.name];
    if (name.empty())
      name = work.work == DeviceWork::kernel ? short_kernel_name(work.name) : work.name;
    const LaunchingAction& action = actions[id - 1];
    resolved.records.push_back({name, work.work, action.step, action.name,
                                Nanoseconds(static_cast<std::int64_t>(work.start_ns)),
                                Nanoseconds(static_cast<std::int64_t>(work.end_ns))});
  }
  return resolved;
}

}  // namespace weir
