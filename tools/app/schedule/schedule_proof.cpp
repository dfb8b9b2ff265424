// Each (K, M) of a grid lowered and searched for cycles.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/schedule/schedule_proof.hpp"

#include <fmt/format.h>

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
#include "tools/app/schedule/timed_schedule.hpp"
#include "tools/app/shared/memory_need.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir::app {
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

Program program_for(const Schedule& schedule, TransferMode mode, int slots) {
  LoweringOptions options;
  options.optimizer = false;
  options.slots = mode == TransferMode::buffered ? slots : 0;
  return block_transfers(lower(schedule, options), mode);
}

Verdict judge(const Schedule& schedule, int slots) {
  Verdict v;
  // Lowered anew for each transport: what blocks differs.
  for (std::size_t i = 0; i < kProvedModes.size(); ++i) {
    if (cannot_block(schedule, kProvedModes[i])) continue;
    v.safe[i] = !find_cycle(program_for(schedule, kProvedModes[i], slots));
  }
  v.fewest_slots = fewest_slots(schedule, 1);
  const auto peaks = peak_in_flight(schedule);
  v.peak = *std::max_element(peaks.begin(), peaks.end());
  v.in_flight = most_in_flight(schedule.shape, v.peak);
  // With unlimited slots, as the bound assumes them.
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
  for (std::size_t i = 0; i < kProvedModes.size(); ++i) {
    if (v.safe[i]) json[std::string(to_string(kProvedModes[i]))] = *v.safe[i];
  }
  json["fewest_slots"] = v.fewest_slots;
  json["peak_in_flight"] = v.peak;
  json["gap"] = v.gap;
  return json;
}

// The verdict on one (K, M), and its counter-examples where there was none for their transport.
void prove(GridProof& proof, const GridRequest& r, int ranks, int microbatches) {
  ScheduleSource here = r.shape;
  here.ranks = ranks;
  here.microbatches = microbatches;
  Verdict verdict;
  try {
    const Schedule schedule = obtain_schedule(r.choice, here);
    verdict = judge(schedule, r.slots);
    for (std::size_t i = 0; i < kProvedModes.size(); ++i) {
      const bool known = std::ranges::any_of(
          proof.examples, [&](const CounterExample& e) { return e.mode == kProvedModes[i]; });
      // One example a transport is enough.
      if (verdict.safe[i].value_or(true) || known) continue;
      const Program program = program_for(schedule, kProvedModes[i], r.slots);
      proof.examples.push_back({kProvedModes[i], ranks, microbatches, describe_deadlock(program)});
    }
  } catch (const UsageError& why) {
    // A shape that the schedule does not have is a case too.
    verdict.refused = why.what();
  }
  verdict.ranks = ranks;
  verdict.microbatches = microbatches;
  proof.verdicts.push_back(std::move(verdict));
}

GridProof stopped(GridProof proof, const Session& session) {
  if (proof.verdicts.empty()) throw RunFailed("stopped before the first (K, M) was proved");
  session.fault()(
      fmt::format("stopped: the first {} (K, M) of {}", proof.verdicts.size(), proof.asked));
  return proof;
}

}  // namespace

GridProof prove_grid(const GridRequest& r, const Session& session) {
  const Grid grid = parse_grid(r.grid);
  say_need_of_schedule(std::ranges::max(grid.ranks), std::ranges::max(grid.microbatches), session);
  GridProof proof{.schedule = name_of(r.choice),
                  .slots = r.slots,
                  .asked = grid.ranks.size() * grid.microbatches.size()};
  for (const int k : grid.ranks) {
    for (const int m : grid.microbatches) {
      // Between cases, so that each verdict is whole.
      proof.stopped_by = r.stopping ? r.stopping() : 0;
      if (proof.stopped_by != 0) return stopped(std::move(proof), session);
      prove(proof, r, k, m);
    }
  }
  return proof;
}

nlohmann::ordered_json to_json(const GridProof& proof) {
  nlohmann::ordered_json json{
      {"schema", "weir.proof/1"}, {"schedule", proof.schedule}, {"slots", proof.slots}};
  // Stopped by the user: the verdicts so far stand.
  if (proof.verdicts.size() < proof.asked) {
    json["asked"] = proof.asked;
    json["stopped_after"] = proof.verdicts.size();
  }
  json["cases"] = nlohmann::ordered_json::array();
  for (const Verdict& v : proof.verdicts) json["cases"].push_back(verdict_json(v));
  json["counter_examples"] = nlohmann::ordered_json::array();
  for (const CounterExample& e : proof.examples) {
    json["counter_examples"].push_back({{"transfers", to_string(e.mode)},
                                        {"pp", e.ranks},
                                        {"microbatches", e.microbatches},
                                        {"cycle", e.cycle}});
  }
  return json;
}

}  // namespace weir::app
