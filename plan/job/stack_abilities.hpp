// What a stack's software runs of what a plan may choose: key "abilities" of weir.stack/1. A search
// keeps to it, and what lies outside is named.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/job/plan.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

// An empty list: all. A default one is of software that has all, as Weir's executor.
struct StackAbilities {
  bool pipeline = true;       // more than one rank
  bool tied_pipeline = true;  // pipelines of models whose head multiplies by the embedding's table
  std::vector<std::string> schedules{};      // of pipelines
  std::vector<int> zero{};                   // ZeRO stages of pipelines
  std::vector<int> zero_without_pipeline{};  // and where K = 1
  std::vector<RecomputeMode> recompute{};
  std::vector<RankOrder> rank_orders{};
  bool overlap_grad_reduce = true;
  bool cuda_graphs = true;
  bool context_parallel = true;
  bool dynamic_cp = true;  // context parallelism that follows sequences' lengths
  bool offload_optimizer = true, offload_activations = true;  // to the host, as plans have it
  bool whole_rounds = false;                                  // with v > 1, M is a multiple of K
  bool operator==(const StackAbilities&) const = default;
};

// Throws InputError.
[[nodiscard]] StackAbilities read_abilities(JsonObject object);
// Of a stack's file; one that lists none has all. Precondition: parse_stack() took it.
[[nodiscard]] StackAbilities parse_abilities(const std::string& text, const std::string& file);

// Of plans of this model alone: without a pipeline where its head is tied and the software has none
// of such models.
[[nodiscard]] StackAbilities abilities_for(StackAbilities all, const Model& model);

// What of a plan the software has not, as "schedule zb-v"; nullopt: it has all. Boundaries and
// sizes are not looked at.
[[nodiscard]] std::optional<std::string> beyond(const StackAbilities& abilities, const Plan& plan);
// Of it, what the schedule's name and v decide; and the rest.
[[nodiscard]] std::optional<std::string> order_beyond(const StackAbilities& abilities,
                                                      const Plan& plan);
[[nodiscard]] std::optional<std::string> degrees_beyond(const StackAbilities& abilities,
                                                        const Plan& plan);

}  // namespace weir
