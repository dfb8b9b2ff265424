// Parallel degrees of one plan, or to search over.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/parallel_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "plan/words/error.hpp"
#include "plan/words/nearest.hpp"
#include "sim/search/sweep.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir {
namespace {

constexpr const char* kTp = "Tensor-parallel devices a stage";
constexpr const char* kCp = "Context-parallel devices a stage: each has a part of every sequence";
constexpr const char* kDp = "Data-parallel replicas, D of G = b M D";
constexpr const char* kZero =
    "ZeRO stage over the dp x cp replicas: 0 to 3 (1: distributed optimizer)";

constexpr const char* kZeroShards =
    "Devices among which ZeRO divides, side by side; groups of so many add up their gradients "
    "(HSDP, MiCS; 0: all)";
constexpr const char* kZeroSecondary =
    "Of --zero 3: devices, side by side, among which weights are divided a second time (ZeRO++'s "
    "hpZ; 0: they are not)";
constexpr const char* kOffload =
    "Share of the optimizer's state that the host keeps and updates, 0 to 1";
constexpr const char* kOffloadActivations =
    "Share of what blocks keep for their backward that waits in the host's memory, 0 to 1";
constexpr app::Range kSharers{0, kMostRanks};

constexpr const char* kEp = "Devices of a stage that share a layer's experts";
constexpr const char* kEtp = "Devices that divide each expert, where they are fewer than --tp";
constexpr app::Range kExpertLoad{1, kMostExpertLoad};

constexpr const char* kCudaGraphs =
    "What is launched as CUDA graphs: none, step (all forwards and backwards as one), blocks (each "
    "by itself), or parts of blocks as attn+moe_router+moe_preprocess";
CudaGraphs graphs_of(const std::string& text) {
  const auto graphs = parse_cuda_graphs(text);
  if (!graphs) {
    throw UsageError(fmt::format(
        "--cuda-graphs {}: expected none, step, blocks, or parts of blocks as "
        "attn+moe_router+moe_preprocess{}",
        text, did_you_mean(text, {"none", "step", "blocks", "attn", "mlp", "moe", "moe_router"})));
  }
  return *graphs;
}

constexpr const char* kRankOrder =
    "How devices are numbered: tp-cp-dp-pp (replicas of a rank side by side) or tp-cp-pp-dp (ranks "
    "of a replica side by side, Megatron's --use-tp-pp-dp-mapping)";
std::vector<std::string> rank_orders() { return {"tp-cp-dp-pp", "tp-cp-pp-dp"}; }

constexpr const char* kDispatch =
    "How tokens come to their experts: alltoall (once for each expert), allgather (all to every "
    "device) or once (once to each device and node, DeepEP) (default: as the stack does)";
std::vector<std::string> dispatches() { return {"alltoall", "allgather", "once"}; }

// "POOL:RANKS".
PlacedRanks placed_ranks(const std::string& text) {
  const auto colon = text.rfind(':');
  PlacedRanks placed{text.substr(0, colon)};
  const char *first = text.data() + (colon == std::string::npos ? 0 : colon + 1),
             *last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, placed.ranks);
  if (colon == std::string::npos || placed.pool.empty() || error != std::errc() || end != last ||
      placed.ranks < 1) {
    throw UsageError(
        fmt::format("--placement {}: expected POOL:RANKS, as dgx-h100:4,dgx-a100:4", text));
  }
  return placed;
}

// Once a step, where replicas share the update (plan/job/plan.hpp, zero).
bool gathers_weights(const Plan& plan) {
  return plan.replicas() > 1 && (plan.zero == 1 || plan.zero == 2);
}

