// Kernels recorded by CUPTI: what is read of its buffers, which needs the library and no device;
// what is said where it is missing; and on a device that a recorded run finds its kernels where its
// actions were.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "exec/cuda/cuda_backend.hpp"
#include "exec/cuda/cupti/cupti_api.hpp"
#include "exec/cuda/cupti/cupti_records.hpp"
#include "exec/cuda/cupti/cupti_watch.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cupti_test {
namespace {

#define WEIR_NEEDS_CUPTI()                                                   \
  if (const CuptiLookup cupti = find_cupti(cupti_libraries()); !cupti.api) { \
    GTEST_SKIP() << cupti.why;                                               \
  }                                                                          \
  static_assert(true)

TEST(Cupti, IsFoundNextToTheRuntime) {
  for (const std::string& name : cupti_libraries()) {
    EXPECT_NE(name.find("libcupti.so." + std::to_string(CUDART_VERSION / 1000)), std::string::npos)
        << name;
  }
  EXPECT_GE(cupti_libraries().size(), 3U);  // the search path, the runtime's folder, the toolkit's
}

TEST(Cupti, WhereItIsMissingOneLineSaysSo) {
  try {
    static_cast<void>(require_cupti({"libcupti.so.none", "/nowhere/libcupti.so.none"}));
    FAIL() << "a library that is not there";
  } catch (const MissingComponent& missing) {
    EXPECT_STREQ(missing.what(),
                 "recording kernels needs CUPTI: no libcupti.so.none on this machine");
  }
  EXPECT_EQ(find_cupti({"libm.so.6"}).why, "this library has no cuptiGetVersion");
}

TEST(Cupti, OneRunAtATimeRecords) {
  WEIR_NEEDS_CUPTI();
  const CuptiApi api = require_cupti(cupti_libraries());
  {
    const CuptiWatch first(api);
    EXPECT_THROW(CuptiWatch second(api), RunFailed);
  }
  EXPECT_NO_THROW(CuptiWatch again(api));
}

// Without a driver CUPTI loads and refuses to record; what was begun is undone without a word.
TEST(Cupti, WhereNothingCanBeRecordedOneLineSaysSo) {
  WEIR_NEEDS_CUPTI();
  if (const CudaFacts facts = cuda_facts(); facts.device)
    GTEST_SKIP() << "there is a device: " << facts.why;
  CuptiWatch watch(require_cupti(cupti_libraries()));
  watch.begin_action(
      "0F0");  // of a warm-up step: before the first recorded one, nothing is asked of CUPTI
  watch.end_action();
  try {
    watch.begin_step(0);
    FAIL() << "recording without a driver";
  } catch (const MissingComponent& missing) {
    EXPECT_EQ(std::string(missing.what()).find("kernels: CUPTI records none on this machine: "), 0U)
        << missing.what();
  }
}

// A buffer as CUPTI fills it: records one behind the other, each of its kind's length.
class Buffer {
 public:
  template <class Record>
  void add(const Record& record) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(Record));
    std::memcpy(bytes_.data() + at, &record, sizeof(Record));
  }
  [[nodiscard]] CuptiRecords read(const CuptiApi& api) {
    CuptiRecords records;
    records.read(api, bytes_.data(), bytes_.size());
    return records;
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

CUpti_ActivityExternalCorrelation call_of_action(std::uint32_t call, std::uint64_t action) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  record.correlationId = call;
  record.externalId = action;
  return record;
}

CUpti_ActivityKernel10 kernel_of_call(std::uint32_t call, std::uint64_t start, std::uint64_t end,
                                      const char* name) {
  CUpti_ActivityKernel10 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.correlationId = call;
  record.start = start;
  record.end = end;
  record.name = name;
  return record;
}

CUpti_ActivityMemcpy6 copy_of_calls(std::uint32_t call, std::uint32_t runtime_call) {
  CUpti_ActivityMemcpy6 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  record.correlationId = call;
  record.runtimeCorrelationId = runtime_call;
  record.start = 500;
  record.end = 520;
  return record;
}

CUpti_ActivityMemset4 fill_of_call(std::uint32_t call) {
  CUpti_ActivityMemset4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.correlationId = call;
  record.start = 600;
  record.end = 610;
  return record;
}

