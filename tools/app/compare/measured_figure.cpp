// Reads measured figures, and turns rates into step times.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare/measured_figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "costmodel/layers/layer_math.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/figures.hpp"
#include "sim/explain/plan_changes.hpp"
#include "tools/app/compare/measured_trace.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::app {
namespace {

using FigureKind = MeasuredFigure::Kind;

struct RateUnit {
  std::string_view name;
  FigureKind kind;
  double factor;
};

constexpr std::array kRateUnits{RateUnit{"TFLOPs", FigureKind::flops, 1e12},
                                RateUnit{"TFLOPS", FigureKind::flops, 1e12},
                                RateUnit{"TFLOP/s", FigureKind::flops, 1e12},
                                RateUnit{"PFLOP/s", FigureKind::flops, 1e15},
                                RateUnit{"tok/s", FigureKind::tokens_per_s, 1},
                                RateUnit{"ktok/s", FigureKind::tokens_per_s, 1e3},
                                RateUnit{"Mtok/s", FigureKind::tokens_per_s, 1e6},
                                RateUnit{"tokens/s", FigureKind::tokens_per_s, 1},
                                RateUnit{"ktokens/s", FigureKind::tokens_per_s, 1e3},
                                RateUnit{"Mtokens/s", FigureKind::tokens_per_s, 1e6},
                                RateUnit{"samples/s", FigureKind::samples_per_s, 1}};

// How fast; nullopt where it is nothing of the kind.
std::optional<std::pair<FigureKind, double>> parse_speed(std::string_view text) {
  if (const auto time = parse_duration(text))
    return std::pair(FigureKind::step_time, time->count());
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit(end, last);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const RateUnit& rate : kRateUnits) {
    if (unit == rate.name) return std::pair(rate.kind, number * rate.factor);
  }
  return std::nullopt;
}

// Transformer blocks of a model, and how wide they are; 0: it has none.
std::int64_t blocks_of(const Model& model) {
  return std::ranges::count_if(model.layers, [](const Layer& layer) {
    return std::holds_alternative<TransformerShape>(layer.shape);
  });
}
std::int64_t width_of(const Model& model) {
  for (const Layer& layer : model.layers) {
    if (const auto* block = std::get_if<TransformerShape>(&layer.shape)) return block->hidden;
  }
  return 0;
}

// Model FLOPs of a step's causal attention cores by those of all the rest and them.
double core_share(const Model& model, std::int64_t seq_length) {
  double cores = 0;
  for (const Layer& layer : model.layers) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr || !block->causal) continue;
    TransformerShape unmasked = *block;
    unmasked.attention = AttentionKind::unfused;
    cores += 3 * core_flops(unmasked, seq_length).forward.count();
  }
  const double all = training_flops(model, seq_length).count();
  return all > 0 ? cores / all : 0;
}

// Megatron-LM counts half since 6 March 2025 (megatron/training/training.py, 8873b55d6aad), and
// Megatron-Bridge after it (utils/flop_utils.py); torchtitan (get_nparams_and_flops of its models),
// Megatron-DeepSpeed and Megatron-LM's older forks count all.
AttentionCount count_of(const SourceJob& job) {
  const bool megatron = job.tool == "megatron" || job.tool == "nemo";
  return megatron && !is_old_megatron(job.lines) ? AttentionCount::half : AttentionCount::whole;
}

