// A layout inside each stage of a plan: where it is Megatron's cut, it is the plan's tp, sequence
// parallelism, dp and ep, and with shards of weights ZeRO's third stage.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plan/model/model.hpp"
#include "sim/search/space/stage_layout.hpp"
#include "tools/app/shared/parallel_fields.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/session.hpp"

namespace weir::app {

struct LayoutChoice {
  std::filesystem::path file;
  std::string name;  // of its layouts; empty: the first
};

// The layouts of a file whose network is the model's, as far as they are Megatron's cut; of two
// with the same cut the first.
struct FileLayouts {
  std::int64_t seq_length = 0;
  std::vector<StageLayout> layouts;
  std::vector<std::string> left_out;  // why the others are none, a line each
};
// Throws InputError where the file has no network, or another model's.
[[nodiscard]] FileLayouts file_layouts(const std::filesystem::path& file, const Model& model,
                                       const PlanOptions& options);

// All layouts of these degrees that are Megatron's cut of the model, for plans of the base's number
// format, attention and tokens; ZeRO's shards too where `zero` has the third stage, and where the
// model's layers have words for them, or `no_shards` says why they have none. Throws InputError
// where a layer has no words in a network without shards.
struct StageDegrees {
  std::vector<int> tp, dp, ep, zero;
};
struct AllLayouts {
  std::vector<StageLayout> layouts;
  std::string no_shards;  // empty: those that were asked for are there
  std::string left_out;   // why the last degrees without a layout have none; empty: all have one
};
[[nodiscard]] AllLayouts all_layouts(const Model& model, const Plan& base,
                                     const StageDegrees& degrees);

// The layout that each stage of a plan has, in words: "batch:d, heads:m" on "d=2,m=4". Throws as
// all_layouts().
struct LayoutInWords {
  std::string mesh, rules;
};
[[nodiscard]] LayoutInWords layout_in_words(const Model& model, const Plan& plan);

// Sets the degrees, the tokens of a sample and the samples of a micro-batch from the layout that is
// chosen. Throws InputError where the file has another model's network, or its layout is not
// Megatron's cut, by the rule that is not; UsageError where an option says otherwise.
void take_layout(const LayoutChoice& choice, const Model& model, const Session& session,
                 PlanOptions& options, ParallelOptions& degrees, int& micro_batch_size);

}  // namespace weir::app
