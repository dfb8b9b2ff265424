// Lines of steps, by the words that each tool prints before its numbers.
// SPDX-License-Identifier: Apache-2.0
#include "traces/job_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::int64_t kWarmUpIterations = 10;
constexpr std::size_t kFewestLines = 3;
constexpr double kLargestNumber = 1e18;

// Colours go: torchtitan prints them into files too.
std::string without_colours(const std::string& line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == '\x1b' && at + 1 < line.size() && line[at + 1] == '[') {
      at = line.find('m', at);
      if (at == line.npos) break;
      ++at;
    } else {
      plain += line[at++];
    }
  }
  return plain;
}

struct Found {
  double number = 0;
  std::string_view rest;  // behind it
};

// The number behind a word, as in "tps: 6,123", "loss=1.5", "in s=5.9"; K, M and G of nanotron
// count. nullopt where the word is not there as a whole, or no positive number follows.
std::optional<Found> number_behind(std::string_view line, std::string_view word) {
  for (std::size_t at = line.find(word); at != line.npos; at = line.find(word, at + 1)) {
    // The word begins there: "step" does not count within "global_step".
    const char before = at == 0 ? ' ' : line[at - 1];
    const bool inside = std::string_view(" |[(,\t\"").find(before) == std::string_view::npos;
    if (inside) continue;
    std::string_view rest = line.substr(at + word.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" :=\t\""), rest.size()));
    std::string digits;
    std::size_t length = 0;
    for (; length < rest.size(); ++length) {
      const char c = rest[length];
      const bool grouped = c == ',' && length + 1 < rest.size() && rest[length + 1] >= '0' &&
                           rest[length + 1] <= '9';
      if (grouped) continue;
      if (std::string_view("0123456789.eE+-").find(c) == std::string_view::npos) break;
      digits += c;
    }
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || !std::isfinite(number) || number < 0) continue;
    // "5.9," and "6.0E": what is no part of the number goes back.
    rest.remove_prefix(length - static_cast<std::size_t>(digits.data() + digits.size() - end));
    const double factor = rest.starts_with('K')   ? 1e3
                          : rest.starts_with('M') ? 1e6
                          : rest.starts_with('G') ? 1e9
                                                  : 1;
    if (number * factor <= kLargestNumber) return Found{number * factor, rest};
  }
  return std::nullopt;
}

std::optional<double> value_of(std::string_view line, std::string_view word) {
  const auto found = number_behind(line, word);
  return found && found->number > 0 ? std::optional(found->number) : std::nullopt;
}

std::optional<double> first_of(std::string_view line, std::initializer_list<std::string_view> words,
                               double factor = 1) {
  for (const std::string_view word : words) {
    if (const auto value = value_of(line, word)) return *value * factor;
  }
  return std::nullopt;
}

std::optional<Seconds> seconds(const std::optional<double>& value) {
  return value ? std::optional(Seconds(*value)) : std::nullopt;
}

std::optional<std::int64_t> whole(const std::optional<double>& value) {
  return value ? std::optional(static_cast<std::int64_t>(*value)) : std::nullopt;
}

// "38.62GiB(48%)", "1.87GB", and plain MB.
std::optional<Bytes> memory_of(std::string_view line, std::string_view word, double plain) {
  const std::size_t at = line.find(word);
  if (at == line.npos) return std::nullopt;
  std::string_view rest = line.substr(at + word.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" :=\t"), rest.size()));
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc{} || !(number > 0) || number > 1e9) return std::nullopt;
  const std::string_view unit(end, rest.data() + rest.size());
  double factor = plain;
  if (unit.starts_with("GiB") || unit.starts_with(" GiB") || unit.starts_with("GB") ||
      unit.starts_with(" GB"))
    factor = 1024.0 * 1024 * 1024;  // what tools call GB is 2^30 bytes too
  if (unit.starts_with("MiB") || unit.starts_with(" MiB")) factor = 1024.0 * 1024;
  return Bytes(std::llround(number * factor));
}

