// `plan`: a plan by hand, from another tool's job, or one that a sweep listed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/app/jobs/import.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/parallel_fields.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir::app {

struct PlanRequest {
  PlanOptions common;
  ParallelOptions parallel;
  int pp = 1, vpp = 1, microbatches = 1, micro_batch_size = 1;
  std::optional<int> slices;  // of a sequence; the schedule's own default
  std::optional<int> global_batch_size;
  int dynamic_cp = 0;  // tokens of a sequence that a device has at most; 0: cp is all sequences'
  ScheduleChoice schedule = "1f1b";
  bool allow_reordered = false;
  std::string recompute = "none", recompute_microbatches, memory_limit;
  std::vector<int> boundaries;  // none: by `partition`
  std::string skips = "relay";
  std::string partition = "optimal";
  std::optional<std::filesystem::path> cluster;
  StackChoice stack;
  CostsSource costs;
  std::optional<std::filesystem::path> layout;  // of each stage: a file of the model's network
  std::string layout_name;                      // of the file's; empty: the first
  std::optional<std::filesystem::path> output;
  ImportRequest import;            // `from` may be a sweep's file too, or torch
  std::string python = "python3";  // of --from torch, as the next two
  std::vector<int> batch_sizes;    // to measure; none: 1, 2, 4 and the plan's own
  int crossing = 1;                // tensors that may cross where a stage ends
  std::optional<int> place;        // of its list, from 1
  std::uint64_t seed = 1;
};
[[nodiscard]] Fields fields(PlanRequest& request);

struct PlanResult {
  PlacedPlan plan;
  bool written = false;
  std::string stack;  // the stages were balanced for, or whose job it was; empty: neither
  std::vector<std::string> choices;  // how good what was left to us is, a line each, for people
  std::optional<Imported> imported;
};

[[nodiscard]] PlanResult plan(const PlanRequest& request, const Session& session);
// weir.plan/1, or weir.import/1
[[nodiscard]] nlohmann::ordered_json to_json(const PlanResult& result);
[[nodiscard]] std::string json_text(const PlanResult& result);  // of an import

inline constexpr UseCase<PlanRequest, PlanResult> kPlan{
    "plan", "Write a plan by hand, from a job or from a sweep", &plan};

}  // namespace weir::app
