// What `weir model --kernels` lists is what the executor launches, kernel by kernel.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/executor_kernels.hpp"
#include "tests/exec_cuda/recorded/fixture.hpp"

namespace weir::recorded {
namespace {

using RecordedKernels = Recorded;
using Counts = std::map<std::string, std::int64_t>;

// In a step behind the first; products are one name, and what is listed as one, launched as
// several or only where nothing is kept between steps, is left out.
bool is_compared(const std::string& name) {
  return name == "a product" || (name.ends_with("_kernel") && name != "begin_step_kernel");
}

Counts launched(const ResolvedPlan& loaded) {
  Counts one, two;
  for (const int steps : {1, 2}) {
    machine().reset(1);
    static_cast<void>(train(loaded, steps_on_cuda(steps)));
    (steps == 1 ? one : two) = machine().ran;
  }
  Counts counts;
  for (const auto& [name, count] : two) {
    if (is_compared(name)) counts[name] = count - one[name];
  }
  return counts;
}

TEST_F(RecordedKernels, LaunchesAreThoseOfTheList) {
  for (const double dropout : {0.0, 0.1}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::sgd}) {
        SCOPED_TRACE(std::string(to_string(dtype)) + ", dropout " + std::to_string(dropout));
        const TinyModel model(true, dropout, 32, 2, 4);
        Plan plan = model.plan({}, 1, "gpipe");
        plan.dtype = dtype;
        plan.optimizer.kind = optimizer;
        const ResolvedPlan loaded = model.load(plan);
        Counts listed;
        for (const KernelWork& kernel :
             executor_kernels(loaded.model, {.seq_length = plan.seq_length,
                                            .batch = plan.micro_batch_size,
                                            .dtype = dtype,
                                            .optimizer = optimizer})) {
          const std::string name = kernel.name.starts_with("product") ? "a product" : kernel.name;
          if (is_compared(name)) listed[name] += kernel.calls;
        }
        EXPECT_EQ(launched(loaded), listed);
      }
    }
  }
}

}  // namespace
}  // namespace weir::recorded
