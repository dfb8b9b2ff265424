// Takes over what another plan has otherwise, one choice after the other.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "plan/job/recompute.hpp"
#include "plan/job/summary.hpp"
#include "sim/explain/changes.hpp"
#include "sim/explain/checked_changes.hpp"

namespace weir {
namespace {

class Towards : public CheckedChanges {
 public:
  using CheckedChanges::CheckedChanges;

  std::vector<Change> towards(const Plan& other) {
    if (!of_file()) {
      take_degrees(other);
      take_size(other);
      take_schedule(other);
    }
    take_sharing(other);
    add_boundaries();
    return take();
  }

 private:
  void take_degrees(const Plan& other) {
    constexpr std::array kDegrees{&Plan::pp, &Plan::tp, &Plan::cp,
                                  &Plan::dp, &Plan::ep, &Plan::etp};
    const auto same = [&](int Plan::*degree) { return plan().*degree == other.*degree; };
    // All at once: one degree alone would need another number of devices.
    if (std::ranges::all_of(kDegrees, same)) return;
    Plan changed = plan();
    for (const auto degree : kDegrees) changed.*degree = other.*degree;
    changed.sequence_parallel = other.sequence_parallel;
    changed.overlap_tensor_parallel = other.overlap_tensor_parallel;
    changed.overlap_experts = other.overlap_experts;
    changed.expert_dispatch = other.expert_dispatch;
    changed.rank_order = other.rank_order;
    changed.placement = other.placement;
    // Without replicas there is nobody to share state with.
    if (changed.replicas() == 1) changed.zero = 0;
    if (cannot_share_state(changed)) changed.zero_shards = changed.zero_secondary = 0;
    std::string to = fmt::format("K {} tp {} cp {} dp {}", other.pp, other.tp, other.cp, other.dp);
    if (plan().ep != other.ep) to += fmt::format(" ep {}", other.ep);
    if (plan().etp != other.etp) to += fmt::format(" etp {}", other.expert_tp());
    // Micro-batches as large as they are, where a replica's samples divide into such.
    const auto left = plan().global_batch_size() / changed.dp % changed.micro_batch_size;
    with_size("degrees", to, changed, left == 0 ? changed.micro_batch_size : 1);
  }

  void take_size(const Plan& other) {
    if (plan().micro_batch_size == other.micro_batch_size) return;
    const std::int64_t m = plan().global_batch_size() / plan().dp / other.micro_batch_size;
    with_size("micro-batches", fmt::format("M {} b {}", m, other.micro_batch_size), plan(),
              other.micro_batch_size);
  }

  // The plan with micro-batches of b samples, as many as make its mini-batch.
  void with_size(const char* choice, const std::string& to, Plan changed, int b) {
    const std::int64_t samples = plan().global_batch_size();
    if (samples % (std::int64_t{changed.dp} * b) != 0) {
      add(Change{
          choice,
          to,
          plan(),
          {},
          fmt::format("b D = {} {} does not divide the mini-batch of {}", b, changed.dp, samples)});
      return;
    }
    changed.micro_batch_size = b;
    changed.microbatches = static_cast<int>(samples / changed.dp / b);
    changed.samples = 0;
    add(choice, to, std::move(changed));
  }

  void take_schedule(const Plan& other) {
    if (plan().pp == 1 || other.pp == 1) return;
    const bool same = plan().vpp == other.vpp && plan().slices == other.slices;
    if (plan().schedule == other.schedule && same) return;
    Plan changed = plan();
    changed.schedule = other.schedule;
    changed.vpp = other.vpp;
    changed.slices = other.slices;
    std::string to = fmt::format("{} v {}", other.schedule, other.vpp);
    if (other.slices > 1) to += fmt::format(" slices {}", other.slices);
    add("schedule", to, changed);
  }

  // With sequence parallelism goes the overlap of what it sends.
  void take_sequence(const Plan& other) {
    Plan changed = plan();
    changed.sequence_parallel = other.sequence_parallel;
    changed.overlap_tensor_parallel = other.overlap_tensor_parallel;
    if (changed == plan()) return;
    std::string to = other.sequence_parallel ? "on" : "off";
    if (plan().overlap_tensor_parallel != other.overlap_tensor_parallel)
      to += other.overlap_tensor_parallel ? ", overlapped" : ", not overlapped";
    add("sequence parallelism", std::move(to), std::move(changed));
  }

  // Among how many devices ZeRO divides, and the second copy of weights within a smaller group.
  void take_shards(const Plan& other) {
    if (plan().replicas() != other.replicas()) return;
    Plan changed = plan();
    changed.zero_shards = other.zero_shards;
    changed.zero_secondary = other.zero_secondary;
    if (changed == plan()) return;
    changed.zero = other.zero;
    std::string among = fmt::format("among {}", changed.sharers());
    if (changed.zero_secondary > 0)
      among += fmt::format(", weights within {} too", changed.zero_secondary);
    add("ZeRO", std::move(among), std::move(changed));
  }

  void take_sharing(const Plan& other) {
    const auto take = [&](const char* choice, std::string to, auto member) {
      if (plan().*member == other.*member) return;
      Plan changed = plan();
      changed.*member = other.*member;
      add(choice, std::move(to), std::move(changed));
    };
    take("re-materialisation", to_text(other.recompute), &Plan::recompute);
    take("skips", std::string(to_string(other.skips)), &Plan::skips);
    if (plan().tp > 1 && other.tp > 1) take_sequence(other);
    if (plan().replicas() > 1 && other.replicas() > 1)
      take("ZeRO", fmt::format("stage {}", other.zero), &Plan::zero);
    take_shards(other);
    take("CUDA graphs", to_string(other.cuda_graphs), &Plan::cuda_graphs);
    if (plan().ep > 1 && other.ep > 1) {
      take("overlap of experts' exchanges", other.overlap_experts ? "on" : "off",
           &Plan::overlap_experts);
      take("experts' dispatch", std::string(to_string(other.expert_dispatch)),
           &Plan::expert_dispatch);
    }
    take("optimizer's state with the host", fmt::format("{:.3g}", other.offload_optimizer),
         &Plan::offload_optimizer);
    take("what blocks keep with the host", fmt::format("{:.3g}", other.offload_activations),
         &Plan::offload_activations);
  }
};

}  // namespace

std::vector<Change> changes_towards(const ResolvedPlan& plan, const Plan& other, const Costs& costs,
                                    const Cluster& cluster) {
  return Towards(plan, costs, cluster).towards(other);
}

}  // namespace weir
