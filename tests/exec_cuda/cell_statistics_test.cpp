// Running statistics of batch norms on CUDA: those that the CPU keeps, and what an evaluation makes
// of them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>

#include "exec/cuda/cuda_backend.hpp"
#include "tests/exec/tiny_cnn.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cell_statistics_test {
namespace {

std::filesystem::path own_file(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("weir-statistics-" + std::to_string(::getpid()) + "-" + name);
}

RunResult two_steps(const TinyModel& model, const Plan& plan, BackendKind backend,
                    RunOptions options) {
  options.backend = backend;
  options.steps = 2;
  options.warmup_steps = 0;
  return run(model.load(plan), options,
             {{BackendKind::cpu, make_cpu_backend}, {BackendKind::cuda, cuda_backends()}});
}

// Two steps of four micro-batches through two stages, with weights that do not move. Inputs of the
// norms are the CPU's up to `tolerance`, and so are the statistics, which are means of them or of
// their squares.
void expect_the_cpus_statistics(Dtype dtype, double tolerance) {
  const TinyModel model(tiny_resnet());
  const auto statistics = [&](Plan plan, BackendKind backend) {
    RunOptions options;
    options.save = own_file("saved");
    static_cast<void>(two_steps(model, plan, backend, options));
    auto found = running_statistics(*options.save);
    std::filesystem::remove(*options.save);
    return found;
  };
  Plan plan = unmoved(model.plan({2}, 4));
  const auto cpu = statistics(plan, BackendKind::cpu);
  plan.dtype = dtype;
  const auto cuda = statistics(plan, BackendKind::cuda);
  ASSERT_GT(cpu.size(), 2U);
  ASSERT_EQ(cuda.size(), cpu.size());
  for (const auto& [name, values] : cpu) {
    ASSERT_EQ(cuda.at(name).size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double scale = std::max(1.0, std::abs(double{values[i]}));
      EXPECT_NEAR(cuda.at(name)[i], values[i], tolerance * scale) << name << " " << i;
      EXPECT_NE(values[i], name.ends_with("mean") ? 0.0F : 1.0F) << name;  // it has moved
    }
  }
}

TEST(CudaStatistics, AreTheCpus) {
  WEIR_NEEDS_DEVICE();
  expect_the_cpus_statistics(Dtype::fp32, 1e-5);
}
TEST(CudaStatistics, AreTheCpusInBf16) {
  WEIR_NEEDS_BF16();
  expect_the_cpus_statistics(Dtype::bf16, 1e-2);
}

// Two mini-batches of records of a label and 3 x 8 x 8 numbers, after two steps: norms by running
// statistics, to the tolerances of losses.
void expect_the_cpus_evaluation(Dtype dtype, double tolerance) {
  const TinyModel model(tiny_resnet());
  const Plan plan = model.plan({2}, 4);
  std::mt19937 random(8);
  std::string images;
  for (std::int64_t sample = 0; sample < 2 * plan.global_batch_size(); ++sample) {
    images += static_cast<char>(random() % 5);
    for (int number = 0; number < 3 * 8 * 8; ++number) images += static_cast<char>(random());
  }
  RunOptions options;
  options.evaluate = own_file("images");
  write_file_atomically(*options.evaluate, images);
  const RunResult cpu = two_steps(model, plan, BackendKind::cpu, options);
  Plan on_cuda = plan;
  on_cuda.dtype = dtype;
  const RunResult cuda = two_steps(model, on_cuda, BackendKind::cuda, options);
  std::filesystem::remove(*options.evaluate);
  EXPECT_EQ(cuda.evaluation->samples, 2 * plan.global_batch_size());
  EXPECT_NEAR(cuda.evaluation->loss, cpu.evaluation->loss, tolerance * cpu.evaluation->loss);
}

TEST(CudaStatistics, EvaluateAsOnTheCpu) {
  WEIR_NEEDS_DEVICE();
  expect_the_cpus_evaluation(Dtype::fp32, 1e-3);
}
TEST(CudaStatistics, EvaluateInBf16AsOnTheCpuInFp32) {
  WEIR_NEEDS_BF16();
  expect_the_cpus_evaluation(Dtype::bf16, 2e-2);
}

}  // namespace
}  // namespace weir::cell_statistics_test