// `whole`: what was given, for messages.
MeasuredFigure with_figure(MeasuredFigure figure, const std::string& whole,
                           const std::string& option) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("{} {}: {}", option, whole, why));
  };
  const auto comma = figure.text.find(',');
  std::string first = figure.text.substr(0, comma);
  for (const auto& [word, count] :
       {std::pair(":half", AttentionCount::half), {":whole", AttentionCount::whole}}) {
    if (!first.ends_with(word)) continue;
    first.resize(first.size() - std::string_view(word).size());
    figure.count = count;
  }
  // A figure first: a file could be called "22.3s" too.
  const auto speed = parse_speed(first);
  if (!speed && std::filesystem::is_regular_file(first)) {
    MeasuredFigure logged = figure_of(summary_of_file(first), first);
    // What was given with the plan stays: the log's words are its figures alone.
    logged.plan = figure.plan;
    logged.text = figure.text;
    figure = std::move(logged);
  } else if (!speed || speed->second <= 0) {
    refuse(
        fmt::format("\"{}\": expected a step time (22.3s, 850ms), 296.5TFLOPs a device, "
                    "380ktok/s or samples/s of the whole job, or the file of its log "
                    "or trace",
                    first));
  } else {
    std::tie(figure.kind, figure.value) = *speed;
  }
  if (figure.count && figure.kind != FigureKind::flops)
    refuse(":half and :whole say how TFLOPs count attention");
  if (comma == std::string::npos) return figure;
  const std::string second = figure.text.substr(comma + 1);
  // A measured amount need not be of whole bytes; what is counted by the second has the same units.
  const auto bytes = parse_rate(second + "/s");
  if (!bytes || bytes->count() < 1 || bytes->count() > 1e18)
    refuse(fmt::format("\"{}\": expected an amount of memory with its unit, as 61GiB", second));
  figure.memory = Bytes(std::llround(bytes->count()));
  figure.memory_count = MemoryCount::device;
  return figure;
}

}  // namespace

JobLogSummary summary_of_file(const std::string& file) {
  const std::string text = read_text_file(file);
  return is_trace(text) ? summary_of_trace(text, file) : summary(read_job_log(text, file));
}

MeasuredFigure parse_plain_figure(const std::string& text, const std::string& option) {
  return with_figure({.plan = {}, .text = text}, text, option);
}

MeasuredFigure parse_figure(const std::string& text, const std::string& option) {
  // A path may have a sign of equality, a figure has none.
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(
        fmt::format("{} {}: expected PLAN=FIGURE, as plan.json=22.3s,61GiB", option, text));
  }
  return with_figure({.plan = text.substr(0, equals), .text = text.substr(equals + 1)}, text,
                     option);
}

MeasuredFigure figure_of(const JobLogSummary& log, const std::string& file) {
  MeasuredFigure figure{.log = log};
  if (log.memory) {
    figure.memory = log.memory->bytes;
    figure.memory_count = log.memory->count;
  }
  if (log.step_time_s) {
    figure.value = log.step_time_s->median;
  } else if (log.tokens_per_s) {
    figure.kind = FigureKind::device_tokens_per_s;
    figure.value = log.tokens_per_s->median;
  } else if (log.samples_per_s) {
    figure.kind = FigureKind::samples_per_s;
    figure.value = log.samples_per_s->median;
  }
  if (figure.value <= 0) throw InputError(file, "", "no line says how fast a step was");
  return figure;
}

namespace {

// A trace says all of its plan: what of it changes a step must be the plan's.
void require_same_plan(Plan traced, const Plan& plan, const std::string& plan_file) {
  if (traced.model_sha256 != plan.model_sha256)
    throw InputError(plan_file, "model_sha256", "is another model's than the trace's");
  // A schedule's file may lie elsewhere from where the trace was written.
  if (traced.schedule.ends_with(".csv") && plan.schedule.ends_with(".csv"))
    traced.schedule = plan.schedule;
  const std::vector<PlanChange> changes = step_changes(traced, plan);
  if (changes.empty()) return;
  const PlanChange& first = changes.front();
  throw InputError(
      plan_file, first.key,
      fmt::format("is {}, of the trace's plan {}", first.after.dump(), first.before.dump()));
}

}  // namespace

