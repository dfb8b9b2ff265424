// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/schedule_proof.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>
#include <vector>

#include "costmodel/table/given_times.hpp"
#include "plan/program/blocking.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/program/lower.hpp"
#include "plan/words/error.hpp"
#include "sim/bounds.hpp"
#include "sim/engine/event_engine.hpp"
#include "tools/weir/options.hpp"

namespace weir {
namespace {

struct Grid {
  std::vector<int> ranks, microbatches;
};

// The commas inside a list and those between K and M look alike: a part without a letter belongs to
// the letter before.
Grid parse_grid(const std::string& text) {
  std::string k, m;
  std::string* now = nullptr;
  for (std::string part : parse_words(text)) {
    if (part.starts_with("K=") || part.starts_with("M=")) {
      now = part[0] == 'K' ? &k : &m;
      part = part.substr(2);
    }
    if (now == nullptr)
      throw UsageError(fmt::format("--grid {}: expected K=..,M=.., as K=2..16,M=1..64", text));
    *now += (now->empty() ? "" : ",") + part;
  }
  if (k.empty() || m.empty())
    throw UsageError(fmt::format("--grid {}: expected both K= and M=", text));
  return {parse_numbers(k, "--grid K="), parse_numbers(m, "--grid M=")};
}

constexpr std::array kModes{TransferMode::buffered, TransferMode::rendezvous,
                            TransferMode::batched};

Program program_for(const Schedule& schedule, TransferMode mode, int slots) {
  LoweringOptions options;
  options.optimizer = false;
  options.slots = mode == TransferMode::buffered ? slots : 0;
  return block_transfers(lower(schedule, options), mode);
}

struct Verdict {
  int ranks = 0, microbatches = 0;
  std::string refused;  // why the schedule does not exist here; empty: it does
  std::array<bool, 3> safe{};
  int fewest_slots = 0, peak = 0;
  double gap = 0;
};

Verdict judge(const Schedule& schedule, int slots) {
  Verdict v;
  for (std::size_t i = 0; i < kModes.size(); ++i)
    v.safe[i] = !find_cycle(program_for(schedule, kModes[i], slots));
  v.fewest_slots = fewest_slots(schedule, 1);
  const auto peaks = peak_in_flight(schedule);
  v.peak = *std::max_element(peaks.begin(), peaks.end());
  const Program program = program_for(schedule, TransferMode::buffered, 0);
  const OperationCosts costs = expand(program, uniform_table(schedule.shape, {}));
  const auto timing = std::get<Timing>(simulate(program, costs));
  v.gap = static_cast<double>(timing.makespan.count()) /
              static_cast<double>(step_lower_bound(program, costs).count()) -
          1;
  return v;
}

nlohmann::ordered_json verdict_json(const Verdict& v) {
  nlohmann::ordered_json json{{"pp", v.ranks}, {"microbatches", v.microbatches}};
  if (!v.refused.empty()) {
    json["refused"] = v.refused;
    return json;
  }
  for (std::size_t i = 0; i < kModes.size(); ++i)
    json[std::string(to_string(kModes[i]))] = v.safe[i];
  json["fewest_slots"] = v.fewest_slots;
  json["peak_in_flight"] = v.peak;
  json["gap"] = v.gap;
  return json;
}

struct CounterExample {
  TransferMode mode;
  int ranks, microbatches;
  std::string cycle;
};

void print(const std::vector<Verdict>& verdicts, const std::vector<CounterExample>& examples,
           int slots) {
  fmt::print("{:>4} {:>5} {:>12} {:>11} {:>9} {:>13} {:>9} {:>12}\n", "K", "M",
             fmt::format("{} slots", slots), "rendezvous", "batched", "fewest slots", "in flight",
             "over bound");
  int proved = 0;
  for (const Verdict& v : verdicts) {
    if (!v.refused.empty()) {
      fmt::print("{:>4} {:>5} refused: {}\n", v.ranks, v.microbatches, v.refused);
      continue;
    }
    ++proved;
    const auto word = [](bool safe) { return safe ? "free" : "DEADLOCK"; };
    fmt::print("{:>4} {:>5} {:>12} {:>11} {:>9} {:>13} {:>9} {:>11.2f}%\n", v.ranks, v.microbatches,
               word(v.safe[0]), word(v.safe[1]), word(v.safe[2]), v.fewest_slots, v.peak,
               v.gap * 100);
  }
  for (const CounterExample& e : examples) {
    fmt::print("\n{} deadlocks first at K = {}, M = {}:\n{}\n", to_string(e.mode), e.ranks,
               e.microbatches, e.cycle);
  }
  fmt::print(
      "\nproved for the {} (K, M) listed as free, and for no others; over bound at F = I = W, no "
      "communication\n",
      proved);
}

}  // namespace

void prove_grid(const ScheduleSource& source, const std::string& grid_text, int slots,
                const GlobalOptions& global) {
  const Grid grid = parse_grid(grid_text);
  std::vector<Verdict> verdicts;
  std::vector<CounterExample> examples;
  for (const int k : grid.ranks) {
    for (const int m : grid.microbatches) {
      ScheduleSource here = source;
      here.ranks = k;
      here.microbatches = m;
      Verdict verdict;
      try {
        const Schedule schedule = obtain_schedule(here);
        verdict = judge(schedule, slots);
        for (std::size_t i = 0; i < kModes.size(); ++i) {
          const bool known =
              std::any_of(examples.begin(), examples.end(),
                          [&](const CounterExample& e) { return e.mode == kModes[i]; });
          if (verdict.safe[i] || known) continue;
          const Program program = program_for(schedule, kModes[i], slots);
          examples.push_back({kModes[i], k, m, describe_cycle(program, *shortest_cycle(program))});
        }
      } catch (const UsageError& why) {
        verdict.refused = why.what();
      }
      verdict.ranks = k;
      verdict.microbatches = m;
      verdicts.push_back(std::move(verdict));
    }
  }
  if (!global.json) {
    print(verdicts, examples, slots);
    return;
  }
  nlohmann::ordered_json json{
      {"schema", "weir.proof/1"}, {"schedule", source.name}, {"slots", slots}};
  json["cases"] = nlohmann::ordered_json::array();
  for (const Verdict& v : verdicts) json["cases"].push_back(verdict_json(v));
  json["counter_examples"] = nlohmann::ordered_json::array();
  for (const CounterExample& e : examples) {
    json["counter_examples"].push_back({{"transfers", to_string(e.mode)},
                                        {"pp", e.ranks},
                                        {"microbatches", e.microbatches},
                                        {"cycle", e.cycle}});
  }
  fmt::print("{}\n", json.dump(2));
}

}  // namespace weir
