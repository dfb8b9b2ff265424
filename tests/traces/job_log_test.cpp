// Lines of jobs' logs: written here as the tools print them.
// SPDX-License-Identifier: Apache-2.0
#include "traces/job_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/words/error.hpp"

namespace weir {
namespace {

std::string megatron_line(int iteration, double ms, int batch = 16) {
  return fmt::format(
      " [2025-04-13 23:41:12] iteration {:8}/    1000 | consumed samples: {:12} | elapsed time per "
      "iteration (ms): {:.1f} | throughput per GPU (TFLOP/s/GPU): 312.5 | learning rate: "
      "1.000000E-04 | global batch size: {:5} | lm loss: 7.399415E+00 | loss scale: 1.0 |\n",
      iteration, 16 * iteration, ms, batch);
}

// Ten iterations warm up; 900 stands out, and the median does not see it. A batch that still grew
// is another step.
TEST(JobLog, MegatronsLines) {
  std::string text = "using world size: 8\n" + megatron_line(1, 9000) + megatron_line(5, 700) +
                     megatron_line(20, 123, 8);
  for (const auto& [iteration, ms] :
       {std::pair(11, 500.0), {12, 510.0}, {13, 900.0}, {14, 505.0}, {15, 495.0}})
    text += megatron_line(iteration, ms);
  text +=
      "[Rank 0] (after 10 iterations) memory (MB) | allocated: 1000.0 | max allocated: 2048.0 "
      "| reserved: 3000.0 | max reserved: 3000.0\n";
  const JobLogSummary s = summary(read_job_log(text, "job.log"));
  EXPECT_EQ(s.tool, "Megatron-LM");
  EXPECT_EQ(s.lines, 5);
  EXPECT_EQ(s.left_out, 3);
  EXPECT_DOUBLE_EQ(s.step_time_s->median, 0.505);
  EXPECT_DOUBLE_EQ(s.step_time_s->lower, 0.5);
  EXPECT_DOUBLE_EQ(s.step_time_s->upper, 0.51);
  EXPECT_DOUBLE_EQ(s.flops_per_s->median, 312.5e12);
  EXPECT_EQ(s.batch, 16);
  EXPECT_EQ(s.memory, Bytes(std::int64_t{2} << 30));
}

// Lines an hundred iterations apart: the first still has the warm-up in it.
TEST(JobLog, ALogOfFewLinesKeepsThem) {
  const auto lines = [](int count) {
    std::string text;
    for (int i = 1; i <= count; ++i) text += megatron_line(i, 1000.0 * i);
    return summary(read_job_log(text, "job.log"));
  };
  EXPECT_EQ(lines(1).lines, 1);
  EXPECT_EQ(lines(3).lines, 2);
  EXPECT_DOUBLE_EQ(lines(3).step_time_s->median, 2.5);
}

// BigScience's fork prints seconds, GPT-NeoX its samples first.
TEST(JobLog, MegatronsForks) {
  const JobLog bloom = read_job_log(
      " iteration    95020/  115311 | consumed samples:    194600960 | elapsed time per iteration "
      "(s): 105.06 | learning rate: 1E-05 | global batch size:  2048 | lm loss: 2.0 | samples per "
      "second: 19.493 | TFLOPs: 149.02 |\n",
      "bloom.log");
  EXPECT_DOUBLE_EQ(bloom.steps[0].time->count(), 105.06);
  EXPECT_EQ(bloom.steps[0].iteration, 95020);
  EXPECT_DOUBLE_EQ(*bloom.steps[0].flops_per_s, 149.02e12);
  EXPECT_DOUBLE_EQ(*bloom.steps[0].samples_per_s, 19.493);
  const JobLog neox = read_job_log(
      " samples/sec: 33.7 | iteration       10/  320000 | elapsed time per iteration (ms): 948.6 | "
      "learning rate: 1E-06 | approx flops per GPU: 48.9TFLOPS | lm_loss: 1.1E+01\n",
      "neox.log");
  EXPECT_DOUBLE_EQ(neox.steps[0].time->count(), 0.9486);
  EXPECT_DOUBLE_EQ(*neox.steps[0].flops_per_s, 48.9e12);
}

TEST(JobLog, OtherTools) {
  const JobLog titan = read_job_log(
      "[rank0]:[titan] 2025-01-01 12:00:00,123 - root - INFO - \x1b[31mstep: 20  \x1b[32mloss:  "
      "8.1234  \x1b[33mmemory: 38.50GiB(48.79%)  \x1b[34mtps: 6,123  \x1b[36mtflops: 250.12  "
      "\x1b[35mmfu: 25.29%\x1b[39m\n",
      "titan.log");
  EXPECT_EQ(titan.tool, "torchtitan");
  EXPECT_EQ(titan.steps[0].iteration, 20);
  EXPECT_DOUBLE_EQ(*titan.steps[0].tokens_per_s, 6123);
  EXPECT_DOUBLE_EQ(*titan.steps[0].flops_per_s, 250.12e12);
  EXPECT_EQ(titan.memory, Bytes(77 * (std::int64_t{1} << 29)));
  const JobLog pipe =
      read_job_log("steps: 30 loss: 10.1 iter time (s): 1.250 samples/sec: 204.8\n", "ds.log");
  EXPECT_EQ(pipe.tool, "DeepSpeed");
  EXPECT_DOUBLE_EQ(pipe.steps[0].time->count(), 1.25);
  EXPECT_EQ(pipe.steps[0].iteration, 30);
  const JobLog timer = read_job_log(
      "[2023-04-01 10:00:00,000] [INFO] [timer.py:199:stop] epoch=0/micro_step=40/global_step=20, "
      "RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.4, MemAllocated=1.87GB, "
      "MaxMemAllocated=3.25GB\n",
      "ds.log");
  EXPECT_EQ(timer.steps[0].iteration, 20);
  EXPECT_DOUBLE_EQ(*timer.steps[0].samples_per_s, 12.4);
  EXPECT_EQ(timer.memory, Bytes(13 * (std::int64_t{1} << 28)));
  const JobLog nemo = read_job_log(
      "Training epoch 0, iteration 20/99 | lr: 3e-04 | global_batch_size: 128 | global_step: 20 | "
      "reduced_train_loss: 6.13 | train_step_timing in s: 5.9 | consumed_samples: 2688\n",
      "nemo.log");
  EXPECT_EQ(nemo.tool, "NeMo");
  EXPECT_DOUBLE_EQ(nemo.steps[0].time->count(), 5.9);
  const JobLog nanotron = read_job_log(
      "12/01/2024 [INFO|DP=0|PP=0|TP=0]: iteration: 20 / 100 | consumed_tokens: 2.62M | "
      "time_per_iteration_ms: 1.53K | tokens_per_sec: 171K | tokens_per_sec_per_gpu: 21.4K | "
      "global_batch_size: 128 | lm_loss: 10.5 | model_tflops_per_gpu: 198\n",
      "nano.log");
  EXPECT_EQ(nanotron.tool, "nanotron");
  EXPECT_DOUBLE_EQ(nanotron.steps[0].time->count(), 1.53);
  EXPECT_DOUBLE_EQ(*nanotron.steps[0].tokens_per_s, 21400);
}

TEST(JobLog, WhatIsNoneIsRefused) {
  EXPECT_FALSE(is_job_log("{\"schema\": \"weir.trace/1\"}\nstep by step\n"));
  EXPECT_TRUE(is_job_log("# a job\n" + megatron_line(1, 10)));
  EXPECT_THROW(static_cast<void>(read_job_log("elapsed time per iteration (ms): nan |\n", "x")),
               InputError);
}

}  // namespace
}  // namespace weir