// Words before an amount, and what it counts: Megatron-LM's report_memory in MB
// (megatron/training/utils/common_utils.py), DeepSpeed's timer (utils/timer.py) and
// see_memory_usage (runtime/utils.py; its Max_CA is rounded to whole GB), torchtitan's step
// (components/metrics.py: what is reserved), nanotron's (utils.py, log_memory).
struct MemoryWord {
  std::string_view word;
  std::optional<Bytes> JobLog::*most;
  double plain;  // bytes of one where no unit follows
};
constexpr double kMib = 1024.0 * 1024;
constexpr std::array<MemoryWord, 8> kMemoryWords{{{"max allocated:", &JobLog::allocated, kMib},
                                                  {"max reserved:", &JobLog::reserved, kMib},
                                                  {"MaxMemAllocated=", &JobLog::allocated, 1},
                                                  {"Max_MA ", &JobLog::allocated, 1},
                                                  {"Max_CA ", &JobLog::reserved, 1},
                                                  {" memory: ", &JobLog::reserved, 1},
                                                  {"Peak allocated", &JobLog::allocated, 1},
                                                  {"Peak reserved", &JobLog::reserved, 1}}};

void take_memory(std::string_view line, JobLog& log) {
  for (const MemoryWord& word : kMemoryWords) {
    const auto memory = memory_of(line, word.word, word.plain);
    std::optional<Bytes>& most = log.*word.most;
    // Below a KiB it is something else that is printed behind the same word.
    if (memory && memory->count() > 1024 && (!most || *memory > *most)) most = memory;
  }
}

std::optional<LoggedStep> megatron_line(std::string_view line) {
  LoggedStep step;
  if (const auto ms = first_of(line, {"elapsed time per iteration (ms)"}, 1e-3))
    step.time = Seconds(*ms);
  if (const auto s = first_of(line, {"elapsed time per iteration (s)"})) step.time = Seconds(*s);
  if (!step.time) return std::nullopt;
  step.iteration = static_cast<std::int64_t>(value_of(line, "iteration").value_or(0));
  step.flops_per_s = first_of(line,
                              {"throughput per GPU (TFLOP/s/GPU)", "TFLOPs", "approx flops per GPU",
                               "throughput (token/sec/GPU, TFLOP/s/GPU)"},
                              1e12);
  step.samples_per_s = first_of(line, {"samples per second", "samples/sec"});
  step.batch = whole(value_of(line, "global batch size"));
  step.sequence = whole(value_of(line, "actual seqlen"));
  return step;
}

std::optional<LoggedStep> torchtitan_line(std::string_view line) {
  LoggedStep step;
  step.tokens_per_s = first_of(line, {"tps", "wps"});
  const auto at = value_of(line, "step");
  if (!step.tokens_per_s || !at) return std::nullopt;
  step.iteration = static_cast<std::int64_t>(*at);
  step.flops_per_s = first_of(line, {"tflops"}, 1e12);
  return step;
}

// "steps: 10 loss: 1.2 iter time (s): 1.234 samples/sec: 415.3", and the timer's
// "epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.4,
// MaxMemAllocated=3.2GB"; older ones "0/10, RunningAvgSamplesPerSec=12.3, ..." (2022), or with one
// rate, "0/10, SamplesPerSec=12.3, ...".
std::optional<LoggedStep> deepspeed_line(std::string_view line) {
  LoggedStep step;
  step.time = seconds(first_of(line, {"iter time (s)"}));
  const bool timer = line.find("SamplesPerSec=") != line.npos;
  if (!step.time && !timer) return std::nullopt;
  step.samples_per_s = first_of(line, {"CurrSamplesPerSec", "SamplesPerSec", "samples/sec"});
  if (!step.time && !step.samples_per_s) return std::nullopt;
  step.iteration = whole(first_of(line, {"steps"})).value_or(0);
  if (timer) {  // behind the last "/" before the rates
    const std::string_view before = line.substr(0, line.find("SamplesPerSec="));
    const std::string_view last = before.substr(before.rfind('/') + 1);
    const std::size_t digits = last.find_first_of("0123456789");
    if (digits != last.npos)
      std::from_chars(last.data() + digits, last.data() + last.size(), step.iteration);
  }
  return step;
}

std::optional<LoggedStep> nemo_line(std::string_view line) {
  LoggedStep step;
  step.time = seconds(first_of(line, {"train_step_timing in s"}));
  if (!step.time) return std::nullopt;
  step.iteration =
      static_cast<std::int64_t>(first_of(line, {"global_step", "iteration"}).value_or(0));
  step.batch = whole(value_of(line, "global_batch_size"));
  return step;
}

