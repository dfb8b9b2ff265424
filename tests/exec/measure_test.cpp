// Profiling with all devices busy: every device stops at the same repetition, however threads are
// scheduled; neighbours only keep the machine at work.
// SPDX-License-Identifier: Apache-2.0
#include "exec/profiling/measure.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>

#include "plan/words/error.hpp"
#include "tests/exec/streams/async_backend.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::measure_test {
namespace {

// The first block of a model on three devices, twelve repetitions.
MeasureOptions block_on_three() {
  MeasureOptions options;
  options.layers = {1};
  options.micro_batch_sizes = {1};
  options.devices = 3;
  options.least = options.most = 12;
  return options;
}

// Four devices on whatever cores there are, and a spread that is reached after a random number of
// repetitions: whoever reads the decision late must still read the one for its own repetition, or
// the others wait for it for ever.
void expect_devices_stop_together(int trials) {
  const TinyModel model(true, 0.1, 32, 3);
  const Plan plan = model.plan({}, 1, "gpipe");
  MeasureOptions options;
  options.layers = {0, 1, 4};
  options.micro_batch_sizes = {1, 2, 3};
  options.devices = 4;
  options.least = 2;
  options.most = 12;
  options.spread = 0.2;
  for (int trial = 0; trial < trials; ++trial) {
    const Measurements measured =
        measure(model.load(plan).model, plan.seq_length, plan, options, cpu_only());
    ASSERT_EQ(measured.samples.size(), 9U);
    for (const LayerSample& sample : measured.samples) EXPECT_GT(sample.time.f.count(), 0);
  }
}
TEST(Measure, DevicesStopTogether) { expect_devices_stop_together(4); }
TEST(LongMeasure, DevicesStopTogether) { expect_devices_stop_together(60); }

// Streams of one device share its caches and its memory: the measured one empties them before each
// pass it times, five a repetition, and no neighbour writes to memory what no stage would.
TEST(Measure, NeighboursOnStreamsEmptyNoCache) {
  class Counting : public AsyncBackend {
   public:
    Counting(const BackendRequest& request, std::atomic<int>& evictions)
        : AsyncBackend(request, std::make_shared<AsyncWorld>(AsyncOptions{})),
          evictions_(evictions) {}
    void evict_caches() override { ++evictions_; }

   private:
    std::atomic<int>& evictions_;
  };
  const TinyModel model(true, 0.1, 32, 3);
  const Plan plan = model.plan({}, 1, "gpipe");
  const MeasureOptions options = block_on_three();
  std::array<std::atomic<int>, 3> evictions{};
  const Backends backends{
      {BackendKind::cpu, [&](const BackendRequest& request) -> std::unique_ptr<Backend> {
         return std::make_unique<Counting>(request,
                                           evictions[static_cast<std::size_t>(request.rank)]);
       }}};
  const Measurements measured =
      measure(model.load(plan).model, plan.seq_length, plan, options, backends);
  EXPECT_EQ(evictions[0], 5 * (1 + 12));  // the warm-up too
  EXPECT_EQ(evictions[1], 0);
  EXPECT_EQ(evictions[2], 0);
  ASSERT_EQ(measured.samples.size(), 1U);
  EXPECT_GT(measured.samples[0].time.b.count(), 0);
}

// A device that fails in the midst of a job: all leave, and its failure is what comes out.
TEST(Measure, AFailureOfOneDeviceEndsAll) {
  class Failing : public AsyncBackend {
   public:
    using AsyncBackend::AsyncBackend;
    void backward_weight(const LayerCall& call) override {
      if (++passes_ > 4) throw RunFailed("the device fell off the bus");
      AsyncBackend::backward_weight(call);
    }

   private:
    int passes_ = 0;
  };
  const TinyModel model(true, 0.1, 32, 3);
  const Plan plan = model.plan({}, 1, "gpipe");
  const MeasureOptions options = block_on_three();
  for (int failing = 0; failing < 3; ++failing) {
    const Backends backends{
        {BackendKind::cpu, [failing](const BackendRequest& request) -> std::unique_ptr<Backend> {
           if (request.rank != failing) return make_cpu_backend(request);
           return std::make_unique<Failing>(request, std::make_shared<AsyncWorld>(AsyncOptions{}));
         }}};
    EXPECT_THROW(static_cast<void>(
                     measure(model.load(plan).model, plan.seq_length, plan, options, backends)),
                 RunFailed);
  }
}

}  // namespace
}  // namespace weir::measure_test
