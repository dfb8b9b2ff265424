// Offers each thing that could be otherwise.
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
#include "costmodel/links/parallel.hpp"
#include "plan/job/direct_skips.hpp"
#include "plan/job/recompute.hpp"
#include "plan/job/stack_part.hpp"
#include "plan/job/summary.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/explain/checked_changes.hpp"

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

class Offers : public CheckedChanges {
 public:
  using CheckedChanges::CheckedChanges;

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
    return take();
  }

 private:
  // Shards of a vocabulary stand beside one chunk a rank, and are not rebuilt.
  [[nodiscard]] bool has_shards() const { return base().schedule.shape.shards() > 0; }

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

  void add_chunks() {
    if (plan().pp == 1 || has_shards()) return;
    // A set, because for v = 1 one more is also twice as many.
    for (const int v : std::set{plan().vpp / 2, plan().vpp + 1, plan().vpp * 2}) {
      if (v < 1 || v == plan().vpp || v * plan().pp > staged_layers(base().model)) continue;
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
    std::vector<Schedule> known{base().schedule};
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
    const auto offer = [this](const Recompute& recompute) {
      if (recompute_word(recompute) == recompute_word(plan().recompute)) return;
      Plan changed = plan();
      changed.recompute = recompute;
      add("re-materialisation", to_text(recompute), changed);
    };
    for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selective,
                                     RecomputeMode::full, RecomputeMode::stage}) {
      if (mode != RecomputeMode::stage || !has_shards()) offer({.mode = mode});
    }
    // Each module alone, or beside those that the plan rebuilds already.
    const bool some = plan().recompute.mode == RecomputeMode::selective;
    const ModuleSet already = some ? plan().recompute.modules : ModuleSet();
    for (const BlockModule module : rebuildable_modules(base().model, cluster().stack, already)) {
      ModuleSet modules = already;
      modules |= module;
      offer({.mode = RecomputeMode::selective, .modules = modules});
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
    if (!cluster().device.kernels || !stands_on_builtin(costs().basis)) return;
    CudaGraphs parts;
    parts.add(GraphPart::attn).add(GraphPart::moe_router).add(GraphPart::moe_preprocess);
    const bool experts = has_experts(base().model);
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
    if (!lengths.known() || !stands_on_builtin(costs().basis)) return;
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
    if (plan().sequence_parallel && cluster().stack.time.tensor_overlap > 0) {
      Plan changed = plan();
      changed.overlap_tensor_parallel = !changed.overlap_tensor_parallel;
      add("overlap of tensor parallelism", changed.overlap_tensor_parallel ? "on" : "off", changed);
    }
    add_dispatch();
    const bool hides = cluster().stack.time.expert_overlap > 0 && !why_experts_wait(plan());
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
    if (cluster().stack.time.overlaps_reduction) return;
    Plan changed = plan();
    changed.overlap_grad_reduce = !changed.overlap_grad_reduce;
    changed.overlap_param_gather =
        changed.overlap_grad_reduce && (changed.zero == 1 || changed.zero == 2);
    add("overlap of the reduction", changed.overlap_grad_reduce ? "on" : "off", changed);
  }

  // A copy of a token for each expert that it visits, or one for each node, which copies it on:
  // other than now where experts are on several nodes.
  void add_dispatch() {
    if (plan().ep * plan().expert_tp() <= cluster().devices_per_node) return;
    ExpertDispatch now = plan().expert_dispatch;
    if (now == ExpertDispatch::by_stack) {
      const bool once = cluster().stack.time.experts_sent_once;
      now = once ? ExpertDispatch::once : ExpertDispatch::alltoall;
    }
    for (const ExpertDispatch dispatch : {ExpertDispatch::alltoall, ExpertDispatch::once}) {
      if (dispatch == now) continue;
      Plan changed = plan();
      changed.expert_dispatch = dispatch;
      add("experts' dispatch", std::string(to_string(dispatch)), changed);
    }
  }

  // Optimizer's state in the host's memory, and back.
  void add_offload() {
    if (!cluster().kind(0).host) return;
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
    const int within = replicas_in_node(plan(), cluster());
    changed.zero_shards = plan().zero_shards > 0 ? 0 : within;
    const bool divides = changed.zero_shards > 1 && changed.zero_shards < plan().replicas();
    if (plan().zero_shards == 0 && !divides) return;
    if (cannot_share_state(changed)) return;
    add("ZeRO",
        changed.zero_shards > 0 ? fmt::format("among {} of a node", within)
                                : std::string("among all"),
        changed);
  }

  void add_skips() {
    if (base().model.stashes.empty() || plan().pp == 1) return;
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
    if (!stands_on_builtin(costs().basis)) return;
    const auto with = [&](const char* to, const auto& change_cluster) {
      Change change{"link", to, plan(), cluster(), {}};
      change_cluster(*change.cluster);
      add(std::move(change));
    };
    if (plan().devices() > cluster().devices_per_node) {
      with("twice the bandwidth between nodes", [](Cluster& cluster) {
        cluster.inter = faster(cluster.inter);
        cluster.node_bandwidth = faster(cluster.node_bandwidth);
        for (Cluster& pool : cluster.pools) pool.inter = faster(pool.inter);
      });
    }
    if (plan().devices() > 1 && cluster().devices_per_node > 1) {
      with("twice the bandwidth within a node", [](Cluster& cluster) {
        cluster.intra = faster(cluster.intra);
        for (Cluster& pool : cluster.pools) pool.intra = faster(pool.intra);
      });
    }
  }
};

}  // namespace

std::vector<Change> changes(const ResolvedPlan& plan, const Costs& costs, const Cluster& cluster) {
  return Offers(plan, costs, cluster).all();
}

}  // namespace weir
