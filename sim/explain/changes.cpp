// Makes the other plans, each checked as a plan's file would be.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <variant>

#include "costmodel/links/expert_overlap.hpp"
#include "plan/job/direct_skips.hpp"
#include "plan/job/recompute.hpp"
#include "plan/job/summary.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/search/partitions/balance.hpp"
#include "sim/search/space/legality.hpp"

namespace weir {
namespace {

constexpr double kFaster = 2;

BytesPerSecond faster(BytesPerSecond bandwidth) { return bandwidth * kFaster; }

Link faster(Link link) {
  link.bandwidth = faster(link.bandwidth);
  for (LinkRegime& regime : link.regimes) regime.bandwidth = faster(regime.bandwidth);
  if (link.switch_reduction)
    link.switch_reduction->bandwidth = faster(link.switch_reduction->bandwidth);
  return link;
}

class Changer {
 public:
  Changer(const ResolvedPlan& base, const Costs& costs, const Cluster& cluster)
      : base_(base), costs_(costs), cluster_(cluster) {}

  std::vector<Change> all() {
    // An order from a file is for its own ranks, chunks and micro-batches only.
    if (!of_file()) {
      add_microbatches();
      add_chunks();
      add_schedules();
    }
    add_recompute();
    add_formats();
    add_graphs();
    add_dynamic();
    add_sharing();
    add_boundaries();
    add_skips();
    add_slots();
    add_links();
    return std::move(changes_);
  }

  std::vector<Change> towards(const Plan& other) {
    if (!of_file()) {
      take_degrees(other);
      take_size(other);
      take_schedule(other);
    }
    take_sharing(other);
    add_boundaries();
    return std::move(changes_);
  }

 private:
  [[nodiscard]] const Plan& plan() const { return base_.plan; }
  // Its blocks keep nothing, so nothing is left to offload.
  static bool rebuilds_stages(const Plan& of) { return of.recompute.mode == RecomputeMode::stage; }
  [[nodiscard]] bool of_file() const { return plan().schedule.ends_with(".csv"); }

  void add(std::string choice, std::string to, Plan changed) {
    // What the changed plan cannot have goes with the change: no trainer would take the two.
    if (why_experts_wait(changed) && !why_experts_wait(plan())) changed.overlap_experts = false;
    if (rebuilds_stages(changed) && !rebuilds_stages(plan())) changed.offload_activations = 0;
    // A share of what rebuilt blocks keep is of their inputs, and of others' all.
    if (rebuilds_every_block(plan().recompute) && !rebuilds_every_block(changed.recompute))
      changed.offload_activations = 0;
    Change change{std::move(choice), std::move(to), std::move(changed), {}, {}};
    if (auto reason = refusal(change.plan)) change.refused = std::move(*reason);
    changes_.push_back(std::move(change));
  }

  // Why the plan cannot be; otherwise its receive slots and boundaries are what it needs.
  std::optional<std::string> refusal(Plan& changed) {
    if (const auto misfit = cannot_divide(base_.model, changed))
      return misfit->key + ": " + misfit->reason;
    const auto layers = static_cast<int>(model_of_stages(base_.model, changed).layers.size());
    if (changed.stages() > layers && !cluster_.stack.empty_stages)
      return fmt::format("K*v = {} is above the {} layers", changed.stages(), layers);
    if (!of_file()) {
      const auto made = make_schedule(
          changed.schedule, {changed.pp, changed.vpp, changed.microbatches, changed.slices});
      if (const auto* reason = std::get_if<std::string>(&made)) return *reason;
      const auto& schedule = std::get<Schedule>(made);
      // Another order may need more slots than the plan has, or it deadlocks.
      if (changed.slots > 0) changed.slots = fewest_slots(schedule, changed.slots);
    }
    // On several kinds of nodes other stages stand on the faster ones where the schedule is
    // another.
    const bool elsewhere = cluster_.kinds() > 1 && changed.schedule != plan().schedule;
    // Without the head the last stage has room for other layers.
    const bool other_head =
        divides_vocabulary(changed.schedule) != divides_vocabulary(plan().schedule);
    if (elsewhere || other_head || changed.stages() != plan().stages())
      changed.boundaries = balanced(changed);
    // After the boundaries: where skips go follows from them.
    return goes_directly(changed) ? refusal_of_skips(changed) : std::nullopt;
  }

