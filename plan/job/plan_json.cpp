// Plans as files, weir.plan/1, key by key.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/plan_json.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/format/keys.hpp"
#include "plan/job/formats.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir {
namespace format {
namespace {

constexpr Range kIterations{1, std::int64_t{1} << 40}, kLayer{0, 1 << 24}, kLearningRate{0, 1e6};
constexpr Range kFraction{0, 1};
constexpr Range kTokens{1, 1 << 24};
constexpr Range kDegree{1, kMostRanks}, kAmount{1, kMostMicrobatches};

constexpr Names<DecayStyle, 2> kDecays{
    {{DecayStyle::linear, "linear"}, {DecayStyle::cosine, "cosine"}}};
constexpr auto kDecaying = [](const RateSchedule& rate) {
  return rate.style != DecayStyle::constant;
};
constexpr Key<RateSchedule> kRateSchedule[] = {
    maybe<&RateSchedule::warmup_iters>("lr_warmup_iters",
                                       "steps | where above 0 | the rate grows from 0 at the first",
                                       kIterations),
    maybe<&RateSchedule::style, Named<kDecays>>("lr_decay_style",
                                                "| unless constant | `linear` or `cosine`")
        .expect("expected linear or cosine (left out where it is constant)"),
    key<&RateSchedule::decay_iters>(
        "lr_decay_iters", "steps | with a decay | where it ends, warm-up included", kIterations)
        .where<kDecaying>(),
    key<&RateSchedule::min_lr>("min_lr", "| with a decay | where it ends", kLearningRate)
        .where<kDecaying>(),
};

template <OptimizerKind... kKinds>
constexpr auto kOf = [](const Optimizer& o) { return ((o.kind == kKinds) || ...); };
constexpr auto kAdam = kOf<OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::muon>;
constexpr auto kNotSgd =
    kOf<OptimizerKind::rmsprop, OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::muon>;
constexpr Key<Optimizer> kOptimizer[] = {
    key<&Optimizer::kind, Word<parse_optimizer_kind>>(
        "kind",
        "`sgd`, `rmsprop`, `adam` (decay added to the gradient) or `adamw`, as in "
        "`torch.optim`, or `muon` (of matrices of blocks; `adamw` of all else)")
        .expect("expected sgd, rmsprop, adam, adamw or muon"),
    key<&Optimizer::learning_rate>("learning_rate", "", kLearningRate),
    key<&Optimizer::alpha>("alpha", "| `rmsprop` | of the mean of squares", kFraction)
        .where<kOf<OptimizerKind::rmsprop>>(),
    key<&Optimizer::momentum>("momentum", "| `sgd`, `rmsprop`, `muon` |", kFraction)
        .where<kOf<OptimizerKind::sgd, OptimizerKind::rmsprop, OptimizerKind::muon>>(),
    maybe<&Optimizer::nesterov>("nesterov", "| where true | `sgd`, `muon` with momentum")
        .where<kOf<OptimizerKind::sgd, OptimizerKind::muon>>(),
    key<&Optimizer::newton_schulz>("newton_schulz",
                                   "steps | `muon` | of Newton and Schulz, that make a matrix "
                                   "nearly orthogonal",
                                   {1, 100})
        .where<kOf<OptimizerKind::muon>>(),
    key<&Optimizer::beta1>("beta1", "| `adam`, `adamw`, `muon` |", kFraction).where<kAdam>(),
    key<&Optimizer::beta2>("beta2", "| `adam`, `adamw`, `muon` |", kFraction).where<kAdam>(),
    key<&Optimizer::epsilon>("epsilon", "| but for `sgd` |", kFraction).where<kNotSgd>(),
    key<&Optimizer::weight_decay>("weight_decay", "", {0, 1e3}),
    maybe<&Optimizer::clip_norm>(
        "clip_norm", "| where above 0 | largest norm of all gradients together, ties once",
        {0, 1e9})
        .refuse("expected above 0 (left out where it is 0)"),
    inlined<&Optimizer::rate, kRateSchedule>,
};
constexpr auto kAgrees = [](JsonObject& object, const Optimizer& optimizer) {
  if (const auto fault = fault_of(optimizer)) object.fail(fault->key, fault->expected);
};

// Keys that came after weir.plan/1 stand in a file only where they say something, so that older
// files keep their bytes: a value that is the default is refused.
constexpr Names<AttentionKind, 1> kFused{{{AttentionKind::fused, "fused"}}};
constexpr Names<SkipTransport, 1> kDirect{{{SkipTransport::direct, "direct"}}};
constexpr const char* kDispatched =
    "expected alltoall, allgather or once (left out where the stack decides)";
constexpr Names<RankOrder, 1> kReplicasApart{{{RankOrder::tp_cp_pp_dp, "tp-cp-pp-dp"}}};
template <auto kMember>
constexpr auto flag(const char* name, const char* cells) {
  return maybe<kMember>(name, cells).refuse("expected true (left out where it is false)");
}

struct RecomputeWord {
  static constexpr const char* kType = "text";
  static void read(const Spec& key, JsonObject& object, Recompute& recompute) {
    const std::string word = object.text(key.name);
    const auto known = parse_recompute_word(word);
    // The core alone has a word of its own, and is known by its name too.
    const bool core = word == "selective:core_attn";
    if (!known || (recompute_word(*known) != word && !core)) object.fail(key.name, key.expected);
    recompute = *known;
  }
  static Json write(const Spec&, const Recompute& recompute) { return recompute_word(recompute); }
};
constexpr Names<bool, 2> kWhich{{{false, "all"}, {true, "except-last"}}};
constexpr Names<RecomputePlacement, 2> kPlacements{
    {{RecomputePlacement::early, "early"}, {RecomputePlacement::fused, "fused"}}};
constexpr Key<Recompute> kRecompute[] = {
    key<kWhole, RecomputeWord>(
        "recompute",
        "`none`, `selective` (attention cores), `full` (every block, one at a time), `full:N`"
        " (N blocks of a stage at a time, N > 1), `stage` (a stage at once, by R), the layers that "
        "`full` rebuilds, ascending: `0-11,40`, or modules of every block, as Megatron's "
        "`recompute-modules` names them: `selective:layernorm+moe_act` (`core_attn`, "
        "`layernorm`, `mla_up_proj`, `mlp`, `moe`, `moe_act`, `shared_experts`)")
        .expect("expected none, selective, full, stage, full:N, ascending layers as 0-11,40, or "
                "modules as selective:layernorm+moe_act"),
    key<&Recompute::except_last, Named<kWhich>>("recompute_microbatches", "`all` or `except-last`")
        .expect("expected all or except-last"),
    maybe<&Recompute::placement, Named<kPlacements>>(
        "recompute_placement",
        "| but for `full`, `full:N` and layers | `early` or `fused`: of `stage`'s R "
        "([design.md](design.md) 5). Beside `full` it tells a file of v0.1, whose `full` is "
        "read as `stage`")
        .kept()
        .expect("expected early or fused"),
};
// `recompute_placement` belongs to R, so to stage alone.
constexpr auto kRebuilds = [](JsonObject& top, const Recompute& recompute) {
  if (recompute.mode != RecomputeMode::full) static_cast<void>(top.at("recompute_placement"));
  if (!recompute.layers.empty() && top.has("recompute_placement"))
    top.fail("recompute_placement", "expected with stage only: layers are rebuilt in the backward");
  if (recompute.except_last && recompute.mode == RecomputeMode::selective)
    top.fail("recompute_microbatches", "expected all where recompute is selective");
};

constexpr Key<PlacedRanks> kPlaced[] = {
    key<&PlacedRanks::pool>("pool", "name of one of the cluster's `pools`"),
    key<&PlacedRanks::ranks>(
        "ranks",
        "the next so many ranks; together K. Devices of a pool are taken in the order of the "
        "ranks",
        kDegree),
};
constexpr Key<SourceJob> kJob[] = {
    key<&SourceJob::tool>("tool", "as an import names it"),
    key<&SourceJob::devices>("devices", "devices | always | that it ran on, or was read for",
                             {1, 1 << 30}),
    key<&SourceJob::left_out>("left_out",
                              "what the job says and the plan does not, by the tool's names"),
    key<&SourceJob::lines>(
        "lines",
        "the job: a script's arguments, one a line, or the file's lines; none where no "
        "exporter takes it up"),
};
constexpr auto kNamesTool = [](JsonObject& object, const SourceJob& job) {
  if (job.empty()) object.fail("tool", "expected the tool whose job it is");
};

constexpr Key<Adapters> kLora[] = {
    key<&Adapters::rank>("rank", "r of (x A') B', A r x in and B out x r", {1, 1 << 20}),
    key<&Adapters::targets, Word<parse_products>>(
        "targets",
        "which products have one beside them, with + between them: `linear_qkv` (or `linear_q`, "
        "`linear_k`, `linear_v` one by one), `linear_proj`, `linear_fc1` (or `linear_fc1_up`, "
        "`linear_fc1_gate`), `linear_fc2`")
        .expect("expected products, as linear_qkv+linear_proj"),
    maybe<&Adapters::dropout>("dropout", "share | where above 0 | of what A reads", kFraction)
        .refuse("expected above 0 (left out where it is 0)"),
};
struct Layers {
  static constexpr const char* kType = "text";
  static void read(const Spec& key, JsonObject& object, std::vector<LayerRange>& layers) {
    const std::string word = object.text(key.name);
    auto known = parse_layers(word);
    if (!known || layers_word(*known) != word) object.fail(key.name, key.expected);
    layers = *std::move(known);
  }
  static Json write(const Spec&, const std::vector<LayerRange>& layers) {
    return layers_word(layers);
  }
};
constexpr auto kAscendingLengths = [](JsonObject& object, const SequenceLengths& lengths) {
  const std::vector<int>& all = lengths.quantiles;
  if (all.empty() || all.size() > kMostQuantiles || !std::ranges::is_sorted(all)) {
    object.fail("quantiles",
                fmt::format("expected 1 to {} ascending numbers of tokens", kMostQuantiles));
  }
};
constexpr Key<SequenceLengths> kLengths[] = {
    key<&SequenceLengths::quantiles>(
        "quantiles",
        "tokens | always | evenly spaced from the shortest sequence to the longest, ascending, a "
        "line between two",
        kTokens),
    key<&SequenceLengths::rows, Word<parse_rows_of>>(
        "rows",
        "`packed` (full of whole sequences), `cut` (of a stream of them, cut where rows end), "
        "neither with attention between two; or `longest` (a sequence each, in a micro-batch as "
        "long as its longest)")
        .expect("expected packed, cut or longest"),
    maybe<&SequenceLengths::dynamic_cp>(
        "dynamic_cp",
        "tokens | where above 0, with packed rows | dynamic context parallelism: a device has at "
        "most so many of a sequence, which is computed alone, by a power of two of the cp x dp "
        "devices",
        {1, 1 << 30}),
};
constexpr const char* kGraphWords =
    "expected step, blocks, or parts of blocks as attn+moe_router (left out where there are none)";
constexpr Key<Plan> kPlan[] = {
    key<kWhole, Schema>("schema").expect("weir.plan/1"),
    key<&Plan::model_path>("model", "path, relative to the plan's folder"),
    key<&Plan::model_sha256>("model_sha256", "of the model file's bytes"),
    key<&Plan::seq_length>("seq_length", "tokens | always | of a sample", kLayer),
    maybe<&Plan::lengths, Object<kLengths, kAscendingLengths>>(
        "lengths", "| where rows are not one sequence each | of the sequences in them"),
    key<&Plan::dtype, Word<parse_dtype>>("dtype", "`fp32`, `tf32`, `bf16` or `fp16`")
        .expect("expected fp32, tf32, bf16 or fp16"),
    maybe<&Plan::fp8, Word<parse_fp8_recipe>>(
        "fp8",
        "| where products of blocks are in 8 bits | how their scales are found: `delayed` (of a "
        "tensor, from the steps before), `tensorwise` (of the tensor itself), `blockwise` (of 128 "
        "numbers) or `mxfp8` (of 32)")
        .expect("expected delayed, tensorwise, blockwise or mxfp8")
        .refuse("expected delayed, tensorwise, blockwise or mxfp8 (left out where there is none)"),
    flag<&Plan::fp8_parameters>(
        "fp8_parameters",
        "| where true, with `fp8` | blocks' matrices are kept, and gathered, in 8 bits alone"),
    maybe<&Plan::lora, Object<kLora>>(
        "lora",
        "| where adapters of low rank are trained in place of all weights | LoRA's: "
        "`(x A') B'` beside products whose weights are frozen"),
    maybe<&Plan::frozen, Layers>(
        "frozen",
        "| where some are | layers whose weights stay as they are, ascending: `0-11,40`; no "
        "gradients and no state of the optimizer, and no backward before the first other one")
        .expect("expected ascending layers as 0-11,40"),
    maybe<&Plan::prediction_layers>(
        "prediction_layers",
        "| where above 0 | blocks behind the model's norm, each for a token further ahead "
        "(multi-token prediction: Megatron's `mtp-num-layers`); they come before the head, which "
        "has a loss for each",
        {1, kMostPredictions}),
    maybe<&Plan::prediction_weight>(
        "prediction_weight",
        "| where it is not 0.1, with `prediction_layers` | of their mean loss (Megatron's "
        "`mtp-loss-scaling-factor`)",
        {0, 1e6})
        .refuse("expected other than 0.1 (left out where it is)"),
    maybe<&Plan::attention, Named<kFused>>("attention", "| where it is fused | `fused`")
        .expect("expected fused (left out where it is unfused)"),
    key<&Plan::pp>("pp", "ranks, K", kDegree),
    key<&Plan::vpp>("vpp", "stages a rank, v", {1, 1024}),
    key<&Plan::microbatches>("microbatches", "a replica's, M", kAmount),
    key<&Plan::micro_batch_size>("micro_batch_size", "samples | always | b", kAmount),
    maybe<&Plan::samples>(
        "global_batch_size",
        "samples | where M D does not divide it | G: the first micro-batches, over all "
        "replicas, have b samples, the others b - 1",
        {1, 1 << 30}),
    key<&Plan::tp>("tp", "tensor-parallel devices of a stage", kDegree),
    key<&Plan::cp>("cp", "context-parallel devices", kDegree),
    key<&Plan::dp>("dp", "replicas, D; G = b M D", kDegree),
    maybe<&Plan::ep>(
        "ep",
        "| where above 1 | devices of the tp x cp x dp of a stage that share a layer's "
        "experts",
        {2, kMostRanks}),
    maybe<&Plan::etp>(
        "etp",
        "| where below `tp` | devices that divide each expert, a divisor of `tp` (Megatron's "
        "expert tensor parallelism); `sequence_parallel` goes with it",
        kDegree),
    maybe<&Plan::expert_load>(
        "expert_load",
        "ratio | where above 1 | tokens of the fullest of them over the mean: how uneven "
        "dropless routing is, or the capacity factor that each is padded to",
        {1, kMostExpertLoad})
        .refuse("expected more than 1 (left out where experts are even)"),
    maybe<&Plan::expert_dispatch, Word<parse_expert_dispatch>>(
        "expert_dispatch",
        "| where the plan and not the stack decides | how tokens come to their experts: `alltoall` "
        "(once for each expert), `allgather` (all to every device) or `once` (once to each device "
        "that has some, and once across to each node: DeepEP, HybridEP)")
        .expect(kDispatched)
        .refuse(kDispatched),
    flag<&Plan::sequence_parallel>("sequence_parallel",
                                   "| where true | tp also divides what it leaves whole"),
    flag<&Plan::overlap_tensor_parallel>(
        "overlap_tensor_parallel",
        "| where true, with `sequence_parallel` | what is gathered and scattered "
        "for it travels in pieces beside the products (Megatron's `tp-comm-overlap`), where the "
        "stack can"),
    flag<&Plan::overlap_experts>(
        "overlap_experts",
        "| where true, with `ep` above 1 | what experts exchange travels beside another "
        "micro-batch's work (Megatron's `overlap-moe-expert-parallel-comm`), where the stack can"),
    maybe<&Plan::zero>(
        "zero", "| where above 0 | ZeRO stage over the cp x dp devices that hold the same weights",
        {1, 3}),
    maybe<&Plan::zero_shards>(
        "zero_shards",
        "| where below cp x dp, with `zero` | devices, side by side, among which ZeRO divides; "
        "groups of so many add their gradients up (HSDP, MiCS, Megatron's "
        "`num-distributed-optimizer-instances`)",
        {2, kMostRanks}),
    maybe<&Plan::zero_secondary>(
        "zero_secondary",
        "| where there is one, with `zero` 3 | devices, side by side, among which weights are "
        "divided a second time, for the backward to gather (ZeRO++'s `zero_hpz_partition_size`)",
        {2, kMostRanks}),
    maybe<&Plan::offload_optimizer>(
        "offload_optimizer",
        "share | where above 0 | of the optimizer's state that the host keeps and updates",
        kFraction)
        .refuse("expected above 0 (left out where it is 0)"),
    maybe<&Plan::offload_activations>(
        "offload_activations",
        "share | where above 0 | of what each block keeps from its forward to its backward that "
        "the host's memory holds meanwhile",
        kFraction)
        .refuse("expected above 0 (left out where it is 0)"),
    maybe<&Plan::cuda_graphs, Word<parse_cuda_graphs>>(
        "cuda_graphs",
        "| where there are some | what is launched as CUDA graphs: `step` (all forwards and "
        "backwards as one), `blocks` (each by itself), or parts of blocks, as Megatron's "
        "`cuda-graph-modules` names them: `attn+moe_router+moe_preprocess`")
        .expect(kGraphWords)
        .refuse(kGraphWords),
    flag<&Plan::overlap_grad_reduce>("overlap_grad_reduce",
                                     "| where true | gradients travel beside the last backward"),
    flag<&Plan::overlap_param_gather>(
        "overlap_param_gather",
        "| where true | updated weights of ZeRO 1 and 2 are gathered beside "
        "the next forward, where the stack can"),
    maybe<&Plan::rank_order, Named<kReplicasApart>>(
        "rank_order",
        "| where it is `tp-cp-pp-dp` | how devices are numbered: the ranks of a replica "
        "before the next replica (Megatron's `use-tp-pp-dp-mapping`); else `tp-cp-dp-pp`, "
        "the replicas of a rank side by side")
        .expect("expected tp-cp-pp-dp (left out where it is tp-cp-dp-pp)"),
    maybe<&Plan::placement, Objects<kPlaced>>(
        "placement",
        "| on a cluster of several kinds of nodes; left out: nodes are filled in their order "
        "| where ranks stand, in their order"),
    key<&Plan::boundaries>(
        "boundaries",
        "first layers of stages 1, 2, ..., ascending; equal neighbours, 0 or the number of "
        "layers: an empty stage, where the stack has such",
        kLayer),
    maybe<&Plan::skips, Named<kDirect>>(
        "skips",
        "| where it is `direct` | skips go from the stage that makes them to the one that "
        "takes them, as messages of their own ([design.md](design.md) 5): of a `unet` of "
        "`blocks`, with one stage a rank, each with a layer; else each stage between hands "
        "them on")
        .expect("expected direct (left out where they are relayed)"),
    key<&Plan::schedule>("schedule",
                         "a name, or the path of a CSV file relative to the plan's folder; "
                         "`vocab-1`, `vocab-2` and `interlaced` also divide the vocabulary over "
                         "the ranks ([theory.md](theory.md) 2.7): boundaries are as without; "
                         "`synctwice` and `vocab` are read as the first two"),
    maybe<&Plan::slices>(
        "slices",
        "| where above 1 | of each sequence, one after the other: as many as the schedule "
        "has; blocks are causal, `cp` is 1",
        {2, kMostSlices}),
    flag<&Plan::allow_reordered>(
        "allow_reordered",
        "| where true | gradients of the schedule may come out of micro-batch order"),
    inlined<&Plan::recompute, kRecompute, kRebuilds>,
    key<&Plan::optimizer, Object<kOptimizer, kAgrees>>("optimizer"),
    key<&Plan::slots>("slots", "receive slots an edge; 0: unlimited", {0, 1 << 20}),
    key<&Plan::seed>("seed", "of weights, data and dropout", {0, std::int64_t{1} << 53}),
    key<&Plan::note>("note", "free"),
    maybe<&Plan::job, Object<kJob, kNamesTool>>(
        "job", "| where read from a job | another tool's, which goes out again by `weir export`"),
};

// A mini-batch that M D does not divide: all micro-batches have b samples or b - 1, and some b - 1.
void check_samples(JsonObject& top, const Plan& plan) {
  if (!top.has("global_batch_size")) return;
  const std::int64_t all = std::int64_t{plan.microbatches} * plan.dp;
  const std::int64_t most = all * plan.micro_batch_size, least = most - all;
  if (plan.samples > least && plan.samples < most) return;
  top.fail("global_batch_size",
           fmt::format("{}: expected {} to {}, micro-batches of {} and {} samples (left out where "
                       "all have as many)",
                       plan.samples, least + 1, most - 1, plan.micro_batch_size,
                       plan.micro_batch_size - 1));
}

void check_placement(JsonObject& top, const Plan& plan) {
  if (!top.has("placement")) return;
  std::int64_t ranks = 0;
  for (const PlacedRanks& placed : plan.placement) ranks += placed.ranks;
  if (ranks != plan.pp)
    top.fail("placement", fmt::format("places {} ranks; expected all {}", ranks, plan.pp));
  if (plan.rank_order != RankOrder::tp_cp_dp_pp) {
    top.fail("placement",
             "expected with rank_order tp-cp-dp-pp only: a rank's devices stand in one pool");
  }
}

constexpr auto kFits = [](JsonObject& top, const Plan& plan) {
  check_samples(top, plan);
  if (plan.overlap_tensor_parallel && !plan.sequence_parallel)
    top.fail("overlap_tensor_parallel", "expected beside sequence_parallel only");
  if (plan.overlap_experts && plan.ep == 1)
    top.fail("overlap_experts", "expected beside ep above 1 only");
  check_placement(top, plan);
  if (plan.fp8 != Fp8Recipe::none && bytes_per_element(plan.dtype) != 2)
    top.fail("fp8", "expected beside dtype bf16 or fp16: the format of all else");
  if (plan.fp8_parameters && plan.fp8 == Fp8Recipe::none)
    top.fail("fp8_parameters", "expected beside fp8 only");
  if (plan.prediction_layers == 0 && top.has("prediction_weight"))
    top.fail("prediction_weight", "expected beside prediction_layers only");
  if (const auto misfit = cannot_share_state(plan)) top.fail(misfit->key, misfit->reason);
  if (const auto misfit = cannot_lie_in_rows(plan)) top.fail(misfit->key, misfit->reason);
  if (!plan.frozen.empty() && plan.lora.rank > 0)
    top.fail("frozen", "expected without lora, which freezes all of the model's own weights");
};

std::string one_line(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items())
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", Json(key).dump(), value.dump());
  return "{" + text + "}";
}

// Objects of lists: one line a text.
std::string of_lists(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    std::string written = value.dump();
    if (value.is_array() && !value.empty()) {
      written.clear();
      for (const Json& item : value)
        written += (written.empty() ? "\n      " : ",\n      ") + item.dump();
      written = fmt::format("[{}\n    ]", written);
    }
    text += fmt::format("{}\n    {}: {}", text.empty() ? "" : ",", Json(key).dump(), written);
  }
  return "{" + text + "\n  }";
}

}  // namespace
}  // namespace format

