// A line for each thing that people would look for when two processes differ.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/run_identity.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/training/batches.hpp"
#include "exec/weights/weight_files.hpp"
#include "plan/job/plan_json.hpp"
#include "plan/text/sha256.hpp"
#include "tools/app/shared/version.hpp"

namespace weir::app {
namespace {

std::string hash_of_files(const std::vector<std::filesystem::path>& files) {
  std::string hashes;
  for (const std::filesystem::path& file : files)
    hashes += (hashes.empty() ? "" : " ") + sha256_hex(read_data(file));
  return hashes.empty() ? "none" : hashes;
}

// The plan but for its seed, which has a line of its own, and for where its model lies.
std::string hash_of_plan(const Plan& plan) {
  nlohmann::ordered_json json = plan_json(plan);
  json.erase("seed");
  json.erase("model");
  return sha256_hex(json.dump() + plan.model_sha256);
}

}  // namespace

WhatIsRun what_is_run(const ResolvedPlan& loaded, const RunOptions& options) {
  const auto given = [](bool is) { return std::string(is ? "given" : "not given"); };
  std::vector<std::filesystem::path> evaluated;
  if (options.evaluate) evaluated.push_back(*options.evaluate);
  // Without an output nothing is kept, whatever the interval says.
  const bool keeps = options.output && options.checkpoint_every > 0;
  return {
      {"plan", hash_of_plan(loaded.plan)},
      {"seed", std::to_string(loaded.plan.seed)},
      {"steps", std::to_string(options.warmup_steps + options.steps)},
      {"warm-up steps", std::to_string(options.warmup_steps)},
      {"backend", to_string(options.backend)},
      {"steps between checkpoints", std::to_string(keeps ? options.checkpoint_every : 0)},
      {"data", hash_of_files(options.data)},
      {"weights to begin with", options.init ? WeightFiles(*options.init).sha256() : "by the seed"},
      {"a checkpoint to go on from", given(options.resume.has_value())},
      {"data to evaluate", hash_of_files(evaluated)},
      {"a file for the weights", given(options.save.has_value())},
      {"a file for gradients and logits", given(options.dump.has_value())},
      {"fastest products", given(options.fastest)},
      {"build", version_line()}};
}

}  // namespace weir::app