void require_same_job(const JobLogSummary& log, const ResolvedPlan& loaded,
                      const std::string& plan_file) {
  const Plan& plan = loaded.plan;
  if (log.plan) return require_same_plan(*log.plan, plan, plan_file);
  const auto refuse = [&](std::int64_t planned, std::string_view of, std::int64_t logged) {
    throw InputError(plan_file, "",
                     fmt::format("has {} {}, the log's steps have {}", planned, of, logged));
  };
  if (log.batch && *log.batch != plan.global_batch_size())
    refuse(plan.global_batch_size(), "samples a step", *log.batch);
  if (log.sequence && *log.sequence != plan.seq_length)
    refuse(plan.seq_length, "tokens a sample", *log.sequence);
  // By the names that logs have for them.
  const auto planned = [&](std::string_view name) -> std::int64_t {
    if (name == "world_size") return plan.devices();
    if (name == "tensor_model_parallel_size") return plan.tp;
    if (name == "pipeline_model_parallel_size") return plan.pp;
    if (name == "context_parallel_size") return plan.cp;
    if (name == "micro_batch_size") return plan.micro_batch_size;
    if (name == "global_batch_size") return plan.global_batch_size();
    if (name == "num_layers") return blocks_of(loaded.model);
    if (name == "hidden_size") return width_of(loaded.model);
    return plan.seq_length;
  };
  for (const auto& [name, value] : log.arguments) {
    // What each step says, which may grow, was compared above; 0 stages are GPT-NeoX's one.
    if (name == "global_batch_size" && log.batch) continue;
    if (name == "seq_length" && log.sequence) continue;
    const std::int64_t logged = std::max<std::int64_t>(value, 1);
    const std::int64_t ours = planned(name);
    // 0: the plan does not have this, so the log cannot contradict it.
    if (logged == ours || ours == 0) continue;
    throw InputError(plan_file, "",
                     fmt::format("is of {} {}, the log's job of {}", name, ours, logged));
  }
}

std::string told(const JobLogSummary& log) {
  const auto both = [&](const Spread& s, auto&& show) {
    return fmt::format("{}, half of them {} to {}", show(s.median), show(s.lower), show(s.upper));
  };
  const auto rate = [](double value) { return format_figure(value, 4) + "/s"; };
  std::string speed;
  if (log.step_time_s)
    speed = both(*log.step_time_s, [](double s) { return format_duration(Seconds(s)); });
  else if (log.tokens_per_s)
    speed = "tokens a device " + both(*log.tokens_per_s, rate);
  else if (log.samples_per_s)
    speed = "samples " + both(*log.samples_per_s, rate);
  const std::string doubt =
      log.warming ? "; all of the warm-up, whose steps are slower: a later line would be surer"
                  : "";
  return fmt::format("{} lines of {} ({} of the warm-up or another batch left out): {}{}",
                     log.lines, log.tool, log.left_out, speed, doubt);
}

std::optional<std::string> count_whole(MeasuredFigure& figure, const ResolvedPlan& loaded) {
  if (figure.kind != FigureKind::flops) return std::nullopt;
  const SourceJob& job = loaded.plan.job;
  const AttentionCount count = figure.count.value_or(count_of(job));
  const double share = core_share(loaded.model, loaded.plan.seq_length);
  // Half counts a causal mask's half of the scores: the rest of the step's FLOPs stays.
  if (count == AttentionCount::half) figure.value /= 1 - share / 2;
  constexpr double kMatters = 0.02;
  // Too little of the step to be worth a word.
  if (!figure.count && share / 2 < kMatters) return std::nullopt;
  const bool half = count == AttentionCount::half;
  std::string why;
  if (!figure.count && half) why = ", as Megatron's logs have it since March 2025";
  if (!figure.count && !half) why = job.tool.empty() ? "" : fmt::format(", as {} counts", job.tool);
  return fmt::format("{}: FLOPs with {} of the causal attention{}{}", figure.text,
                     half ? "half" : "all", why,
                     figure.count ? ""
                     : half       ? "; :whole says all"
                                  : "; :half says half");
}

std::optional<Seconds> step_time_of(const MeasuredFigure& figure, const Forecast& forecast,
                                    int devices) {
  const auto from_rate = [&](const std::optional<double>& rate) -> std::optional<Seconds> {
    // A rate and a time are inverse, whatever the model's FLOPs or tokens are.
    if (!rate) return std::nullopt;
    return forecast.step_time * (*rate / figure.value);
  };
  const auto per_device = [&](const std::optional<double>& rate) {
    return rate ? std::optional(*rate / devices) : rate;
  };
  switch (figure.kind) {
    case FigureKind::step_time:
      return Seconds(figure.value);
    case FigureKind::flops:
      if (!forecast.model_tflops_per_device) return std::nullopt;
      return from_rate(*forecast.model_tflops_per_device * 1e12);
    case FigureKind::tokens_per_s:
      return from_rate(forecast.tokens_per_s);
    case FigureKind::device_tokens_per_s:
      return from_rate(per_device(forecast.tokens_per_s));
    case FigureKind::samples_per_s:
      return from_rate(forecast.samples_per_s);
  }
  return std::nullopt;
}

}  // namespace weir::app