template <class Options>
void append_flags(app::Fields& fields, Options& o) {
  app::append(
      fields,
      {{"--expert-load",
        &o.expert_load,
        "Tokens of the fullest device's experts over the mean, or the capacity factor (default 1)",
        {.range = kExpertLoad}},
       {"--expert-dispatch", &o.expert_dispatch, kDispatch, {.choices = dispatches()}},
       {"--overlap-moe-expert-parallel-comm", &o.overlap_experts,
        "Let what experts exchange travel beside another micro-batch's work, where the stack can"},
       {"--sequence-parallel", &o.sequence_parallel, "Divide what --tp leaves whole by tokens"},
       {"--tp-comm-overlap", &o.overlap_tensor_parallel,
        "Gather and scatter for --sequence-parallel beside its products, where the stack can"},
       {"--overlap-grad-reduce", &o.overlap_grad_reduce,
        "Reduce gradients beside the last micro-batch's backward, and gather the weights of --zero "
        "1 "
        "and 2 beside the next forward (default: after the one and before the other)"}});
}

// Help of the words that a list says otherwise.
struct DegreeHelp {
  std::string tp = kTp, offload_optimizer = kOffload, offload_activations = kOffloadActivations;
};

// Of one plan, or of lists of the same words.
template <class Options>
app::Fields degree_fields(Options& o, const DegreeHelp& help, const app::FieldTraits& degree) {
  app::Fields all{
      {"--tp", &o.tp, help.tp, degree}, {"--cp", &o.cp, kCp, degree},
      {"--dp", &o.dp, kDp, degree},     {"--ep", &o.ep, kEp, degree},
      {"--etp", &o.etp, kEtp, degree},  {"--zero", &o.zero, kZero, {.range = app::kZeroStages}}};
  app::append(all, {{"--zero-shards", &o.zero_shards, kZeroShards, {.range = kSharers}},
                    {"--zero-secondary", &o.zero_secondary, kZeroSecondary, {.range = kSharers}},
                    {"--offload-optimizer",
                     &o.offload_optimizer,
                     help.offload_optimizer,
                     {.range = app::kShare}},
                    {"--offload-activations",
                     &o.offload_activations,
                     help.offload_activations,
                     {.range = app::kShare}}});
  append_flags(all, o);
  app::append(all, {{"--cuda-graphs", &o.cuda_graphs, kCudaGraphs},
                    {"--rank-order", &o.rank_order, kRankOrder, {.choices = rank_orders()}}});
  return all;
}

constexpr const char* kNeedsExperts = "--overlap-moe-expert-parallel-comm needs --ep above 1";

}  // namespace

app::Fields fields(ParallelOptions& o) {
  app::Fields all = degree_fields(o, {}, {.range = app::kDegree});
  app::append(all, {{"--placement", &o.placement,
                     "On a cluster of several kinds of nodes, on which the ranks stand, in their "
                     "order: POOL:RANKS, as dgx-h100:4,dgx-a100:4 (default: nodes are filled)"}});
  return all;
}

void apply(const ParallelOptions& o, Plan& plan) {
  if (const auto order = parse_rank_order(o.rank_order)) plan.rank_order = *order;
  if (!o.placement.words.empty()) plan.placement.clear();
  for (const std::string& text : o.placement.words) plan.placement.push_back(placed_ranks(text));
  plan.tp = o.tp.value_or(plan.tp);
  plan.cp = o.cp.value_or(plan.cp);
  plan.dp = o.dp.value_or(plan.dp);
  plan.ep = o.ep.value_or(plan.ep);
  // The usual value is left out of plans.
  if (o.etp) plan.etp = *o.etp == plan.tp ? 0 : *o.etp;
  if (o.expert_load > 0) plan.expert_load = o.expert_load;
  if (const auto way = parse_expert_dispatch(o.expert_dispatch)) plan.expert_dispatch = *way;
  plan.zero = o.zero.value_or(plan.zero);
  if (o.zero_shards) plan.zero_shards = *o.zero_shards == plan.replicas() ? 0 : *o.zero_shards;
  plan.zero_secondary = o.zero_secondary.value_or(plan.zero_secondary);
  if (!o.cuda_graphs.empty()) plan.cuda_graphs = graphs_of(o.cuda_graphs);
  plan.offload_optimizer = o.offload_optimizer.value_or(plan.offload_optimizer);
  plan.offload_activations = o.offload_activations.value_or(plan.offload_activations);
  if (o.sequence_parallel) plan.sequence_parallel = true;
  if (o.overlap_grad_reduce) plan.overlap_grad_reduce = true;
  // Where gradients overlap, weights do too, as the tools have it.
  if (o.overlap_grad_reduce) plan.overlap_param_gather = gathers_weights(plan);
  if (o.sequence_parallel && plan.tp == 1)
    throw UsageError("--sequence-parallel needs --tp above 1");
  // A degree of 1 that was asked for takes with it what only larger degrees have.
  if (o.tp && plan.tp == 1) plan.sequence_parallel = plan.overlap_tensor_parallel = false;
  if (o.overlap_tensor_parallel) plan.overlap_tensor_parallel = true;
  if (o.ep && plan.ep == 1) plan.overlap_experts = false;
  if (o.overlap_experts) plan.overlap_experts = true;
  if (o.overlap_experts && plan.ep == 1) throw UsageError(kNeedsExperts);
  if (o.overlap_tensor_parallel && !plan.sequence_parallel)
    throw UsageError("--tp-comm-overlap needs --sequence-parallel");
}