  // Skips have edges of their own, with as many slots.
  std::optional<std::string> refusal_of_skips(Plan& changed) const {
    const Schedule schedule =
        of_file() ? base_.schedule
                  : std::get<Schedule>(make_schedule(
                        changed.schedule,
                        {changed.pp, changed.vpp, changed.microbatches, changed.slices}));
    if (const auto misfit = cannot_go_directly(base_.model, changed, schedule.shape))
      return misfit->key + ": " + misfit->reason;
    if (changed.slots > 0) {
      changed.slots =
          fewest_slots(schedule, changed.slots, skip_routes(base_.model, changed.boundaries));
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<int> balanced(const Plan& of) const {
    return balanced_boundaries(model_of_stages(base_.model, of), of, costs_, cluster_);
  }

  void add_microbatches() {
    const auto with = [&](int microbatches, int size, const char* note, int samples) {
      Plan changed = plan();
      changed.microbatches = microbatches;
      changed.micro_batch_size = size;
      changed.samples = samples;
      // Uneven mini-batches stay within one sample of b a micro-batch.
      if (changed.samples > 0 && changed.whole_microbatches() < 1) return;
      add("micro-batches", fmt::format("M {} b {}{}", microbatches, size, note), changed);
    };
    const int m = plan().microbatches, b = plan().micro_batch_size;
    const int samples = plan().samples;
    // First the same mini-batch in other pieces; then larger ones, of which the fill is a smaller
    // part.
    if (b % 2 == 0) with(2 * m, b / 2, "", samples);
    if (m % 2 == 0) with(m / 2, 2 * b, "", samples);
    if (samples == 0) with(m + 1, b, ", one more in the mini-batch", 0);
    // Of one micro-batch one more is twice as many.
    if (m > 1 || samples > 0) with(2 * m, b, ", twice the mini-batch", 2 * samples);
  }

  // Shards of a vocabulary stand beside one chunk a rank, and are not rebuilt.
  [[nodiscard]] bool has_shards() const { return base_.schedule.shape.shards() > 0; }

  void add_chunks() {
    if (plan().pp == 1 || has_shards()) return;
    // A set, because for v = 1 one more is also twice as many.
    for (const int v : std::set{plan().vpp / 2, plan().vpp + 1, plan().vpp * 2}) {
      if (v < 1 || v == plan().vpp || v * plan().pp > staged_layers(base_.model)) continue;
      Plan changed = plan();
      changed.vpp = v;
      // One chunk a rank has schedules of its own.
      if (plan().vpp == 1 && changed.schedule == "1f1b") changed.schedule = "interleaved-1f1b";
      if (v == 1 && changed.schedule == "interleaved-1f1b") changed.schedule = "1f1b";
      if (plan().vpp == 1 && changed.schedule == "gpipe") changed.schedule = "looped-bfs";
      if (v == 1 && changed.schedule == "looped-bfs") changed.schedule = "gpipe";
      add("v", fmt::format("{} ({})", v, changed.schedule), changed);
    }
  }

  void add_schedules() {
    if (plan().pp == 1) return;
    std::vector<Schedule> known{base_.schedule};
    for (const Generator& generator : generators()) {
      if (generator.name == plan().schedule) continue;
      Plan changed = plan();
      changed.schedule = generator.name;
      const auto made = [&] {
        return make_schedule(changed.schedule,
                             {changed.pp, changed.vpp, changed.microbatches, changed.slices});
      };
      auto schedule = made();
      // It cannot take the plan's numbers, so it gets its own.
      if (std::holds_alternative<std::string>(schedule)) {
        changed.vpp = generator.default_chunks;
        if (generator.default_slices == 1) changed.slices = 1;
        schedule = made();
      }
      // With one chunk a rank several names are one order.
      if (auto* its = std::get_if<Schedule>(&schedule)) {
        if (std::ranges::find(known, its->order, &Schedule::order) != known.end()) continue;
        known.push_back(std::move(*its));
      }
      const bool same = changed.vpp == plan().vpp;
      add("schedule",
          same ? changed.schedule : fmt::format("{} v {}", changed.schedule, changed.vpp), changed);
    }
  }

  void add_recompute() {
    for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selective,
                                     RecomputeMode::full, RecomputeMode::stage}) {
      Plan changed = plan();
      changed.recompute = {.mode = mode};
      if (recompute_word(changed.recompute) == recompute_word(plan().recompute)) continue;
      if (mode == RecomputeMode::stage && has_shards()) continue;
      add("re-materialisation", to_text(changed.recompute), changed);
    }
  }

  // Of weights alone: products in another format train otherwise.
  void add_formats() {
    if (plan().fp8 == Fp8Recipe::none) return;
    Plan changed = plan();
    changed.fp8_parameters = !changed.fp8_parameters;
    add("weights in 8 bits alone", changed.fp8_parameters ? "on" : "off", changed);
  }