std::optional<LoggedStep> nanotron_line(std::string_view line) {
  LoggedStep step;
  step.time =
      seconds(first_of(line, {"elapsed_time_per_iteration_ms", "time_per_iteration_ms"}, 1e-3));
  if (!step.time) return std::nullopt;
  step.iteration = static_cast<std::int64_t>(value_of(line, "iteration").value_or(0));
  step.tokens_per_s = first_of(line, {"tokens_per_sec_per_gpu"});
  step.flops_per_s = first_of(line, {"model_tflops_per_gpu"}, 1e12);
  step.batch = whole(value_of(line, "global_batch_size"));
  return step;
}

struct LogFormat {
  const char* tool;
  std::optional<LoggedStep> (*step)(std::string_view line);
};
// Best first: Megatron-DeepSpeed's jobs print DeepSpeed's timer before Megatron's line.
constexpr std::array<LogFormat, 5> kLogFormats{{{"Megatron-LM", &megatron_line},
                                                {"nanotron", &nanotron_line},
                                                {"NeMo", &nemo_line},
                                                {"torchtitan", &torchtitan_line},
                                                {"DeepSpeed", &deepspeed_line}}};

// "  seq_length ...................................... 2048", GPT-NeoX's with "........updated"
// behind.
void take_argument(std::string_view line, std::map<std::string, std::int64_t>& arguments) {
  const std::size_t dots = line.find(" ..");
  if (dots == line.npos) return;
  const std::string_view before = line.substr(0, dots);
  const std::string_view name = before.substr(before.find_last_of(" :") + 1);
  const auto argument = std::ranges::find_if(kLoggedArguments, [&](const LoggedArgument& a) {
    return name == a.name || (!a.neox.empty() && name == a.neox);
  });
  const std::size_t digits = line.find_first_not_of(" .", dots);
  if (argument == kLoggedArguments.end() || digits == line.npos) return;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(&line[digits], line.data() + line.size(), value);
  if (error == std::errc{}) arguments[std::string(argument->name)] = value;
}

// NVIDIA's DLLogger prints a job's configuration as JSON, by paths:
// DLLL {"type": "LOG", "step": "PARAMETER", "data": {"cfg/global_batch_size": 16, ...}}
void take_parameters(std::string_view line, std::map<std::string, std::int64_t>& arguments) {
  if (line.find("\"PARAMETER\"") == line.npos) return;
  for (const LoggedArgument& argument : kLoggedArguments) {
    for (const std::string_view name : {argument.name, argument.dllogger}) {
      if (name.empty()) continue;
      for (const char before : {'/', '"', '.'}) {
        const std::string key = fmt::format("{}{}\":", before, name);
        const std::size_t at = line.find(key);
        if (at == line.npos) continue;
        const std::size_t digits =
            std::min(line.find_first_not_of(' ', at + key.size()), line.size());
        std::int64_t value = 0;
        const auto [end, error] =
            std::from_chars(line.data() + digits, line.data() + line.size(), value);
        if (error == std::errc{}) arguments[std::string(argument.name)] = value;
      }
    }
  }
}

// The best of the first `count` formats that a line is of; null: of none.
const LogFormat* format_of(std::string_view line, std::size_t count = kLogFormats.size()) {
  const auto formats = std::span(kLogFormats).first(count);
  const auto found = std::ranges::find_if(
      formats, [&](const LogFormat& format) { return format.step(line).has_value(); });
  return found == formats.end() ? nullptr : &*found;
}

// A progress bar ends its lines by a carriage return.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    if (end > at) lines.push_back(without_colours(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

template <class Member>
std::optional<Spread> spread_of(const std::vector<const LoggedStep*>& steps, Member of) {
  std::vector<double> values;
  for (const LoggedStep* step : steps) {
    const std::optional<double> value = of(*step);
    if (value) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return spread(std::move(values));
}

// Tools whose lines do not say how fast a step was, by what they print.
std::string_view silent_tool(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kSilent{
      {{"{'loss':", "Hugging Face's Trainer"},
       {"'train_steps_per_second':", "Hugging Face's Trainer"},
       {"s/it, v_num=", "PyTorch Lightning"},
       {"it/s, v_num=", "PyTorch Lightning"}}};
  for (const auto& [words, tool] : kSilent) {
    if (text.find(words) != text.npos) return tool;
  }
  return "";
}

}  // namespace

