// What a training job printed of its steps: Megatron-LM's iteration lines (NVIDIA's, BigScience's
// and GPT-NeoX's), torchtitan's, DeepSpeed's, NeMo's and nanotron's. Lines of anything else are
// passed over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/words/units.hpp"

namespace weir {

// One line. Rates are averages since the line before, as the tools print them.
struct LoggedStep {
  std::int64_t iteration = 0;
  std::optional<Seconds> time;
  std::optional<double> tokens_per_s;   // of one device
  std::optional<double> samples_per_s;  // of the job
  std::optional<double> flops_per_s;    // model FLOPs of one device
  std::optional<std::int64_t> batch;    // samples a step
};

struct JobLog {
  std::string tool;  // "Megatron-LM", "torchtitan", "DeepSpeed", "NeMo", "nanotron"
  std::vector<LoggedStep> steps;
  std::optional<Bytes> memory;  // the most that a line says of a device
};

// Throws InputError where no line says how fast a step was.
[[nodiscard]] JobLog read_job_log(const std::string& text, const std::string& file);

// Whether a line of the text is one of a step.
[[nodiscard]] bool is_job_log(const std::string& text);

struct Spread {
  double median = 0, lower = 0, upper = 0;  // quartiles
};

// The steps that count: warm-up left out. The first line, and lines of the first ten iterations,
// are left out while three others remain; so are lines of another batch size than the last one's.
struct JobLogSummary {
  std::string tool;
  int lines = 0, left_out = 0;
  std::optional<Spread> step_time_s, tokens_per_s, samples_per_s, flops_per_s;
  std::optional<std::int64_t> batch;
  std::optional<Bytes> memory;
};
[[nodiscard]] JobLogSummary summary(const JobLog& log);

}  // namespace weir
