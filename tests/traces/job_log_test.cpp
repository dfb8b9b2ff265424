// Lines of jobs' logs: written here as the tools print them.
// SPDX-License-Identifier: Apache-2.0
#include "traces/job_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/words/error.hpp"

namespace weir::job_log_test {
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
  // Of 3000 MiB reserved 2048 were tensors'.
  EXPECT_EQ(s.memory->bytes, Bytes(std::int64_t{3000} << 20));
  EXPECT_EQ(s.memory->count, MemoryCount::reserved);
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
  EXPECT_EQ(titan.reserved, Bytes(77 * (std::int64_t{1} << 29)));
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
  EXPECT_EQ(timer.allocated, Bytes(13 * (std::int64_t{1} << 28)));
  EXPECT_FALSE(timer.reserved);
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

// DeepSpeed's older timers have "EPOCH/STEP" before their rates, or one rate only.
TEST(JobLog, DeepSpeedsOlderTimers) {
  const JobLog both = read_job_log(
      "[2022-08-29 06:00:00,000] [INFO] [timer.py:198:stop] 0/20, RunningAvgSamplesPerSec=232.5, "
      "CurrSamplesPerSec=227.5, MemAllocated=0.36GB, MaxMemAllocated=15.0GB\n",
      "ds.log");
  EXPECT_EQ(both.tool, "DeepSpeed");
  EXPECT_EQ(both.steps[0].iteration, 20);
  EXPECT_DOUBLE_EQ(*both.steps[0].samples_per_s, 227.5);
  EXPECT_EQ(both.allocated, Bytes(std::int64_t{15} << 30));
  const JobLog one =
      read_job_log("[INFO] [timer.py:154:stop] 0/30, SamplesPerSec=90.5\n", "ds.log");
  EXPECT_EQ(one.steps[0].iteration, 30);
  EXPECT_DOUBLE_EQ(*one.steps[0].samples_per_s, 90.5);
}

// see_memory_usage prints what tensors have and what the allocator (the cache, CA) has, now and at
// most; the timer knows tensors alone. What was reserved decides whether a job fits.
TEST(JobLog, DeepSpeedsReservedBytes) {
  const std::string timer =
      "[INFO] [timer.py:260:stop] epoch=0/micro_step=20/global_step=20, "
      "RunningAvgSamplesPerSec=5.0, CurrSamplesPerSec=5.0, MemAllocated=1.5GB, "
      "MaxMemAllocated=10.25GB\n";
  const std::string usage =
      "[INFO] [utils.py:801:see_memory_usage] MA 3.4 GB         Max_MA 9.5 GB         CA 10.1 GB  "
      "       Max_CA 12 GB \n";
  const JobLogSummary tensors = summary(read_job_log(timer, "ds.log"));
  EXPECT_EQ(tensors.memory->bytes, Bytes(41 * (std::int64_t{1} << 28)));
  EXPECT_EQ(tensors.memory->count, MemoryCount::allocated);
  const JobLog both = read_job_log(usage + timer, "ds.log");
  EXPECT_EQ(both.allocated, Bytes(41 * (std::int64_t{1} << 28)));
  EXPECT_EQ(summary(both).memory->bytes, Bytes(std::int64_t{12} << 30));
  EXPECT_EQ(summary(both).memory->count, MemoryCount::reserved);
  // Before the first step 4 GB were reserved; later tensors alone had more.
  std::string start = usage;
  start.replace(start.find("Max_MA 9.5"), 10, "Max_MA 3.5");
  start.replace(start.find("Max_CA 12"), 9, "Max_CA 4");
  EXPECT_EQ(summary(read_job_log(start + timer, "ds.log")).memory->count, MemoryCount::allocated);
}

// Megatron-DeepSpeed prints the timer first, whose rate leaves out what is between steps: 8 samples
// of 2 s are 4/s, not 5. So do DeepSpeed's own pipelines.
TEST(JobLog, ATimeIsSurerThanTheTimerBesideIt) {
  const std::string timer =
      "[INFO] [timer.py:260:stop] epoch=0/micro_step=20/global_step=20, "
      "RunningAvgSamplesPerSec=5.0, CurrSamplesPerSec=5.0, MaxMemAllocated=1.0GB\n";
  const JobLogSummary megatron = summary(read_job_log(timer + megatron_line(20, 2000, 8), "a.log"));
  EXPECT_EQ(megatron.tool, "Megatron-LM");
  EXPECT_EQ(megatron.lines, 1);
  EXPECT_EQ(megatron.batch, 8);
  EXPECT_DOUBLE_EQ(megatron.step_time_s->median, 2);
  EXPECT_FALSE(megatron.samples_per_s);
  const JobLogSummary pipe = summary(
      read_job_log(timer + "steps: 20 loss: 1.0 iter time (s): 2.000 samples/sec: 4.0\n", "b.log"));
  EXPECT_EQ(pipe.lines, 1);
  EXPECT_DOUBLE_EQ(pipe.step_time_s->median, 2);
  EXPECT_DOUBLE_EQ(pipe.samples_per_s->median, 4);
}

// NeMo's progress bar is one line of a file, its ends carriage returns: of 60, 3, 4 and 5 s the
// first is warm-up. Its DLLogger writes JSON.
TEST(JobLog, ProgressBarsEndByCarriageReturns) {
  std::string bar;
  for (const auto& [step, time] : {std::pair(10, 60.0), {11, 3.0}, {12, 4.0}, {13, 5.0}}) {
    bar += fmt::format(
        "\rEpoch 0: :  {0}%|   | {0}/100 [00:10<00:20, reduced_train_loss=6.13, global_step={0}.0, "
        "consumed_samples=2560.0, train_step_timing in s={1:.2f}]",
        step, time);
  }
  const JobLogSummary s = summary(read_job_log(bar, "nemo.log"));
  EXPECT_EQ(s.lines, 3);
  EXPECT_DOUBLE_EQ(s.step_time_s->median, 4);
  const JobLog json = read_job_log(
      "DLLL {\"type\": \"LOG\", \"step\": 16, \"data\": {\"global_step\": 16.0, "
      "\"train_step_timing in s\": 92.5, \"epoch\": 0}}\n",
      "nemo.log");
  EXPECT_DOUBLE_EQ(json.steps[0].time->count(), 92.5);
  EXPECT_EQ(json.steps[0].iteration, 16);
}

// Every rank of a torchtitan job prints its line: all eight of the first step are warm-up, not one.
TEST(JobLog, TheFirstStepOfEveryRankIsWarmUp) {
  std::string text;
  for (const auto& [step, rate] : {std::pair(1, 10), {2, 1000}}) {
    for (int rank = 0; rank < 8; ++rank)
      text +=
          fmt::format("[titan] step: {:2}  loss: 8.1  memory: 1.50GiB(2%)  tps: {}\n", step, rate);
  }
  const JobLogSummary s = summary(read_job_log(text, "titan.log"));
  EXPECT_EQ(s.lines, 8);
  EXPECT_DOUBLE_EQ(s.tokens_per_s->lower, 1000);
}

// NVIDIA's logger says a job's configuration by paths, NeMo's length by NeMo's name; what it says
// of others is not taken.
TEST(JobLog, ConfigurationsOfNvidiasLogger) {
  const auto arguments = [](const std::string& data) {
    std::string text =
        "DLLL {\"type\": \"LOG\", \"step\": \"PARAMETER\", \"data\": {" + data + "}}\n";
    for (int step = 10; step < 40; step += 10)
      text += fmt::format(
          "DLLL {{\"step\": {}, \"data\": {{\"global_step\": {}.0, "
          "\"train_step_timing in s\": 2.5}}}}\n",
          step, step);
    return read_job_log(text, "job.log").arguments;
  };
  using Map = std::map<std::string, std::int64_t>;
  EXPECT_EQ(arguments("\"cfg/num_layers\": 96, \"cfg/encoder_seq_length\": 2048"),
            (Map{{"num_layers", 96}, {"seq_length", 2048}}));
  EXPECT_EQ(arguments("\"cfg/model/global_batch_size\": 16"), (Map{{"global_batch_size", 16}}));
  EXPECT_EQ(arguments("\"model.hidden_size\":512"), (Map{{"hidden_size", 512}}));
  EXPECT_EQ(arguments("\"num_layers\": 8"), (Map{{"num_layers", 8}}));
  EXPECT_EQ(arguments("\"cfg/other_num_layers\": 8, \"cfg/num_layers_per_stage\": 4"), Map{});
  EXPECT_EQ(arguments("\"cfg/num_layers\": \"many\""), Map{});
}

// Steps whose sequences still grow are other steps; the list of arguments says whose job it was.
TEST(JobLog, WhatMakesAJobAnother) {
  std::string text =
      "------------------------ arguments ------------------------\n"
      "[default0]:  encoder_seq_length .............................. 512\n"
      "  pipeline_model_parallel_size .................... 4\n"
      "  model_parallel_size ............. 2...........updated\n"
      "  train_micro_batch_size_per_gpu ... None\n";
  for (const auto& [ms, tokens] : {std::pair(900, 512), {1000, 1024}, {1100, 1024}, {1200, 1024}})
    text += fmt::format(
        " iteration 20/ 100 | elapsed time per iteration (ms): {} | global batch "
        "size: 16 | actual seqlen: {} |\n",
        ms, tokens);
  const JobLogSummary s = summary(read_job_log(text, "job.log"));
  EXPECT_EQ(s.sequence, 1024);
  EXPECT_EQ(s.left_out, 1);
  EXPECT_THAT(s.arguments, testing::ElementsAre(testing::Pair("pipeline_model_parallel_size", 4),
                                                testing::Pair("tensor_model_parallel_size", 2)));
}

TEST(JobLog, WhatIsNoneIsRefused) {
  EXPECT_FALSE(is_job_log("{\"schema\": \"weir.trace/1\"}\nstep by step\n"));
  EXPECT_TRUE(is_job_log("# a job\n" + megatron_line(1, 10)));
  EXPECT_THROW(static_cast<void>(read_job_log("elapsed time per iteration (ms): nan |\n", "x")),
               InputError);
}

}  // namespace
}  // namespace weir::job_log_test
