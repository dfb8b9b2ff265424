// Reads weir.stack/1, key by key.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/format/keys.hpp"
#include "plan/job/formats.hpp"
#include "plan/job/stack.hpp"
#include "plan/job/stack_abilities.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/text_file.hpp"

namespace weir {
namespace format {
namespace {

constexpr Names<Width, 13> kWidths{{{Width::hidden, "hidden"},
                                    {Width::query, "query"},
                                    {Width::key_value, "key_value"},
                                    {Width::context, "context"},
                                    {Width::latents, "latents"},
                                    {Width::visits, "visits"},
                                    {Width::up, "up"},
                                    {Width::ffn, "ffn"},
                                    {Width::heads, "heads"},
                                    {Width::scores, "scores"},
                                    {Width::token, "token"},
                                    {Width::experts, "experts"},
                                    {Width::vocabulary, "vocabulary"}}};
constexpr Names<Blocks, 11> kBlocks{{{Blocks::all, "all"},
                                     {Blocks::dense, "dense"},
                                     {Blocks::experts, "experts"},
                                     {Blocks::latent, "latent"},
                                     {Blocks::direct, "direct"},
                                     {Blocks::rotary, "rotary"},
                                     {Blocks::gated, "gated"},
                                     {Blocks::drops_out, "drops_out"},
                                     {Blocks::drops_scores, "drops_scores"},
                                     {Blocks::plain_experts, "plain_experts"},
                                     {Blocks::biased_experts, "biased_experts"}}};
constexpr Names<Share, 3> kShares{
    {{Share::tensor, "tensor"}, {Share::sequence, "sequence"}, {Share::whole, "whole"}}};
constexpr Names<StagePlacement, 4> kStages{{{StagePlacement::layers, "layers"},
                                            {StagePlacement::embedding_head, "embedding_head"},
                                            {StagePlacement::cost, "cost"},
                                            {StagePlacement::middle, "middle"}}};

// What is moved or kept, of each number; launches; factors; shares; ZeRO's stages.
constexpr Range kBytes{0, 64}, kMoved{0, 256}, kLaunches{0, 1000};
constexpr Range kRatio{1, 10}, kPart{0, 1}, kZero{0, 3};
// Of those whose range another key decides: anything, until that is read.
constexpr Range kLater{std::numeric_limits<double>::lowest()};

// By which modules' re-materialisation a tensor is made again; the first of them had a key of its
// own before there were others.
struct Core {
  static constexpr const char* kType = "boolean";
  static void read(const Spec& key, JsonObject& object, ModuleSet& modules) {
    if (object.boolean(key.name)) modules |= BlockModule::core_attn;
  }
};
struct Modules {
  static constexpr const char* kType = "list of texts";
  static void read(const Spec& key, JsonObject& object, ModuleSet& modules) {
    for (const std::string& name : object.texts(key.name)) {
      const auto module = named(kBlockModules, name);
      if (!module) object.fail(key.name, name + ": expected modules of blocks, as moe_act");
      modules |= *module;
    }
  }
};
constexpr Key<KeptRule> kKept[] = {
    key<&KeptRule::tensor>("tensor"),
    key<&KeptRule::width, Named<kWidths>>(
        "width",
        "numbers a token: `hidden`, `query`, `key_value`, `context` (what heads give), `latents` "
        "(of latent attention), `visits` (hidden for every expert visited), `up`, `ffn`, `heads`,"
        " `scores`, `token`, `experts` (one number an expert)"),
    key<&KeptRule::bytes>("bytes", "bytes | always | for each number", kBytes),
    or_null<&KeptRule::fp8>(
        "fp8", "bytes | may be left out: as `bytes` | the same where products are in 8 bits",
        kBytes),
    maybe<&KeptRule::share, Named<kShares>>(
        "share",
        "| may be left out: `tensor` | who divides it: `tensor`, `sequence` (under sequence "
        "parallelism only), `whole`"),
    or_null<&KeptRule::until_i>("until_i", "| may be left out: false | freed by I, not by W"),
    maybe<&KeptRule::blocks, Named<kBlocks>>(
        "blocks",
        "| may be left out: `all` | which blocks have it: `dense`, `experts`, `plain_experts` "
        "(without a gate), `biased_experts`, `latent` (attention), `direct` (no latents), "
        "`rotary`, `gated` (MLP), `drops_out` "
        "(dropout of what attention and MLP give), `drops_scores` (of attention's probabilities)"),
    or_null<&KeptRule::rebuilt_by, Core>(
        "attention_core", "| may be left out: false | as `core_attn` in `rebuilt_by`"),
    maybe<&KeptRule::rebuilt_by, Modules>(
        "rebuilt_by",
        "| may be left out: none | selective re-materialisation of any of these modules makes it "
        "again: `core_attn`, `layernorm`, `mla_up_proj`, `mlp`, `moe`, `moe_act`, "
        "`shared_experts`"),
    maybe<&KeptRule::weights_of, Named<kBlockProducts>>(
        "weights_of",
        "| may be left out: none | the product whose weights' gradient alone reads it, which is "
        "not kept where they are frozen: `linear_qkv`, `linear_proj`, `linear_fc1`, `linear_fc2`"),
    or_null<&KeptRule::before_activation>(
        "before_activation",
        "| may be left out: false | not kept where the MLP's activation is ReLU"),
};
constexpr Key<ExtraStream> kStream[] = {
    key<&ExtraStream::what>("what"),
    key<&ExtraStream::width, Named<kWidths>>("width", "as in `memory.block[]`"),
    or_null<&ExtraStream::forward>(
        "forward", "bytes | may be left out: 0 | moved in F for each number", kMoved),
    or_null<&ExtraStream::backward>("backward",
                                    "bytes | may be left out: 0 | moved in the backward", kMoved),
    maybe<&ExtraStream::share, Named<kShares>>(
        "share", "| may be left out: `tensor` | as in `memory.block[]`"),
    or_null<&ExtraStream::kernels>("kernels", "| may be left out: 1 | launches", {0, 1000}),
    maybe<&ExtraStream::blocks, Named<kBlocks>>(
        "blocks", "| may be left out: `all` | which blocks do it, as in `memory.block[]`"),
    or_null<&ExtraStream::each_expert>(
        "each_expert",
        "| may be left out: false | `kernels` are launched for each of the device's experts, one "
        "after the other"),
    maybe<&ExtraStream::with_fp8>("with_fp8",
                                  "| may be left out: true | also where products are in 8 bits"),
};
constexpr Key<StepwiseKernels> kSteps[] = {
    key<&StepwiseKernels::forward>("forward",
                                   "bytes | always | all steps move for each number, in F", kMoved),
    key<&StepwiseKernels::backward>("backward", "bytes | always | the same in the backward",
                                    kMoved),
    key<&StepwiseKernels::kernels_forward>("kernels_forward", "how many steps there are, in F",
                                           {1, 1000}),
    key<&StepwiseKernels::kernels_backward>("kernels_backward", "the same in the backward",
                                            {1, 1000}),
    maybe<&StepwiseKernels::with_fp8>(
        "with_fp8", "| may be left out: true | false: one kernel where products are in 8 bits"),
};

constexpr Key<StackMemory> kMemory[] = {
    maybe<&StackMemory::block, Objects<kKept>>(
        "block",
        "| may be left out: nothing but the input | what a block keeps from F to its backward"),
    or_null<&StackMemory::logits_kept>(
        "logits_kept", "bytes a logit | may be left out: 0 | from F to the backward", kBytes),
    or_null<&StackMemory::logits_forward>(
        "logits_forward", "bytes a logit | may be left out: 0 | in F, at its worst", kBytes),
    or_null<&StackMemory::logits_backward>(
        "logits_backward", "bytes a logit | may be left out: 0 | in the backward, at its worst",
        kBytes),
    or_null<&StackMemory::weights>(
        "weights", "bytes a parameter | may be left out: as the number format |", kBytes),
    or_null<&StackMemory::gradients>(
        "gradients", "bytes a parameter | may be left out: 4 | where they accumulate", kBytes),
    or_null<&StackMemory::gradients_come>(
        "gradients_come",
        "| may be left out: false | gradients come with a step's first backward, layer by layer, "
        "and go with the update; else they are held throughout"),
    or_null<&StackMemory::optimizer>("optimizer", "bytes a parameter | may be left out: 12 |",
                                     kBytes),
    or_null<&StackMemory::backward_gradients>(
        "backward_gradients",
        "bytes a parameter | may be left out: 0 | of one backward, whole until it ends", kBytes),
    or_null<&StackMemory::pipeline_weights>(
        "pipeline_weights",
        "bytes a parameter | may be left out: 0 | held beside ZeRO-3's shards where stages pass "
        "micro-batches on: gathered once a step and kept; 0: each pass gathers and reduces anew",
        kBytes),
    or_null<&StackMemory::pipeline_gradients>(
        "pipeline_gradients",
        "bytes a parameter | may be left out: 0 | the same of gradients, summed whole until the "
        "last backward",
        kBytes),
    or_null<&StackMemory::buckets>(
        "buckets",
        "bytes a parameter | may be left out: 0 | permanent, where replicas share no state",
        kBytes),
    or_null<&StackMemory::fp8_weights>(
        "fp8_weights",
        "bytes a parameter | may be left out: 0 | copies of weights for products in 8 bits",
        kBytes),
    or_null<&StackMemory::at_update>(
        "at_update",
        "bytes a parameter | may be left out: 0 | of gathers and casts at the end of a step, "
        "under ZeRO; held throughout",
        kBytes),
    or_null<&StackMemory::pending>(
        "pending",
        "buffers | may be left out: 0 | of a gathered micro-batch that collectives hold on to, tp"
        " > 1, where the host is far ahead of the device",
        {0, 1e4}),
    or_null<&StackMemory::pending_least>(
        "pending_least", "buffers | may be left out: 0 | the same where it is not", kLater),
    or_null<&StackMemory::pending_nodes>(
        "pending_nodes",
        "nodes | may be left out: 0 | that a tensor group may be on whose warm-up holds on to its"
        " gathers too",
        {0, 1e4}),
    or_null<&StackMemory::pending_spread>(
        "pending_spread",
        "| may be left out: 1 | factor by which such a peak may be off, to either side", kRatio),
    or_null<&StackMemory::reserved_expected>(
        "reserved_expected", "| may be left out: 1 | reserved over allocated", kRatio),
    or_null<&StackMemory::reserved_most>("reserved_most",
                                         "| may be left out: 1 | the same, at most", kLater),
    or_null<&StackMemory::crowded>(
        "crowded",
        "| may be left out: 1 | share of the device's memory from which on pipelines are warned "
        "of an allocator that frees and asks again",
        kPart),
    maybe<&StackMemory::libraries, WithUnit>(
        "libraries",
        "bytes | may be left out: 0 | workspaces of libraries out of the allocator, from the first "
        "product on")
        .expect("expected an amount with its unit, as \"1 GiB\""),
    maybe<&StackMemory::expert_libraries, WithUnit>(
        "expert_libraries", "bytes | may be left out: 0 | on top of a model with experts")
        .expect("expected an amount with its unit, as \"1 GiB\""),
    maybe<&StackMemory::process, WithUnit>(
        "process", "bytes | may be left out: the device's | beside the tensors")
        .expect("expected an amount with its unit, as \"1 GiB\""),
};
constexpr auto kWithin = [](JsonObject& object, const StackMemory& memory) {
  static_cast<void>(object.number_or("pending_least", 0, 0, memory.pending));
  const double least = memory.reserved_expected;
  static_cast<void>(object.number_or("reserved_most", least, least, kRatio.high));
};

constexpr Key<StackTime> kTimes[] = {
    maybe<&StackTime::attention, Named<kAttentionLibraryNames>>(
        "attention",
        "| may be left out: `flash2` | library of fused attention: `flash1`, `flash2`, `flash3`, "
        "`cudnn`"),
    maybe<&StackTime::launch, WithUnit>(
        "launch", "s | may be left out: the device's | of one kernel by the host"),
    or_null<&StackTime::blocking_launches>(
        "blocking_launches", "| may be left out: false | the host waits for each kernel"),
    maybe<&StackTime::block, Objects<kStream>>(
        "block", "| may be left out: none | element-wise work beside the listed"),
    or_null<&StackTime::block_kernels_forward>(
        "block_kernels_forward", "| may be left out: 0 | launches a block beside the listed, in F",
        kLaunches),
    or_null<&StackTime::block_kernels_backward>(
        "block_kernels_backward", "| may be left out: 0 | the same in the backward", kLaunches),
    or_null<&StackTime::tensor_kernels>(
        "tensor_kernels", "| may be left out: 0 | beside each collective of tensor parallelism",
        kLaunches),
    or_null<&StackTime::kernels_a_tensor>(
        "kernels_a_tensor", "| may be left out: 0 | launches a parameter tensor at the update",
        kLaunches),
    maybe<&StackTime::norm, Object<kSteps>>(
        "norm", "| may be left out: one kernel | norms in steps, a kernel each"),
    maybe<&StackTime::softmax, Object<kSteps>>(
        "softmax",
        "| may be left out: one kernel | the same of attention that is not fused, for each score"),
    or_null<&StackTime::accumulate>(
        "accumulate",
        "bytes a parameter | may be left out: 0 | moved for each micro-batch, to add up gradients",
        kBytes),
    or_null<&StackTime::embedding>(
        "embedding",
        "bytes a parameter | may be left out: 0 | of the embedding's tables, moved for each "
        "micro-batch: their gradient is as large as they",
        kBytes),
    or_null<&StackTime::logits>(
        "logits", "bytes a logit | may be left out: 0 | moved in F beside the listed", kBytes),
    or_null<&StackTime::logits_backward>(
        "logits_backward",
        "bytes a logit | may be left out: as `logits` | the same in the backward", kBytes),
    or_null<&StackTime::tensor_overlap>(
        "tensor_overlap",
        "share | may be left out: 0 | of tensor-parallel traffic that runs beside products where "
        "the plan says `overlap_tensor_parallel`",
        kPart),
    or_null<&StackTime::expert_overlap>(
        "expert_overlap",
        "share | may be left out: 0 | of the experts' all-to-all exchanges that runs beside "
        "another micro-batch's work where the plan says `overlap_experts`, less what it slows",
        kPart),
    or_null<&StackTime::overlap_slowdown>(
        "overlap_slowdown",
        "share | may be left out: 0 | of the time that traffic runs beside work, by which both "
        "are slowed: that of sharded replicas beside a layer, of reductions beside the backward, "
        "of gathers beside the forward, of sums beside weights' gradients",
        kPart),
    or_null<&StackTime::tensor_beside_weights>(
        "tensor_beside_weights",
        "| may be left out: false | in other plans, sums of inputs' gradients run beside the "
        "products of weights' ones"),
    or_null<&StackTime::rebuild_stops_early>(
        "rebuild_stops_early",
        "| may be left out: false | a rebuilt block leaves out its last product and its experts' "
        "way back, which no backward needs"),
    or_null<&StackTime::experts_sent_once>(
        "experts_sent_once",
        "| may be left out: false | where experts are on several nodes a token travels once to "
        "each device that has some of its "
        "experts, and crosses once to each node (DeepEP), not once for each expert"),
    or_null<&StackTime::regathers>(
        "regathers", "| may be left out: false | the backward gathers kept shards again"),
    or_null<&StackTime::blocking_offload>(
        "blocking_offload",
        "| may be left out: false | what blocks keep with the host (`offload_activations`) is "
        "copied while the device waits, not beside other blocks' work"),
    or_null<&StackTime::blocking_messages>(
        "blocking_messages",
        "| may be left out: false | a pipeline's message keeps its sender waiting"),
    maybe<&StackTime::message, WithUnit>("message",
                                         "s | may be left out: 0 | host time about a message"),
    maybe<&StackTime::block_host_forward, WithUnit>(
        "block_host_forward",
        "s | may be left out: 0 | the host's time for a block's modules, hooks and launches in F:"
        " what F takes at least"),
    maybe<&StackTime::block_host_backward, WithUnit>(
        "block_host_backward", "s | may be left out: 0 | the same in the backward"),
    maybe<&StackTime::expert_host_forward, WithUnit>(
        "expert_host_forward",
        "s | may be left out: as `block_host_forward` | the same of a block with experts"),
    maybe<&StackTime::expert_host_backward, WithUnit>(
        "expert_host_backward",
        "s | may be left out: as `block_host_backward` | the same in the backward"),
    maybe<&StackTime::collective_host, WithUnit>(
        "collective_host",
        "s | may be left out: 0 | the host about each collective of a block under tensor "
        "parallelism, with the kernels and calls up to the next"),
    maybe<&StackTime::collective_host_across, WithUnit>(
        "collective_host_across",
        "s | may be left out: 0 | on top, for each device of tp, where stages are on several "
        "nodes"),
    or_null<&StackTime::reduced_gradients>(
        "reduced_gradients", "bytes a parameter | may be left out: 4 | on the wire", {0.5, 8}),
    or_null<&StackTime::reduces_whole>("reduces_whole",
                                       "| may be left out: false | ZeRO-1 all-reduces gradients"),
    maybe<&StackTime::overlaps_reduction>(
        "overlaps_reduction", "| may be left out: the plan says | with the last backward"),
    maybe<&StackTime::overlaps_gather>(
        "overlaps_gather",
        "| may be left out: the plan says | updated weights arrive during the next forward"),
    or_null<&StackTime::update>(
        "update", "bytes a parameter | may be left out: as Weir's | moved by the optimizer",
        kMoved),
    maybe<&StackTime::step, WithUnit>("step", "s | may be left out: 0 | host time a step"),
};
// Where they are left out: F's of the logits, and as the plan says.
constexpr auto kElse = [](const JsonObject& object, StackTime& time) {
  if (!object.has("logits_backward") || object.is_null("logits_backward"))
    time.logits_backward = time.logits;
  if (!object.has("overlaps_gather")) time.overlaps_gather.reset();
};

// A list of words that `kParse` knows.
template <auto kParse>
struct Words {
  static constexpr const char* kType = "list of texts";
  static void read(const Spec& key, JsonObject& object, auto& values) {
    for (const std::string& word : object.texts(key.name)) {
      const auto value = kParse(word);
      if (!value) object.fail(key.name, fmt::format("{} is none of its words", word));
      values.push_back(*value);
    }
  }
};
constexpr auto kGenerator = [](const std::string& name) {
  return find_generator(name) == nullptr ? std::nullopt : std::optional(name);
};
constexpr auto kMode = [](std::string_view word) {
  const auto recompute = parse_recompute_word(word);
  return recompute ? std::optional(recompute->mode) : std::nullopt;
};
constexpr Key<StackAbilities> kAbilities[] = {
    or_null<&StackAbilities::pipeline>("pipeline", "| may be left out: true | more than one rank"),
    or_null<&StackAbilities::tied_pipeline>(
        "tied_pipeline",
        "| may be left out: true | pipelines of models whose head multiplies by the embedding's "
        "table"),
    maybe<&StackAbilities::schedules, Words<kGenerator>>("schedules",
                                                         "| may be left out: all | of pipelines"),
    maybe<&StackAbilities::zero>("zero", "| may be left out: all | ZeRO stages of pipelines",
                                 kZero),
    maybe<&StackAbilities::zero_without_pipeline>(
        "zero_without_pipeline", "| may be left out: all | and where K is 1", kZero),
    maybe<&StackAbilities::recompute, Words<kMode>>(
        "recompute", "| may be left out: all | `none`, `selective`, `full`, `stage`"),
    maybe<&StackAbilities::rank_orders, Words<parse_rank_order>>(
        "rank_orders", "| may be left out: all | `tp-cp-dp-pp`, `tp-cp-pp-dp`"),
    or_null<&StackAbilities::overlap_grad_reduce>(
        "overlap_grad_reduce",
        "| may be left out: true | gradients can be reduced beside the last backward"),
    or_null<&StackAbilities::cuda_graphs>(
        "cuda_graphs", "| may be left out: true | steps or blocks can be launched as CUDA graphs"),
    or_null<&StackAbilities::context_parallel>(
        "context_parallel",
        "| may be left out: true | sequences can be divided over devices (`cp`)"),
    or_null<&StackAbilities::dynamic_cp>(
        "dynamic_cp",
        "| may be left out: true | sequences can have as many context-parallel devices as their "
        "lengths need"),
    or_null<&StackAbilities::offload_optimizer>(
        "offload_optimizer",
        "| may be left out: true | the host can keep and update the optimizer's state"),
    or_null<&StackAbilities::offload_activations>(
        "offload_activations",
        "| may be left out: true | what blocks keep can wait in the host's memory"),
    or_null<&StackAbilities::whole_rounds>(
        "whole_rounds", "| may be left out: false | with v > 1, M is a multiple of K"),
};
// Kept apart from the stack: searches read them.
struct Abilities {
  static constexpr const char* kType = "object";
  static void read(const Spec& key, JsonObject& object, const Stack&) {
    static_cast<void>(read_abilities(object.object(key.name)));
  }
  static void describe(const std::string& path, Rows& rows) {
    Object<kAbilities>::describe(path, rows);
  }
};

constexpr Key<Stack> kStack[] = {
    key<kWhole, Schema>("schema").expect("weir.stack/1"),
    key<&Stack::name>("name"),
    maybe<&Stack::origins, ByPath>("origins", "from a constant's path to where it comes from"),
    key<&Stack::placement, Named<kStages>>(
        "placement",
        "where stages begin: `layers` (equal numbers of blocks), `embedding_head` (embedding and "
        "head count as a block each), `cost` (nanotron's sums of products), `middle` (the "
        "remainder behind the first stage)"),
    or_null<&Stack::empty_stages>("empty_stages",
                                  "| may be left out: false | a stage may be without a layer"),
    or_null<&Stack::lone_norm>("lone_norm",
                               "| may be left out: true | a stage may have the final norm alone"),
    or_null<&Stack::fp8>("fp8", "| may be left out: false | products of blocks in 8 bits"),
    maybe<&Stack::memory, Object<kMemory, kWithin>>("memory",
                                                    "| may be left out: as Weir's executor |"),
    maybe<&Stack::time, Object<kTimes, kElse>>("time", "| may be left out: as the kernel model |"),
    maybe<kWhole, Abilities>(
        "abilities",
        "| may be left out: all | what the software runs of what a plan may choose; a search "
        "keeps to it, and what lies outside is named. A list that is left out or empty: all"),
};

}  // namespace
}  // namespace format

Stack parse_stack(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  Stack stack = format::read(top, format::kStack);
  stack.own_tensors = !top.has("memory");
  check_origins(json, stack.origins, file);
  return stack;
}

Stack load_stack(const std::filesystem::path& file) {
  return parse_stack(read_text_file(file), file.string());
}

StackAbilities read_abilities(JsonObject object) {
  return format::read(object, format::kAbilities);
}

StackAbilities parse_abilities(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  return top.has("abilities") ? read_abilities(top.object("abilities")) : StackAbilities{};
}

std::vector<format::Section> stack_sections() {
  return {format::described("weir.stack/1", format::kStack)};
}

}  // namespace weir
