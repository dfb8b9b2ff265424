// Starts Python, and reads what its ranks saw.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/torch_runs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/program_output.hpp"
#include "tools/jobs/job/export.hpp"

namespace weir::app {
namespace {

// What our Python modules, and a shell that cannot start them, end with.
enum class Ending { ok = 0, bad_input = 3, missing = 5, no_program = 126, not_found = 127 };

constexpr int kWarmUpSteps = 2;

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// `python -m weir.MODULE ARGUMENTS`, which ends by itself when it takes longer than it may; its own
// lines are on standard error.
void run_module(const TorchPython& python, const std::string& module,
                const std::string& arguments) {
  const std::string start = quoted(python.interpreter) + " -m weir." + module + " ";
  // Its own output goes to stderr, so that stdout has the status alone.
  const std::string status = output_of(fmt::format("{}{} 1>&2; echo $?", start, arguments),
                                       {.time = std::chrono::hours(24 * 7)});
  const int code = std::stoi(status);  // what our own echo wrote
  const std::string line =
      fmt::format("{} -m weir.{}: ended with status {}", python.interpreter, module, code);
  switch (static_cast<Ending>(code)) {
    case Ending::ok:
      return;
    case Ending::missing:
    case Ending::no_program:
    case Ending::not_found:
      throw MissingComponent(line);
    case Ending::bad_input:
      throw InputError(python.interpreter, "weir." + module, fmt::format("status {}", code));
  }
  throw RunFailed(line);
}

// One step of one rank: start and end by action ("0F3"; a stage alone is its update).
struct Seen {
  std::map<std::string, std::pair<Nanoseconds, Nanoseconds>> spans;
  Nanoseconds start{0}, end{0};
};

std::vector<std::vector<Seen>> steps_of(const Json& ranks, int steps) {
  std::vector<std::vector<Seen>> seen(static_cast<std::size_t>(steps));
  for (auto& step : seen) step.resize(ranks.size());
  // A rank's file has all of its steps; here they are turned into steps of all ranks.
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const auto& span : ranks[rank].at("spans")) {
      const auto step = span.at(0).get<std::size_t>();
      seen.at(step)[rank].spans[span.at(1).get<std::string>()] = {
          Nanoseconds(span.at(2).get<std::int64_t>()), Nanoseconds(span.at(3).get<std::int64_t>())};
    }
    for (std::size_t step = 0; step < seen.size(); ++step) {
      const auto& window = ranks[rank].at("windows").at(step);
      seen[step][rank].start = Nanoseconds(window.at(0).get<std::int64_t>());
      seen[step][rank].end = Nanoseconds(window.at(1).get<std::int64_t>());
    }
  }
  return seen;
}

// The words of run_torch.py for an action.
std::string word_of(const Action& action) {
  if (action.kind == ActionKind::OPTIMIZER) return fmt::format("{}", action.stage.value);
  return fmt::format("{}{}{}", action.stage.value, to_string(action.kind), action.microbatch.value);
}

// The forecast's step with measured times in it.
void add_step(const Trial& trial, const std::vector<Seen>& ranks, Trace& trace) {
  const Program& program = trial.plan.program;
  const auto step = static_cast<std::int32_t>(trace.steps.size());
  StepWindow window{ranks.front().start, ranks.front().end};
  for (const Seen& seen : ranks) {
    window.start = std::min(window.start, seen.start);
    window.end = std::max(window.end, seen.end);
  }
  // What comes before the first action (splitting the batch) is put behind the last: costs have one
  // such time for a step.
  Nanoseconds first = Nanoseconds::max();
  for (const Seen& seen : ranks) {
    for (const auto& [word, span] : seen.spans) first = std::min(first, span.first);
  }
  const Nanoseconds lead = first - window.start;
  const auto predicted = trial.first.trace.of_step(0);
  // Messages and what else a profile has not stay the forecast's, and are moved below.
  std::vector<Span> spans(predicted.begin(), predicted.end());
  for (Span& span : spans) {
    span.step = step;
    if (span.lane != LaneKind::compute) continue;
    const Seen& seen = ranks[static_cast<std::size_t>(span.rank.value)];
    const auto found = seen.spans.find(word_of(span.action));
    if (found == seen.spans.end())
      throw InputError("weir.run_torch", word_of(span.action), "the run has no such action");
    span.start = found->second.first - lead;
    span.end = found->second.second - lead;
  }
  // A message starts where its value is made, and has arrived before it is used.
  const auto at = [&](OperationId id) -> Span& { return spans[id.position()]; };
  for (const OperationId id : program.ids()) {
    if (program.lane_of(id).kind != LaneKind::receive) continue;
    const OperationId send = program.peer(id), made = program.producer(send);
    // How long a message flies is the forecast's: PyTorch's run does not tell.
    const Nanoseconds flight = predicted[id].end - predicted[made].end;
    const Nanoseconds ready = at(made).end;
    const OperationId consumer = program.consumer(id);
    Nanoseconds arrival = ready + flight;
    if (consumer != kNoOperation) arrival = std::max(ready, std::min(arrival, at(consumer).start));
    at(send).start = at(send).end = ready;
    at(id).start = at(id).end = arrival;
  }
  trace.steps.push_back(window);
  trace.spans.insert(trace.spans.end(), spans.begin(), spans.end());
}

