// Records kernels by CUPTI's activity buffers, with the action that launched each.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cupti/cupti_watch.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
namespace {

// A training step of GPT-2 fills a few MiB. Beyond the most there may be, CUPTI drops records, and
// counts them.
constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
constexpr std::size_t kMostBuffers = 128;

// Kernels, what else runs on a device, and the ids of actions, which CUPTI gives to records of
// calls: so calls are recorded as well, the runtime's, the driver's, and the launches that
// libraries make past both.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
};

// Buffers on their way to CUPTI and back, on whichever thread it chooses.
struct Buffers {
  std::mutex mutex;
  bool taken = false;                                            // by a watch
  std::map<std::uint8_t*, std::unique_ptr<std::uint8_t[]>> all;  // in CUPTI's hands or filled
  std::vector<std::pair<std::uint8_t*, std::size_t>> filled;     // with so many bytes
};

// CUPTI's callbacks take no argument of ours, and a process has one CUPTI: so this is one too,
// against the house's rule. It is never destroyed, because CUPTI's own thread may call after main
// has returned.
Buffers& buffers() {
  static Buffers& only = *std::make_unique<Buffers>().release();
  return only;
}

void CUPTIAPI request_buffer(std::uint8_t** buffer, std::size_t* bytes,
                             std::size_t* most_records) noexcept {
  *buffer = nullptr;
  *bytes = 0;
  *most_records = 0;  // as many as it holds
  Buffers& b = buffers();
  // CUPTI calls on whichever thread it chooses, while ours may read what is filled.
  const std::scoped_lock lock(b.mutex);
  if (b.all.size() >= kMostBuffers) return;
  try {
    auto block = std::make_unique_for_overwrite<std::uint8_t[]>(
        kBufferBytes);  // new aligns to 16, CUPTI asks for 8
    std::uint8_t* data = block.get();
    b.all.emplace(data, std::move(block));
    *buffer = data;
    *bytes = kBufferBytes;
  } catch (const std::bad_alloc&) {  // none: CUPTI drops records and counts them
  }
}

void CUPTIAPI complete_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                              std::size_t valid) noexcept {
  Buffers& b = buffers();
  // As above.
  const std::scoped_lock lock(b.mutex);
  b.filled.emplace_back(buffer, valid);
}

}  // namespace

CuptiWatch::CuptiWatch(const CuptiApi& api) : api_(api) {
  Buffers& b = buffers();
  // Two runs of one process may begin at once.
  const std::scoped_lock lock(b.mutex);
  if (std::exchange(b.taken, true))
    throw RunFailed("kernels are recorded for one run of a process at a time");
  b.filled.reserve(kMostBuffers);  // so that a callback need not allocate
}

CuptiWatch::~CuptiWatch() {
  if (recording_) {  // an error ended the run
    std::uint64_t last = 0;
    if (in_action_)
      static_cast<void>(api_.pop_external_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
    disable();
    static_cast<void>(api_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  }
  Buffers& b = buffers();
  const std::scoped_lock lock(b.mutex);
  for (const auto& [data, valid] : b.filled) b.all.erase(data);
  b.filled.clear();
  b.taken = false;
}

void CuptiWatch::begin_step(std::int32_t step) {
  if (!recording_) start();
  step_ = step;
}

void CuptiWatch::start() {
  CUPTI_CHECK(api_, api_.register_callbacks(request_buffer, complete_buffer));
  std::size_t before = 0;
  CUPTI_CHECK(api_, api_.dropped_records(nullptr, 0, &before));  // counts from 0 again
  recording_ = true;
  for (const CUpti_ActivityKind kind : kKinds) {
    const CUptiResult status = api_.enable(kind);
    // Without this one, what libraries launch past both interfaces is counted as outside of
    // actions.
    if (status == CUPTI_SUCCESS || kind == CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API) continue;
    throw MissingComponent(
        fmt::format("kernels: CUPTI records none on this machine: {}", cupti_reason(api_, status)));
  }
}

void CuptiWatch::disable() noexcept {
  recording_ = false;
  for (const CUpti_ActivityKind kind : kKinds)
    static_cast<void>(api_.disable(kind));  // one that is not on says so
}

void CuptiWatch::begin_action(std::string_view name) {
  if (!recording_) return;
  actions_.push_back({step_, std::string(name)});
  CUPTI_CHECK(api_,
              api_.push_external_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, actions_.size()));
  in_action_ = true;
}

void CuptiWatch::end_action() {
  if (!std::exchange(in_action_, false)) return;
  std::uint64_t last = 0;
  CUPTI_CHECK(api_, api_.pop_external_id(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
}

// Flushed before the kinds are disabled, while every record can still be completed, and again after
// it, so that nothing of this run is left to be delivered to the next.
KernelRecords CuptiWatch::stop() {
  if (!recording_) return {};
  CUPTI_CHECK(api_, api_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  disable();
  CUPTI_CHECK(api_, api_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  std::size_t dropped = 0;
  CUPTI_CHECK(api_, api_.dropped_records(nullptr, 0, &dropped));
  CuptiRecords records;
  {
    Buffers& b = buffers();
    const std::scoped_lock lock(b.mutex);
    for (const auto& [data, valid] : b.filled) {
      records.read(api_, data, valid);
      b.all.erase(data);
    }
    b.filled.clear();
  }
  KernelRecords resolved = records.resolve(actions_);
  resolved.dropped += static_cast<std::int64_t>(dropped);
  actions_.clear();
  return resolved;
}

}  // namespace weir
