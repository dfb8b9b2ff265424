// Enumerates; what of it can be is sim/search/space/legality's to say.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/space.hpp"

#include <algorithm>

#include "costmodel/links/expert_overlap.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir {
namespace {

// Whether the tp devices of a stage also divide what tensor parallelism leaves whole: of layouts
// some do and some do not.
std::vector<bool> sharing_sequences(const SweepRequest& request, const Model& model,
                                    const Plan& plan) {
  if (plan.tp == 1) return {false};
  const bool can = !cannot_split(model, plan.seq_length, {plan.tp, plan.cp, true});
  if (request.layouts && !request.base.sequence_parallel)
    return can ? std::vector{false, true} : std::vector{false};
  return {request.sequence_parallel_where_it_can ? can : request.base.sequence_parallel};
}

// Whether some K makes the devices of these degrees as many as were asked for.
bool can_make_up(const SweepRequest& request, std::int64_t each_rank) {
  return std::ranges::any_of(request.pp,
                             [&](int k) { return right_devices(request, k * each_rank); });
}

// Shares of the host's; what was not listed is the base's.
std::vector<double> shares(const std::vector<double>& listed, double base) {
  return listed.empty() ? std::vector{base} : listed;
}

// The plan with each share of the optimizer's state and of what blocks keep that is asked for.
void add_offload(const SweepRequest& request, Plan plan, std::vector<Plan>& plans) {
  for (const double state : shares(request.offload_optimizer, request.base.offload_optimizer)) {
    plan.offload_optimizer = state;
    for (const double kept :
         shares(request.offload_activations, request.base.offload_activations)) {
      plan.offload_activations = kept;
      if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
    }
  }
}

// The plan with its state divided among each number of devices that is asked for, where it can be,
// and with each of the graphs.
void add_sharing(const SweepRequest& request, Plan plan, std::vector<Plan>& plans) {
  if (plan.zero < 3) plan.zero_secondary = 0;
  for (const int shards : request.zero_shards) {
    plan.zero_shards = plan.zero > 0 && shards < plan.replicas() ? shards : 0;
    if (cannot_share_state(plan)) continue;
    for (const CudaGraphs& graphs : request.cuda_graphs) {
      plan.cuda_graphs = graphs;
      add_offload(request, plan, plans);
    }
  }
}

// The plan with each division of experts, of sequences and each order of devices.
void add_orders(const SweepRequest& request, Plan plan, std::vector<Plan>& plans) {
  // The batch is chosen later: what a layout says of it is asked then.
  Plan degrees = plan;
  degrees.micro_batch_size = 0;
  if (!right_layout(request, degrees)) return;
  for (const int etp : request.etp) {
    plan.etp = etp == plan.tp ? 0 : etp;
    for (const int slices : request.slices) {
      plan.slices = slices;
      for (const RankOrder order : request.rank_order) {
        plan.rank_order = plan.dp > 1 ? order : RankOrder::tp_cp_dp_pp;
        add_sharing(request, plan, plans);
      }
    }
  }
}

}  // namespace

bool right_devices(const SweepRequest& request, std::int64_t devices) {
  if (!request.devices) return true;
  return request.exact_devices ? devices == *request.devices : devices <= *request.devices;
}

std::vector<Plan> with_degrees(const SweepRequest& request, const Model& model) {
  std::vector<Plan> plans;
  for (const int tp : request.tp) {
    for (const int cp : request.cp) {
      for (const int dp : request.dp) {
        if (!can_make_up(request, std::int64_t{tp} * cp * dp)) continue;
        for (const int ep : request.ep) {
          for (const int zero : request.zero) {
            // Where a choice changes nothing it has one value, so that no plan comes twice.
            Plan plan = request.base;
            plan.tp = tp;
            plan.cp = cp;
            plan.dp = dp;
            plan.ep = ep;
            plan.zero = dp * cp > 1 ? zero : 0;
            plan.overlap_param_gather =
                request.base.overlap_param_gather && (plan.zero == 1 || plan.zero == 2);
            for (const bool shares : sharing_sequences(request, model, plan)) {
              plan.sequence_parallel = shares;
              plan.overlap_tensor_parallel = request.base.overlap_tensor_parallel && shares;
              plan.overlap_experts =
                  ep > 1 && (request.base.overlap_experts || request.overlap_experts_where_it_can);
              add_orders(request, plan, plans);
            }
          }
        }
      }
    }
  }
  return plans;
}

void settle(const SweepRequest& request, Plan& plan) {
  const bool own = request.overlap_experts_where_it_can && !request.base.overlap_experts;
  if (own && plan.overlap_experts && why_experts_wait(plan)) plan.overlap_experts = false;
}

bool offloads_nothing(const SweepRequest& request, const Plan& plan) {
  if (plan.recompute.mode != RecomputeMode::stage || request.offload_activations.empty())
    return false;
  // One of the shares stands for all of them.
  return plan.offload_activations != std::ranges::min(request.offload_activations);
}

bool same_order(const SweepRequest& request, const Plan& plan) {
  return plan.pp == 1 && request.rank_order.size() > 1 &&
         plan.rank_order != request.rank_order.front();
}

bool right_layout(const SweepRequest& request, const Plan& plan) {
  if (!request.layouts) return true;
  return std::ranges::any_of(*request.layouts,
                             [&](const StageLayout& one) { return has_layout(plan, one); });
}

namespace {

std::vector<Batch> batches_of(const SweepRequest& request, int dp) {
  std::vector<Batch> pairs;
  if (!request.global_batch_size) {
    for (const int m : request.microbatches) {
      for (const int b : request.micro_batch_size) pairs.push_back({m, b});
    }
    return pairs;
  }
  const int whole = *request.global_batch_size / dp;
  std::vector<int> counts = request.microbatches;
  for (int m = 1; request.microbatches.empty() && m <= whole; ++m) {
    if (whole % m == 0) counts.push_back(m);
  }
  for (const int m : counts) pairs.push_back({m, whole / m});
  return pairs;
}

}  // namespace

std::vector<Batch> batches(const SweepRequest& request, const Plan& degrees) {
  std::vector<Batch> pairs = batches_of(request, degrees.dp);
  Plan plan = degrees;
  std::erase_if(pairs, [&](const Batch& batch) {
    plan.micro_batch_size = batch.micro_batch_size;
    return batch.micro_batch_size > 0 && !right_layout(request, plan);
  });
  return pairs;
}

std::vector<Split> splits(const SweepRequest& request, const Model& model) {
  std::vector<Split> found;
  std::vector<Plan> plans = with_degrees(request, model);
  if (request.baseline) plans.push_back(request.baseline->plan);
  for (const Plan& plan : plans) {
    const Split split = plan.split();
    const bool known = std::ranges::find(found, split) != found.end();
    if (!known && !cannot_divide(model, plan)) found.push_back(split);
  }
  return found;
}

Model with_shards(const SweepRequest& request, Model model) {
  const bool wanted = std::ranges::any_of(request.schedules, divides_vocabulary);
  if (!wanted || cannot_divide_vocabulary(model)) return model;
  const Model whole = model;
  for (const int ranks : request.pp) {
    if (ranks == 1) continue;
    Model its = whole;
    set_vocabulary(its, ranks);
    // The others are the model's own: an embedding is another without its table.
    const std::vector<Layer>& layers = its.layers;
    model.layers.push_back(layers.front());
    model.layers.insert(model.layers.end(), layers.begin() + staged_layers(its), layers.end());
  }
  return model;
}

}  // namespace weir