app::Fields fields(ParallelLists& o) {
  return degree_fields(
      o,
      {std::string(kTp) + ": 8, 1,2,4 or 1..8", std::string(kOffload) + ": 1, or 0,0.5,1",
       std::string(kOffloadActivations) + ", likewise"},
      {.range = app::kPositive});
}

void apply(const ParallelLists& o, SweepRequest& request) {
  if (!o.rank_order.words.empty()) request.rank_order.clear();
  for (const std::string& word : o.rank_order.words)
    request.rank_order.push_back(parse_rank_order(word).value());
  if (!o.cuda_graphs.words.empty()) request.cuda_graphs.clear();
  for (const std::string& word : o.cuda_graphs.words)
    request.cuda_graphs.push_back(graphs_of(word));
  request.tp = o.tp;
  request.cp = o.cp;
  request.dp = o.dp;
  request.ep = o.ep;
  request.etp = o.etp;
  if (o.expert_load > 0) request.base.expert_load = o.expert_load;
  if (const auto way = parse_expert_dispatch(o.expert_dispatch))
    request.base.expert_dispatch = *way;
  request.zero = o.zero;
  if (!o.zero_shards.empty()) request.zero_shards = o.zero_shards;
  request.base.zero_secondary = o.zero_secondary;
  request.offload_optimizer = o.offload_optimizer;
  request.offload_activations = o.offload_activations;
  request.base.sequence_parallel = o.sequence_parallel;
  request.base.overlap_tensor_parallel = o.overlap_tensor_parallel;
  request.base.overlap_experts = o.overlap_experts;
  request.base.overlap_grad_reduce = o.overlap_grad_reduce;
  request.base.overlap_param_gather = o.overlap_grad_reduce;
}

void require_experts(const ParallelLists& lists, const Model& model) {
  if (!lists.overlap_experts) return;
  if (!has_experts(model))
    throw UsageError(fmt::format("{}, and a model with experts", kNeedsExperts));
  const bool shares =
      lists.ep.empty() || std::ranges::any_of(lists.ep, [](int devices) { return devices > 1; });
  if (!shares) throw UsageError(kNeedsExperts);
}

void require_devices(const Plan& plan, const Cluster& cluster,
                     const std::optional<std::filesystem::path>& file, std::optional<int> gpus) {
  const auto require = [&plan](const std::string& who, int has) {
    if (plan.devices() <= has) return;
    throw NoFeasiblePlan(fmt::format("K tp cp dp = {} {} {} {} needs {} devices, {} has {}",
                                     plan.pp, plan.tp, plan.cp, plan.dp, plan.devices(), who, has));
  };
  if (gpus) require("--gpus", *gpus);
  if (file) require(file->string(), cluster.devices());
}

}  // namespace weir