// Calls 11 and 12 are of action 1, call 21 of action 2, call 30 of none; a kernel's record may
// stand before its call's. The toolkit's newest structs are written, CUPTI steps over them, and
// older ones read them.
TEST(CuptiRecords, BelongToTheActionsOfTheirCalls) {
  WEIR_NEEDS_CUPTI();
  const CuptiApi api = require_cupti(cupti_libraries());
  Buffer buffer;
  buffer.add(kernel_of_call(12, 120, 130, "_ZN4weir4cuda12adamw_kernelEPf"));
  buffer.add(call_of_action(11, 1));
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.correlationId = 11;
  buffer.add(call);
  buffer.add(call_of_action(12, 1));
  buffer.add(call_of_action(21, 2));
  buffer.add(kernel_of_call(11, 100, 110, "nvjet_hsh"));
  buffer.add(copy_of_calls(99, 21));  // the runtime's number is the one that is known
  buffer.add(fill_of_call(21));
  buffer.add(kernel_of_call(30, 700, 710, "nvjet_hsh"));  // outside
  buffer.add(kernel_of_call(21, 0, 0, "nvjet_hsh"));      // untimed
  const KernelRecords found = buffer.read(api).resolve({{0, "0F0"}, {3, "0B0"}});
  EXPECT_EQ(found.outside, 1);
  EXPECT_EQ(found.untimed, 1);
  EXPECT_EQ(found.dropped, 0);
  ASSERT_EQ(found.records.size(), 4U);
  EXPECT_EQ(found.records[0].name, "adamw_kernel");
  EXPECT_EQ(found.records[0].action, "0F0");
  EXPECT_EQ(found.records[0].start, Nanoseconds(120));
  EXPECT_EQ(found.records[1].name, "nvjet_hsh");
  EXPECT_EQ(found.records[1].end, Nanoseconds(110));
  EXPECT_EQ(found.records[2].name, "copy on the device");
  EXPECT_EQ(found.records[2].work, DeviceWork::copy);
  EXPECT_EQ(found.records[2].action, "0B0");
  EXPECT_EQ(found.records[2].step, 3);
  EXPECT_EQ(found.records[3].name, "fill");
  EXPECT_EQ(found.records[3].start, Nanoseconds(600));
}

// Two ranks of a tiny model. The clocks are joined by the kernels themselves, so what is asked is
// that they can be: that no shift of a step and rank leaves a kernel sticking out by more than 5 us
// of its action. Events resolve 0.5 us, and CUPTI interpolates between readings of the device's
// clock and the host's, which drift by less than that in a step.
TEST(CudaKernels, LieWithinTheirActions) {
  WEIR_NEEDS_DEVICE();
  WEIR_NEEDS_CUPTI();
  const TinyModel model;
  const ResolvedPlan loaded = model.load(model.plan({3}, 4, "1f1b"));
  RunOptions options;
  options.backend = BackendKind::cuda;
  options.steps = 3;
  options.kernels = true;
  const Backends backends{{BackendKind::cuda, cuda_backends()}};
  const RunResult result = run(loaded, options, backends);
  ASSERT_TRUE(result.kernels.has_value());
  EXPECT_EQ(result.kernels->dropped, 0);
  EXPECT_EQ(result.kernels->untimed, 0);
#ifdef NDEBUG  // a debug build also overwrites what nobody reads any more
  EXPECT_EQ(result.kernels->outside,
            3 * 2);  // the step's number, written for each rank before each step
#endif
  EXPECT_LE(result.kernels->overhang, Nanoseconds(5000));
  std::map<std::size_t, int> kernels;  // by action
  std::set<std::string> names;
  for (const KernelSpan& kernel : result.kernels->spans) {
    ++kernels[kernel.action];
    names.insert(kernel.name);
    EXPECT_LT(kernel.start, kernel.end) << kernel.name;
  }
  for (std::size_t i = 0; i < result.trace.spans.size(); ++i) {
    const Span& span = result.trace.spans[i];
    if (span.lane != LaneKind::compute) continue;
    EXPECT_GT(kernels[i], 0) << to_string(span.action) << " step " << span.step;
  }
  const auto has = [&names](const std::string& part) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return name.starts_with(part); });
  };
  for (const char* own :
       {"embed_kernel", "layer_norm_kernel", "held_cross_entropy_kernel", "adamw_kernel"}) {
    EXPECT_TRUE(has(own)) << own;
  }
  // A second recording in the same process begins anew: as many kernels, none of the first.
  const RunResult again = run(loaded, options, backends);
  EXPECT_EQ(again.kernels->spans.size(), result.kernels->spans.size());
  EXPECT_EQ(again.parameters_sha256, result.parameters_sha256);
}

}  // namespace
}  // namespace weir::cupti_test