JobLog read_job_log(const std::string& text, const std::string& file) {
  JobLog log;
  const LogFormat* format = nullptr;
  for (const std::string& line : lines_of(text)) {
    take_argument(line, log.arguments);
    take_parameters(line, log.arguments);
    take_memory(line, log);
    // The first line of a better format starts anew: the lines so far were another tool's beside
    // it.
    const auto better = format == nullptr ? kLogFormats.size()
                                          : static_cast<std::size_t>(format - kLogFormats.data());
    if (const LogFormat* found = format_of(line, better)) {
      format = found;
      log.steps.clear();
    }
    if (format == nullptr) continue;
    if (auto step = format->step(line)) log.steps.push_back(*step);
  }
  // What says the time itself is the surer: DeepSpeed's timer beside its pipeline's lines.
  const auto timed = [](const LoggedStep& step) { return step.time.has_value(); };
  if (std::ranges::any_of(log.steps, timed))
    std::erase_if(log.steps, [&](const LoggedStep& step) { return !timed(step); });
  if (const std::string_view tool = silent_tool(text); format == nullptr && !tool.empty()) {
    throw InputError(
        file, "",
        fmt::format("is a log of {}, whose lines do not say how long a step took: give "
                    "the time itself",
                    tool));
  }
  if (format == nullptr) {
    throw InputError(file, "",
                     "is no log of a job: expected lines of steps by Megatron-LM, torchtitan, "
                     "DeepSpeed, NeMo or nanotron");
  }
  log.tool = format->tool;
  return log;
}

bool is_job_log(const std::string& text) {
  return std::ranges::any_of(lines_of(text),
                             [](const std::string& line) { return format_of(line) != nullptr; });
}

Spread spread(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {  // between the two nearest
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double part = place - static_cast<double>(below);
    return values[below] + part * (values[above] - values[below]);
  };
  return {at(0.5), at(0.25), at(0.75)};
}

JobLogSummary summary(const JobLog& log) {
  JobLogSummary s{.tool = log.tool, .arguments = log.arguments};
  // Less than tensors had: of an earlier moment, as DeepSpeed says it of its start.
  if (log.reserved && (!log.allocated || *log.reserved >= *log.allocated)) {
    s.memory = LoggedMemory{*log.reserved, MemoryCount::reserved};
  } else if (log.allocated) {
    s.memory = LoggedMemory{*log.allocated, MemoryCount::allocated};
  }
  if (log.steps.empty()) return s;
  s.batch = log.steps.back().batch;
  s.sequence = log.steps.back().sequence;
  std::vector<const LoggedStep*> all, later, warm;
  // Batches may grow during a job: what counts are the lines of the last size.
  for (const LoggedStep& step : log.steps) {
    if (step.batch == s.batch && step.sequence == s.sequence) all.push_back(&step);
  }
  // Each rank may have printed the first step.
  const std::int64_t first = all.front()->iteration;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (first == 0 || all[i]->iteration != first) later.push_back(all[i]);
  }
  for (const LoggedStep* step : later) {
    if (step->iteration > kWarmUpIterations) warm.push_back(step);
  }
  const bool steady = !warm.empty();
  // Early lines are better than a figure of one or two.
  if (warm.size() < kFewestLines) warm = later;
  if (warm.empty()) warm = all;
  const bool numbered =
      std::ranges::any_of(all, [](const auto* step) { return step->iteration > 0; });
  s.warming = numbered && !steady;
  s.lines = static_cast<int>(warm.size());
  s.left_out = static_cast<int>(log.steps.size() - warm.size());
  s.step_time_s = spread_of(warm, [](const LoggedStep& step) {
    return step.time ? std::optional(step.time->count()) : std::nullopt;
  });
  s.tokens_per_s = spread_of(warm, [](const LoggedStep& step) { return step.tokens_per_s; });
  s.samples_per_s = spread_of(warm, [](const LoggedStep& step) { return step.samples_per_s; });
  s.flops_per_s = spread_of(warm, [](const LoggedStep& step) { return step.flops_per_s; });
  return s;
}

}  // namespace weir