  // What the host need not launch any more. Experts' tokens are of no fixed number, which a graph
  // has, unless they are padded: theirs stay outside.
  void add_graphs() {
    if (!cluster_.device.kernels || !stands_on_builtin(costs_.basis)) return;
    CudaGraphs parts;
    parts.add(GraphPart::attn).add(GraphPart::moe_router).add(GraphPart::moe_preprocess);
    const bool experts = has_experts(base_.model);
    for (const CudaGraphs& graphs :
         {CudaGraphs(), experts ? parts : CudaGraphs::of_blocks(), CudaGraphs::of_step()}) {
      if (graphs == plan().cuda_graphs || (experts && graphs.whole_step())) continue;
      Plan changed = plan();
      changed.cuda_graphs = graphs;
      add("CUDA graphs", to_string(graphs), changed);
    }
  }

  // Devices by each sequence's length, none with more tokens than a row gives it now. Costs that
  // were measured are of whole rows.
  void add_dynamic() {
    const SequenceLengths& lengths = plan().lengths;
    if (!lengths.known() || !stands_on_builtin(costs_.basis)) return;
    Plan changed = plan();
    const auto of_device = static_cast<int>(plan().seq_length / plan().cp);
    changed.lengths.dynamic_cp = lengths.dynamic_cp > 0 ? 0 : of_device;
    if (cannot_lie_in_rows(changed)) return;
    const std::string to =
        lengths.dynamic_cp > 0
            ? fmt::format("cp {} for all", plan().cp)
            : fmt::format("by each sequence's length, {} tokens a device", of_device);
    add("context parallelism", to, changed);
  }

  // What devices share that compute the same, or hold the same weights.
  void add_sharing() {
    if (plan().tp > 1) {
      Plan changed = plan();
      changed.sequence_parallel = !changed.sequence_parallel;
      // Only the exchanges of sequence parallelism are overlapped.
      changed.overlap_tensor_parallel = plan().overlap_tensor_parallel && changed.sequence_parallel;
      add("sequence parallelism", changed.sequence_parallel ? "on" : "off", changed);
    }
    if (plan().sequence_parallel && cluster_.stack.time.tensor_overlap > 0) {
      Plan changed = plan();
      changed.overlap_tensor_parallel = !changed.overlap_tensor_parallel;
      add("overlap of tensor parallelism", changed.overlap_tensor_parallel ? "on" : "off", changed);
    }
    const bool hides = cluster_.stack.time.expert_overlap > 0 && !why_experts_wait(plan());
    if (plan().ep > 1 && (hides || plan().overlap_experts)) {
      Plan changed = plan();
      changed.overlap_experts = !changed.overlap_experts;
      add("overlap of experts' exchanges", changed.overlap_experts ? "on" : "off", changed);
    }
    add_offload();
    if (plan().replicas() == 1) return;
    add_shards();
    for (int zero = 0; zero <= 3; ++zero) {
      if (zero == plan().zero) continue;
      Plan changed = plan();
      changed.zero = zero;
      if (zero == 0) changed.zero_shards = 0;
      if (zero < 3) changed.zero_secondary = 0;
      // Only stages 1 and 2 gather weights once a step.
      changed.overlap_param_gather = changed.overlap_grad_reduce && (zero == 1 || zero == 2);
      add("ZeRO", fmt::format("stage {}", zero), changed);
    }
    // A stack that always overlaps, or never, does not ask the plan.
    if (cluster_.stack.time.overlaps_reduction) return;
    Plan changed = plan();
    changed.overlap_grad_reduce = !changed.overlap_grad_reduce;
    changed.overlap_param_gather =
        changed.overlap_grad_reduce && (changed.zero == 1 || changed.zero == 2);
    add("overlap of the reduction", changed.overlap_grad_reduce ? "on" : "off", changed);
  }

  // Optimizer's state in the host's memory, and back.
  void add_offload() {
    if (!cluster_.kind(0).host) return;
    Plan changed = plan();
    changed.offload_optimizer = plan().offload_optimizer > 0 ? 0 : 1;
    // The trainers' hosts update by Adam alone.
    const OptimizerKind kind = plan().optimizer.kind;
    const bool adam = kind == OptimizerKind::adam || kind == OptimizerKind::adamw;
    if (adam || changed.offload_optimizer == 0) {
      add("optimizer's state", changed.offload_optimizer > 0 ? "with the host" : "on the device",
          changed);
    }
    // How much of what blocks keep may go to the host is the trainer's to say, whose modules no
    // stack names: none is proposed.
    if (plan().offload_activations == 0) return;
    changed = plan();
    changed.offload_activations = 0;
    add("what blocks keep", "on the device", changed);
  }

