// What the backend asks of a device, and what it takes of its memory.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cuda/cuda_backend.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::backend_test {
namespace {

// What is not taken in the first steps is not taken later, and the driver's own mark agrees that
// the pools were used.
TEST(CudaBackend, SteadyStateTakesNoMemory) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model;
  RunOptions options;
  options.backend = BackendKind::cuda;
  options.steps = 6;
  options.warmup_steps = 0;
  const RunResult result =
      run(model.load(model.plan({3}, 4, "1f1b")), options, {{BackendKind::cuda, cuda_backends()}});
  for (std::size_t step = 2; step < 6; ++step)
    EXPECT_EQ(result.steps[step].allocations, 0) << "step " << step;
  ASSERT_EQ(result.devices.size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_GT(result.devices[rank].pool_peak, Bytes(0)) << result.devices[rank].sharing;
    EXPECT_GT(result.devices[rank].multiprocessors, 0);
  }
}

// Where there is no device, the backend says so in one line; a format it does not compute in is a
// contradiction.
TEST(BackendOfCuda, SaysWhyNot) {
  EXPECT_THROW(static_cast<void>(cuda_backends()({.dtype = Dtype::fp16})), UsageError);
  const CudaFacts facts = cuda_facts();
  if (facts.device) GTEST_SKIP() << "there is a device: " << facts.why;
  try {
    static_cast<void>(cuda_backends()({}));
    FAIL() << "a backend without a device";
  } catch (const MissingComponent& missing) {
    EXPECT_EQ(std::string(missing.what()), "backend cuda: " + facts.why);
  }
}

// Capability 7.5 has no bf16 products; every format else, and every newer device, is taken.
TEST(BackendOfCuda, RefusesBf16BeforeCapability8) {
  const CudaDevice turing{.name = "T4", .major = 7, .minor = 5},
      ampere{.name = "A100", .major = 8, .minor = 0};
  try {
    require_format(Dtype::bf16, turing);
    FAIL() << "bf16 on capability 7.5";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "bf16 needs compute capability 8.0; T4 has 7.5: use fp32");
  }
  EXPECT_NO_THROW(require_format(Dtype::fp32, turing));
  EXPECT_NO_THROW(require_format(Dtype::tf32, turing));
  EXPECT_NO_THROW(require_format(Dtype::bf16, ampere));
}

}  // namespace
}  // namespace weir::backend_test