// One run, all of its measured steps.
RunResult read_run(const std::filesystem::path& file, int steps, const Trial& trial) {
  const Json ranks = parse_json(read_text_file(file), file.string());
  RunResult result;
  result.trace = {.origin = TraceOrigin::measured, .ranks = trial.first.trace.ranks};
  try {
    for (const auto& step : steps_of(ranks, steps)) add_step(trial, step, result.trace);
    for (const auto& rank : ranks) {
      if (const auto& peak = rank.at("peak_bytes"); !peak.is_null())
        result.peak_memory.emplace_back(peak.get<std::int64_t>());
    }
  } catch (const Json::exception& error) {
    throw InputError(file.string(), "", fmt::format("is no run of this plan: {}", error.what()));
  }
  for (const StepWindow& window : result.trace.steps)
    result.steps.push_back({.time = to_seconds(window.end - window.start)});
  return result;
}

void write_export(const ResolvedPlan& plan, const std::filesystem::path& folder) {
  const std::string config = read_text_file(plan.plan.model_path);
  for (const ExportedFile& file : export_torch(plan, {.model_config = config}).files)
    write_file_atomically(folder / file.name, file.text);
}

}  // namespace

Costs profile_by_torch(const TorchPython& python, const Plan& plan,
                       const std::vector<int>& micro_batch_sizes, int ranks) {
  const std::filesystem::path file = python.folder / "profile.json";
  run_module(python, "profile_torch",
             fmt::format("{} --seq-length {} --dtype {} --attention {} -b {} -K {} -o {}",
                         quoted(plan.model_path), plan.seq_length, to_string(plan.dtype),
                         plan.attention == AttentionKind::fused ? "fused" : "unfused",
                         fmt::join(micro_batch_sizes, ","), ranks, quoted(file.string())));
  return load_costs(file);
}

void run_trials_by_torch(const TorchPython& python, std::vector<Trial>& trials,
                         const TrialOptions& options) {
  const auto file_of = [&](const std::string& name) { return python.folder / (name + ".json"); };
  Json plans = Json::array(), missing = Json::array();
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const std::filesystem::path folder = python.folder / fmt::format("{}-{}", options.title, i + 1);
    write_export(trials[i].plan, folder);
    plans.push_back({{"folder", std::filesystem::absolute(folder).string()},
                     {"ranks", trials[i].plan.plan.pp}});
  }
  const std::vector<TrialRun> runs = runs_in_order(trials.size(), options);
  // A job that is not ended after so long hangs: starting takes some seconds, and a step that takes
  // twenty times its forecast is no measurement any more.
  Seconds limit(600);
  for (const auto& [index, name] : runs) {
    const std::filesystem::path file = file_of(name);
    // Kept from a run that was cut short.
    if (std::filesystem::exists(file)) continue;
    missing.push_back({{"plan", index}, {"file", std::filesystem::absolute(file).string()}});
    limit += Seconds(60) +
             20.0 * (kWarmUpSteps + options.steps) * trials[index].first.forecast.step_time;
  }
  if (!missing.empty()) {
    const Json job{{"plans", plans},
                   {"runs", missing},
                   {"steps", options.steps},
                   {"warm_up", kWarmUpSteps},
                   {"limit_s", limit.count()}};
    const std::filesystem::path file = file_of(options.title + "-job");
    write_file_atomically(file, job.dump() + "\n");
    run_module(python, "run_torch", quoted(file.string()));
  }
  for (const auto& [index, name] : runs)
    add_run(read_run(file_of(name), options.steps, trials[index]), trials[index]);
  const int of = static_cast<int>(runs.size());
  if (options.progress) options.progress(of, of);
}

}  // namespace weir::app
