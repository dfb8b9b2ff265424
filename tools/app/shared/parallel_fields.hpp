// Fields for parallel degrees, which several use cases share: tp, cp, dp and what goes with them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/model.hpp"
#include "tools/app/shared/field.hpp"

namespace weir {

struct SweepRequest;

// One plan's degrees; what was not given leaves the plan as it is.
struct ParallelOptions {
  std::optional<int> tp, cp, dp, ep, etp, zero, zero_shards, zero_secondary;
  std::optional<double> offload_optimizer, offload_activations;
  double expert_load = 0;  // 0: not given
  bool sequence_parallel = false, overlap_tensor_parallel = false, overlap_grad_reduce = false;
  bool overlap_experts = false;
  std::string expert_dispatch;  // as parse_expert_dispatch has it; empty: not given
  std::string cuda_graphs;      // as parse_cuda_graphs has it; empty: not given
  std::string rank_order;
  app::Words placement;  // "POOL:RANKS"
};
[[nodiscard]] app::Fields fields(ParallelOptions& options);
// Throws UsageError on a contradiction.
void apply(const ParallelOptions& options, Plan& plan);

// The same as lists for a sweep; empty: the sweep's to choose.
struct ParallelLists {
  std::vector<int> tp, cp, dp, ep, etp, zero, zero_shards;
  int zero_secondary = 0;
  std::vector<double> offload_optimizer, offload_activations;  // shares; none: 0
  double expert_load = 0;                                      // 0: not given
  bool sequence_parallel = false, overlap_tensor_parallel = false, overlap_grad_reduce = false;
  bool overlap_experts = false;
  std::string expert_dispatch;  // as parse_expert_dispatch has it; empty: not given
  app::Words cuda_graphs;       // none: none
  app::Words rank_order;        // none: Megatron's
};
[[nodiscard]] app::Fields fields(ParallelLists& lists);
void apply(const ParallelLists& lists, SweepRequest& request);
// Throws UsageError where exchanges of experts are to be overlapped and there are none.
void require_experts(const ParallelLists& lists, const Model& model);

// A job of `gpus` devices, and a named cluster, `file`, have so many and no more; throws
// NoFeasiblePlan.
void require_devices(const Plan& plan, const Cluster& cluster,
                     const std::optional<std::filesystem::path>& file, std::optional<int> gpus);

}  // namespace weir