  // What ZeRO divides: within a node, where replicas are in several, and among all.
  void add_shards() {
    if (plan().zero == 0) return;
    Plan changed = plan();
    const int within = cluster_.devices_per_node / plan().tp;
    changed.zero_shards = plan().zero_shards > 0 ? 0 : within;
    const bool divides = changed.zero_shards > 1 && changed.zero_shards < plan().replicas();
    if (plan().zero_shards == 0 && !divides) return;
    if (cannot_share_state(changed)) return;
    add("ZeRO",
        changed.zero_shards > 0 ? fmt::format("among {} of a node", within)
                                : std::string("among all"),
        changed);
  }

  void add_boundaries() {
    if (plan().stages() == 1 || plan().stages() > staged_layers(base_.model)) return;
    Plan changed = plan();
    changed.boundaries = balanced(changed);
    if (changed.boundaries == plan().boundaries) return;
    add("boundaries", fmt::format("balanced: {}", fmt::join(changed.boundaries, ",")), changed);
  }

  void add_skips() {
    if (base_.model.stashes.empty() || plan().pp == 1) return;
    Plan changed = plan();
    changed.skips = goes_directly(changed) ? SkipTransport::relay : SkipTransport::direct;
    add("skips", std::string(to_string(changed.skips)), changed);
  }

  void add_slots() {
    if (plan().pp == 1 || plan().slots == 0) return;
    Plan changed = plan();
    changed.slots *= 2;
    add("receive slots", fmt::format("{}", changed.slots), changed);
  }

  void add_links() {
    // Measured times are of the links as they are: no faster one can be priced by them.
    if (!stands_on_builtin(costs_.basis)) return;
    const auto with = [&](const char* to, const auto& change_cluster) {
      Change change{"link", to, plan(), cluster_, {}};
      change_cluster(*change.cluster);
      changes_.push_back(std::move(change));
    };
    if (plan().devices() > cluster_.devices_per_node) {
      with("twice the bandwidth between nodes", [](Cluster& cluster) {
        cluster.inter = faster(cluster.inter);
        cluster.node_bandwidth = faster(cluster.node_bandwidth);
        for (Cluster& pool : cluster.pools) pool.inter = faster(pool.inter);
      });
    }
    if (plan().devices() > 1 && cluster_.devices_per_node > 1) {
      with("twice the bandwidth within a node", [](Cluster& cluster) {
        cluster.intra = faster(cluster.intra);
        for (Cluster& pool : cluster.pools) pool.intra = faster(pool.intra);
      });
    }
  }

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
      changes_.push_back({choice,
                          to,
                          plan(),
                          {},
                          fmt::format("b D = {} {} does not divide the mini-batch of {}", b,
                                      changed.dp, samples)});
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
    changed.expert_dispatch = other.expert_dispatch;
    if (changed == plan()) return;
    std::string to = other.sequence_parallel ? "on" : "off";
    if (plan().overlap_tensor_parallel != other.overlap_tensor_parallel)
      to += other.overlap_tensor_parallel ? ", overlapped" : ", not overlapped";
    add("sequence parallelism", std::move(to), std::move(changed));
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
    if (plan().zero_shards != other.zero_shards && plan().replicas() == other.replicas()) {
      Plan changed = plan();
      changed.zero = other.zero;
      changed.zero_shards = other.zero_shards;
      changed.zero_secondary = other.zero_secondary;
      std::string among = fmt::format("among {}", changed.sharers());
      add("ZeRO", std::move(among), std::move(changed));
    }
    take("CUDA graphs", to_string(other.cuda_graphs), &Plan::cuda_graphs);
    if (plan().ep > 1 && other.ep > 1) {
      take("overlap of experts' exchanges", other.overlap_experts ? "on" : "off",
           &Plan::overlap_experts);
    }
    take("optimizer's state with the host", fmt::format("{:.3g}", other.offload_optimizer),
         &Plan::offload_optimizer);
    take("what blocks keep with the host", fmt::format("{:.3g}", other.offload_activations),
         &Plan::offload_activations);
  }

  const ResolvedPlan& base_;
  const Costs& costs_;
  const Cluster& cluster_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> changes(const ResolvedPlan& plan, const Costs& costs, const Cluster& cluster) {
  return Changer(plan, costs, cluster).all();
}

std::vector<Change> changes_towards(const ResolvedPlan& plan, const Plan& other, const Costs& costs,
                                    const Cluster& cluster) {
  return Changer(plan, costs, cluster).towards(other);
}

}  // namespace weir
