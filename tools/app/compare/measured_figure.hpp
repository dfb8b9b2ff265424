// One measured figure of a plan, as a user has it: "plan.json=22.3s,61GiB".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/job/resolve.hpp"
#include "plan/words/units.hpp"
#include "sim/forecast/forecast.hpp"
#include "traces/job_log.hpp"

namespace weir::app {

// How much of a causal attention's products a tool counts: all, or the half that is not masked.
enum class AttentionCount { whole, half };

// How fast, in the words of whoever measured it, and how full.
struct MeasuredFigure {
  enum class Kind {
    step_time,            // seconds
    flops,                // model FLOP/s of one device
    tokens_per_s,         // of the whole job
    device_tokens_per_s,  // of one device
    samples_per_s,        // of the whole job
  };
  std::filesystem::path plan;
  std::string text;  // behind the sign of equality
  Kind kind = Kind::step_time;
  double value = 0;                     // above 0
  std::optional<AttentionCount> count;  // of flops, where the user says it
  std::optional<Bytes> memory;          // peak of the fullest device
  MemoryCount memory_count = MemoryCount::device;
  std::optional<JobLogSummary> log;  // where the figure is a job's log
};

// What a log says of a step: its median time, else its tokens or samples a second. Throws
// InputError where it says none of them.
[[nodiscard]] MeasuredFigure figure_of(const JobLogSummary& log, const std::string& file);

// Of a job's log, or of a trace that Weir measured.
[[nodiscard]] JobLogSummary summary_of_file(const std::string& file);

// Throws InputError where the log is another job's than the plan's: other samples a step, other
// tokens a sample, other layers, or other arguments in its list; or a trace another plan's, of what
// changes a step.
void require_same_job(const JobLogSummary& log, const ResolvedPlan& plan,
                      const std::string& plan_file);

// Brings FLOP/s of half of the attention to those of all of it, which forecasts count. Which it is
// says the figure, else the tool of the plan's job. The line says what was taken; none of other
// figures.
[[nodiscard]] std::optional<std::string> count_whole(MeasuredFigure& figure,
                                                     const ResolvedPlan& plan);

// "90 lines of Megatron-LM (10 of the warm-up or another batch left out): 1.15 s, half of them
// 1.13 s to 1.16 s"
[[nodiscard]] std::string told(const JobLogSummary& log);

// "FIGURE[,MEMORY]", of no plan: FIGURE is a step time (ns to h), TFLOPs a device, or tokens/s
// (tok/s) or samples/s of the whole job, with k or M before them, or the log of a job; behind
// TFLOPs :half or :whole says how much of the attention they count; MEMORY is
// bytes with their unit. Throws UsageError naming `option`.
[[nodiscard]] MeasuredFigure parse_plain_figure(const std::string& text, const std::string& option);
// The same behind "PLAN=".
[[nodiscard]] MeasuredFigure parse_figure(const std::string& text, const std::string& option);

// The step time that the figure means for a plan with this forecast, on so many devices: rates are
// those that the forecast has, over its own step time. nullopt: the forecast has no such rate (a
// model without tokens).
[[nodiscard]] std::optional<Seconds> step_time_of(const MeasuredFigure& figure,
                                                  const Forecast& forecast, int devices);

}  // namespace weir::app