Json plan_json(const Plan& plan) {
  Json json = format::written(plan, format::kPlan);
  // Of R, which full has not.
  if (plan.recompute.mode == RecomputeMode::full) json.erase("recompute_placement");
  return json;
}

Json optimizer_json(const Optimizer& optimizer) {
  return format::written(optimizer, format::kOptimizer);
}

// One key a line, one boundary a line, the optimizer on one, a line of a job on one: what differs
// between two plans is the lines that differ.
std::string to_json(const Plan& plan) {
  std::string text;
  const Json json = plan_json(plan);
  for (const auto& [key, value] : json.items()) {
    std::string written = value.dump();
    if (value.is_object())
      written = key == "job" ? format::of_lists(value) : format::one_line(value);
    if (value.is_array() && !value.empty()) {
      written.clear();
      for (const Json& item : value)
        written += (written.empty() ? "\n    " : ",\n    ") + item.dump();
      written = fmt::format("[{}\n  ]", written);
    }
    text += fmt::format("{}  {}: {}", text.empty() ? "" : ",\n", Json(key).dump(), written);
  }
  return "{\n" + text + "\n}\n";
}

PlanFile read_plan(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  PlanFile read{format::read(top, format::kPlan, format::kFits), {}};
  // One name for each order: its source may have another.
  if (const Generator* generator = find_generator(read.plan.schedule))
    read.plan.schedule = generator->name;
  // Up to v0.1 a placement stood in every file and stage was written full: full with a placement is
  // an old file's stage, full without one is full.
  RecomputeMode& mode = read.plan.recompute.mode;
  if (mode == RecomputeMode::full && top.has("recompute_placement")) {
    mode = RecomputeMode::stage;
    read.remarks.emplace_back(
        "recompute: full with a recompute_placement is what v0.1 wrote for stage, and is read as "
        "stage; full as it is now has no placement");
  }
  return read;
}

Plan parse_plan(const std::string& text, const std::string& file) {
  return read_plan(text, file).plan;
}

std::vector<format::Section> plan_sections() {
  return {format::described("weir.plan/1", format::kPlan)};
}

}  // namespace weir
