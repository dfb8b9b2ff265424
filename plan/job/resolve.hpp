// A plan resolved: the plan with its model and schedule, and all that follows from them, derived
// once at the border. Simulator, cost model, executor and tools read it here and derive nothing
// again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/job/plan.hpp"
#include "plan/job/stack.hpp"
#include "plan/job/stage_part.hpp"
#include "plan/model/model.hpp"
#include "plan/model/model_part.hpp"
#include "plan/program/lower.hpp"
#include "plan/program/program.hpp"
#include "plan/schedule/schedule.hpp"

namespace weir {

// A weight that several stages of one replica hold, each with its gradient of it.
struct Tie {
  std::int64_t parameters = 0;  // numbers of one device
  std::vector<Stage> holders;   // ascending
  bool operator==(const Tie&) const = default;
};

// A change to what others follow from (all of a plan but its paths, seed, note, and optimizer where
// it clips as before) needs resolving again.
struct ResolvedPlan {
  Plan plan;
  Model model;
  Schedule schedule;
  // Immutable, and shared by all plans of one model, sequence length, number format, attention and
  // split, but for those whose skips go directly: a search makes it once for thousands of
  // candidates that differ in stages and schedule.
  std::shared_ptr<const ModelPart> part;
  std::vector<StagePart> stages;  // by global stage; those of replicas are copies
  // Where skips go directly, the model's layers as its stages compute them, which `part` is of;
  // else empty: as they are.
  std::vector<Layer> staged;
  std::vector<Tie> ties;
  LoweringOptions lowering;  // by which `program` was made
  Program program;
  std::vector<std::string> remarks;  // PlanFile's

  [[nodiscard]] const StagePart& stage(Stage stage) const {
    return stages[static_cast<std::size_t>(stage.value)];
  }
  [[nodiscard]] const std::vector<Layer>& layers() const {
    return staged.empty() ? model.layers : staged;
  }
};

// Reads the plan, its model (refused if its hash has changed) and its schedule, and validates all
// of it against each other; the program that `lower` makes of it is proved free of deadlock. Throws
// InputError. `before_schedule` sees the plan when its schedule, which may take gigabytes, has not
// yet been made.
[[nodiscard]] ResolvedPlan load_plan(const std::filesystem::path& file,
                                     const std::function<void(const Plan&)>& before_schedule = {});
// The same for a plan that is not a file: `base` is the folder its relative paths start from.
[[nodiscard]] ResolvedPlan resolve(const Plan& plan, const std::filesystem::path& base);
// The same with a schedule that is not a file; it takes the place of the one `plan` names.
[[nodiscard]] ResolvedPlan resolve(const Plan& plan, const std::filesystem::path& base,
                                   Schedule schedule);

// What follows from a plan whose model and schedule are at hand. Precondition: they are valid
// together, as resolve() would find them. `part`: the model's, where another plan has it already.
[[nodiscard]] ResolvedPlan derive(Plan plan, Model model, Schedule schedule,
                                  std::shared_ptr<const ModelPart> part = nullptr);
// The same plan, its stages beginning elsewhere.
[[nodiscard]] ResolvedPlan with_boundaries(ResolvedPlan resolved, std::vector<int> boundaries);

// Throws InputError where the sequences are longer than what the model accepts.
void require_positions(const Plan& plan, const Model& model, const std::string& file);
// Throws InputError where a stage has no layer and the stack cannot leave one empty.
void require_stages(const ResolvedPlan& resolved, const Stack& stack);

// A stage of these layers.
[[nodiscard]] StagePart stage_part(const ModelPart& part, LayerRange layers);
// The stages of a schedule of this shape that begin at `boundaries`.
[[nodiscard]] std::vector<StagePart> stage_parts(const ModelPart& part,
                                                 const std::vector<int>& boundaries,
                                                 const ScheduleShape& shape);
// The weights that they share.
[[nodiscard]] std::vector<Tie> ties_of(const ModelPart& part, const std::vector<StagePart>& stages,
                                       const ScheduleShape& shape);

}  // namespace weir
