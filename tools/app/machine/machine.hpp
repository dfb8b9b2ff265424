// The machine a request is about: its cluster, and the software on it. Both are files, or the names
// of those that are compiled in (tools/examples/clusters and stacks).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/job/cluster.hpp"
#include "plan/job/stack.hpp"
#include "plan/job/stack_abilities.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/source.hpp"

namespace weir::app {

// "--stack", for all use cases that forecast.
using StackChoice = std::optional<std::filesystem::path>;
[[nodiscard]] Field stack_field(StackChoice& stack);
// "--any-schedule", for those that propose plans.
[[nodiscard]] Field any_schedule_field(bool& any_schedule);

// A file, or "dgx-h100". Throws InputError where it is neither.
// Or as many nodes of it: "dgx-h100:32"; or several kinds of nodes as one cluster:
// "dgx-h100:4+dgx-a100:8", how many of each.
[[nodiscard]] Cluster load_cluster_or_name(const std::filesystem::path& cluster);
// Of those that are compiled in.
[[nodiscard]] std::vector<std::string> cluster_names();
// The device of such a cluster, or of the first compiled one, by name, whose device's first word it
// is: "h100".
[[nodiscard]] Device load_gpu(const std::string& name);
// A file, or a name as "megatron-core".
[[nodiscard]] Stack load_stack_or_name(const std::filesystem::path& stack);

// Whether a tool's "NVIDIA H100 80GB HBM3" is of a cluster's "H100-SXM5-80GB": its first word is
// among the other's. What a tool does not say may be any.
[[nodiscard]] bool may_be(const std::string& reported, const Device& device);

struct MachineChoice {
  std::optional<std::filesystem::path> cluster;  // none: this machine
  StackChoice stack;                             // none: as the costs, else by the device
  CostsSource costs;
  bool any_schedule = false;  // as if the stack had all that plans may choose
  std::string job_stack{};    // of GPUs, where neither names one: as the plan's job does
};

// The cluster with its stack. Anchored costs bring theirs; otherwise a GPU is taken to run what the
// job names, or Megatron-Core, but to sum no gradients beside others, and a CPU Weir's executor.
[[nodiscard]] Cluster machine(const MachineChoice& choice);
// The same on as many of the cluster's nodes as so many devices need, where its file has fewer:
// which is noted.
[[nodiscard]] Cluster machine(const MachineChoice& choice, std::optional<int> gpus,
                              const Session& session);
// "--gpus", for those that forecast a plan.
[[nodiscard]] Field gpus_field(std::optional<int>& gpus);
// Throws NoFeasiblePlan where the cluster cannot have so many devices; else a line where it gets
// more nodes than its file has.
[[nodiscard]] std::optional<std::string> take_devices(Cluster& cluster, int devices);

// Of a GPU cluster nobody trains in fp32 any more, and all have a fused attention: what was not
// named becomes that, and is said in one line.
[[nodiscard]] std::optional<std::string> complete_precision(PlanOptions& options,
                                                            const Cluster& cluster,
                                                            const Session& session);
// What the machine's stack has of what plans may choose; all, with --any-schedule.
[[nodiscard]] StackAbilities abilities(const MachineChoice& choice, const Cluster& machine);
// Whether it is what stands in for software that nobody named.
[[nodiscard]] bool is_assumed(const std::string& stack);
// What was taken and how to name another; nothing of one that was named, or of Weir's own. For who
// reads no JSON, which has it.
[[nodiscard]] std::optional<std::string> remark_on(const StackChoice& choice,
                                                   const std::string& taken);

}  // namespace weir::app
