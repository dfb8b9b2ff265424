// Stages as torchtitan/distributed/pipeline_parallel.py makes them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torchtitan/stages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/jobs/job/job.hpp"
#include "tools/jobs/torchtitan/words.hpp"

namespace weir {
namespace {

// Blocks of each stage as generate_llm_fqn_per_model_part deals them: the embedding and the head
// weigh as much as some blocks, and the first stages take one more where the sum does not divide.
std::vector<int> dealt_blocks(TomlTable& t, std::int64_t blocks, std::int64_t stages) {
  const std::int64_t input =
      t.integer_or("parallelism.pipeline_parallel_first_stage_less_layers", 1, 0, 1000);
  const std::int64_t output =
      t.integer_or("parallelism.pipeline_parallel_last_stage_less_layers", 1, 0, 1000);
  if (stages == 1) return {static_cast<int>(blocks)};
  const std::int64_t weights = blocks + input + output;
  std::vector<int> all;
  for (std::int64_t s = 0; s < stages; ++s) {
    // Equal weights; the embedding and the head then take theirs out of the two ends.
    std::int64_t mine = weights / stages + (s < weights % stages ? 1 : 0);
    if (s == 0) mine -= input;
    if (s == stages - 1) mine -= output;
    if (mine < 0)
      t.fail("parallelism.pipeline_parallel_degree",
             fmt::format("{} stages for {} blocks", stages, blocks));
    all.push_back(static_cast<int>(mine));
  }
  return all;
}

// The index of the layer that a module's name means, -1 for an unknown one.
int layer_index(const std::string& name, std::int64_t blocks) {
  if (name == "tok_embeddings") return 0;
  if (name == "norm") return static_cast<int>(blocks) + 1;
  if (name == "output" || name == "lm_head") return static_cast<int>(blocks) + 2;
  const std::string digits = name.starts_with("layers.") ? name.substr(7) : "";
  if (digits.empty() || digits.size() > 6 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return -1;
  const int block = std::stoi(digits);
  return block < blocks ? block + 1 : -1;
}

std::vector<int> boundaries_of_modules(TomlTable& t,
                                       const std::vector<std::vector<std::string>>& parts,
                                       std::int64_t blocks) {
  const std::string_view key = "parallelism.module_fqns_per_model_part";
  std::vector<int> boundaries;
  int expected = 0;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    if (parts[s].empty()) t.fail(key, fmt::format("stage {} is empty", s));
    if (s > 0) boundaries.push_back(expected);
    for (const std::string& name : parts[s]) {
      if (layer_index(name, blocks) != expected++) {
        t.fail(key, fmt::format("stage {}: \"{}\" is out of order or no module of this model", s,
                                name.substr(0, 40)));
      }
    }
  }
  if (expected != blocks + 3)
    t.fail(key, fmt::format("holds {} modules of {}", expected, blocks + 3));
  return boundaries;
}

void set_stages(TomlTable& t, Plan& plan, std::int64_t blocks, bool single,
                std::string_view schedule) {
  const auto modules = t.lists("parallelism.module_fqns_per_model_part");
  const auto points = t.list("parallelism.pipeline_parallel_split_points");
  const auto per_stage = t.integer("parallelism.pipeline_parallel_layers_per_stage", 1, blocks);
  const std::int64_t less =
      t.integer_or("parallelism.pipeline_parallel_first_stage_less_layers", 1, 0, 1000) +
      t.integer_or("parallelism.pipeline_parallel_last_stage_less_layers", 1, 0, 1000);
  // Of the ways to give stages the first that is there counts, as in torchtitan: modules, split
  // points, layers a stage. Without any, schedules of several stages a rank have two.
  std::int64_t stages = plan.pp * (single || plan.pp == 1 ? 1 : 2);
  if (!modules.empty()) {
    stages = static_cast<std::int64_t>(modules.size());
    plan.boundaries = boundaries_of_modules(t, modules, blocks);
  } else if (!points.empty()) {
    stages = static_cast<std::int64_t>(points.size()) + 1;
    for (const std::string& point : points) plan.boundaries.push_back(layer_index(point, blocks));
  } else {
    if (per_stage && plan.pp > 1) stages = (blocks + less + *per_stage - 1) / *per_stage;
    plan.boundaries = boundaries_of_blocks(dealt_blocks(t, blocks, stages));
    // Its stages are cut out of the model by names, and none may be left without one.
    if (std::ranges::adjacent_find(plan.boundaries) != plan.boundaries.end())
      t.fail("parallelism.pipeline_parallel_degree",
             fmt::format("{} stages leave some empty", stages));
  }
  if (stages % plan.pp != 0) {
    t.fail("parallelism.pipeline_parallel_degree",
           fmt::format("{} does not divide {} stages", plan.pp, stages));
  }
  plan.vpp = static_cast<int>(stages / plan.pp);
  if (single && plan.vpp != 1) {
    t.fail("parallelism.pipeline_parallel_schedule",
           fmt::format("{} has one stage a rank, not {}", schedule, plan.vpp));
  }
}

// PyTorch takes the names of its classes in any case.
bool schedule_is_single(std::string_view name) {
  return std::ranges::equal(name, std::string_view("pipelineschedulesingle"), {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : int{c}; });
}

}  // namespace

void set_torchtitan_pipeline(TomlTable& t, Plan& plan, std::int64_t blocks) {
  const std::string name = t.text_or("parallelism.pipeline_parallel_schedule", "1F1B");
  const std::string csv = t.text_or("parallelism.pipeline_parallel_schedule_csv", "");
  const std::string_view known = schedule_from_torch(name);
  bool single = known == "1f1b" || known == "gpipe" || schedule_is_single(name);
  if (!csv.empty()) {
    plan.schedule = csv;
  } else if (!known.empty()) {
    plan.schedule = known;
  } else {
    t.fail("parallelism.pipeline_parallel_schedule",
           fmt::format("{}: unknown schedule", name.substr(0, 40)));
  }
  if (plan.pp == 1) single = true;
  set_stages(t, plan, blocks, single, name);
  if (plan.pp == 1 && plan.vpp == 1 && csv.empty()) plan.schedule = "1f1b";
}

}  // namespace weir
