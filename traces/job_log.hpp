// What a training job printed of its steps: Megatron-LM's iteration lines (NVIDIA's, BigScience's
// and GPT-NeoX's), torchtitan's, DeepSpeed's, NeMo's and nanotron's. Lines of anything else are
// passed over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/job/plan.hpp"
#include "plan/words/units.hpp"
#include "traces/memory_count.hpp"

namespace weir {

// One line. Rates are averages since the line before, as the tools print them.
struct LoggedStep {
  std::int64_t iteration = 0;
  std::optional<Seconds> time;
  std::optional<double> tokens_per_s;    // of one device
  std::optional<double> samples_per_s;   // of the job
  std::optional<double> flops_per_s;     // model FLOPs of one device
  std::optional<std::int64_t> batch;     // samples a step
  std::optional<std::int64_t> sequence;  // tokens a sample
};

// What makes two jobs others: NVIDIA's names, and where others have others, these.
struct LoggedArgument {
  std::string_view name, neox;
  std::string_view dllogger = {};  // NeMo's, as NVIDIA's logger prints it
};
inline constexpr std::array<LoggedArgument, 9> kLoggedArguments{
    {{"world_size", ""},
     {"num_layers", ""},
     {"hidden_size", ""},
     {"tensor_model_parallel_size", "model_parallel_size"},
     {"pipeline_model_parallel_size", "pipe_parallel_size"},
     {"context_parallel_size", ""},
     {"micro_batch_size", "train_micro_batch_size_per_gpu"},
     {"global_batch_size", "train_batch_size"},
     {"seq_length", "", "encoder_seq_length"}}};

struct JobLog {
  std::string tool;  // "Megatron-LM", "torchtitan", "DeepSpeed", "NeMo", "nanotron"
  std::vector<LoggedStep> steps;
  // The most that a line says of a device: by its allocator, and by tensors.
  std::optional<Bytes> reserved, allocated;
  // Of the list of its arguments that a job of the Megatron family prints, those that
  // kLoggedArguments names, as it spells them.
  std::map<std::string, std::int64_t> arguments;
};

// Throws InputError where no line says how fast a step was.
[[nodiscard]] JobLog read_job_log(const std::string& text, const std::string& file);

// Whether a line of the text is one of a step.
[[nodiscard]] bool is_job_log(const std::string& text);

struct Spread {
  double median = 0, lower = 0, upper = 0;  // quartiles
};
// Of values in any order; there is at least one.
[[nodiscard]] Spread spread(std::vector<double> values);

struct LoggedMemory {
  Bytes bytes{0};
  MemoryCount count = MemoryCount::reserved;
};

// The steps that count: warm-up left out. The first iteration's lines, and lines of the first ten
// iterations, are left out while three others remain; so are lines of another batch size or
// sequence length than the last one's.
struct JobLogSummary {
  std::string tool;
  int lines = 0, left_out = 0;
  bool warming = false;  // no line is of a step behind the warm-up
  std::optional<Spread> step_time_s, tokens_per_s, samples_per_s, flops_per_s;
  std::optional<std::int64_t> batch, sequence;
  std::optional<LoggedMemory> memory;  // what was reserved, where lines say that
  std::map<std::string, std::int64_t> arguments;
  std::optional<Plan> plan;  // of a trace of Weir's; logs do not say it
};
[[nodiscard]] JobLogSummary summary(const JobLog& log);

}  // namespace weir
