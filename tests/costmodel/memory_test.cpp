// What a device holds, by hand: ZeRO's shares, selective re-materialisation, the allocator's steps,
// the process.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/memory.hpp"

#include <gtest/gtest.h>

#include "costmodel/memory/pending.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "plan/job/stack_part.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::memory_test {
namespace {

// One block, s = 8, h = 32, 4 heads of 8, f = 128, bf16, b = 2. 12 h^2 + 13 h = 12704 parameters.
struct OneStage {
  Plan plan;
  Model model;

  [[nodiscard]] ResolvedPlan resolved() const {
    return derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 1})));
  }
  [[nodiscard]] Footprint of(ActionKind kind, bool remat = false) const {
    const ResolvedPlan r = resolved();
    return StageMemory(r.plan, *r.part, r.stages[0], Allocator::arena).of(kind, remat);
  }
  [[nodiscard]] std::int64_t state() const {
    const ResolvedPlan r = resolved();
    return total_bytes(StageMemory(r.plan, *r.part, r.stages[0], Allocator::arena).parameters());
  }
};
OneStage one_block() {
  OneStage stage;
  stage.model.layers = {
      {"b", TransformerShape{.hidden = 32, .heads = 4, .kv_heads = 4, .head_dim = 8, .ffn = 128},
       ""}};
  stage.plan.seq_length = 8;
  stage.plan.dtype = Dtype::bf16;
  stage.plan.micro_batch_size = 2;
  return stage;
}

// 18 bytes a parameter; of four replicas ZeRO-1 leaves 2 + 4 + 3, ZeRO-2 2 + 1 + 3, ZeRO-3 0.5 + 1
// + 3. Width 128 here, so that a quarter of the shortest tensor in any format is a multiple of 64
// bytes.
TEST(Memory, ZeroDividesTheState) {
  OneStage loaded = one_block();
  std::get<TransformerShape>(loaded.model.layers[0].shape) = {
      .hidden = 128, .heads = 4, .kv_heads = 4, .head_dim = 32, .ffn = 512};
  loaded.plan.dp = 2;
  loaded.plan.cp = 2;
  const auto bytes = [&](int zero) {
    loaded.plan.zero = zero;
    return loaded.state();
  };
  const std::int64_t parameters = 12 * 128 * 128 + 13 * 128;
  EXPECT_EQ(bytes(0), 18 * parameters);
  EXPECT_EQ(bytes(1), 9 * parameters);
  EXPECT_EQ(bytes(2), 6 * parameters);
  EXPECT_EQ(bytes(3), 9 * parameters / 2);
}

// Five numbers: the weight 10 or 20 bytes, its gradient, the master copy and two moments 20 each,
// every one of them a tensor that takes 64. bf16: 5 tensors, fp32: 4, and without moments 2.
TEST(Memory, EveryTensorOfTheStateIsRoundedUp) {
  OneStage loaded = one_block();
  loaded.model.layers = {{"five", TimedShape{.parameters = 5}, ""}};
  const auto bytes = [&] { return loaded.state(); };
  EXPECT_EQ(bytes(), 5 * 64);
  loaded.plan.dtype = Dtype::fp32;
  EXPECT_EQ(bytes(), 4 * 64);
  loaded.plan.optimizer = {.kind = OptimizerKind::sgd};
  EXPECT_EQ(bytes(), 2 * 64);
}

// F leaves the probabilities, 4 heads x 8 x 8 x 2 bytes x 2 samples = 1024, behind unless it is
// selective; the backward then has them again, so its worst moment loses nothing.
TEST(Memory, SelectiveDropsTheAttentionCore) {
  OneStage loaded = one_block();
  const Footprint f = loaded.of(ActionKind::F), b = loaded.of(ActionKind::B);
  loaded.plan.recompute.mode = RecomputeMode::selective;
  const Footprint fs = loaded.of(ActionKind::F), bs = loaded.of(ActionKind::B);
  EXPECT_EQ(total_bytes(f.net) - total_bytes(fs.net), 1024);
  EXPECT_EQ(total_bytes(fs.worst), total_bytes(f.worst));
  EXPECT_EQ(total_bytes(bs.worst) - total_bytes(b.worst),
            1024);  // counted from the backward's start, 1024 lower
  EXPECT_EQ(total_bytes(fs.net) + total_bytes(bs.net), total_bytes(f.net) + total_bytes(b.net));
  EXPECT_EQ(bs.worst[MemoryKind::rematerialised], 1024);
}

// A stack's rules: of 8 tokens, 2 samples and 2 bytes a number, the norm's 32 numbers a token are
// 1024 bytes and the MLP's 128 are 4096. What is named is dropped, and made again in the backward;
// what is of other blocks is not there: this one has no experts, and its dropout masks, a byte a
// number, come with dropout alone.
TEST(Memory, SelectiveDropsTheModulesThatAreNamed) {
  OneStage loaded = one_block();
  Stack stack{.own_tensors = false};
  stack.memory.block = {
      {.tensor = "norm", .width = Width::hidden, .rebuilt_by = BlockModule::layernorm},
      {.tensor = "MLP",
       .width = Width::ffn,
       .blocks = Blocks::dense,
       .rebuilt_by = BlockModule::mlp},
      {.tensor = "experts", .width = Width::ffn, .blocks = Blocks::experts},
      {.tensor = "masks", .width = Width::hidden, .bytes = 1, .blocks = Blocks::drops_out}};
  const auto kept = [&](const char* word, ActionKind kind) {
    loaded.plan.recompute = parse_recompute_word(word).value();
    const ResolvedPlan r = loaded.resolved();
    const ModelPart part = stack_part(r.model, 8, Dtype::bf16, {}, stack);
    const Footprint f =
        StageMemory(r.plan, part, r.stages[0], Allocator::arena, stack).of(kind, false);
    return kind == ActionKind::F ? total_bytes(f.net) : f.worst[MemoryKind::rematerialised];
  };
  const std::int64_t all = kept("none", ActionKind::F);
  EXPECT_EQ(all - kept("selective:layernorm", ActionKind::F), 1024);
  EXPECT_EQ(all - kept("selective:layernorm+mlp", ActionKind::F), 1024 + 4096);
  EXPECT_EQ(all - kept("selective:moe+moe_act", ActionKind::F), 0);
  EXPECT_EQ(kept("selective:layernorm+mlp", ActionKind::B), 1024 + 4096);
  std::get<TransformerShape>(loaded.model.layers[0].shape).residual_dropout = 0.1;
  EXPECT_EQ(kept("none", ActionKind::F) - all, 512);
}

// Of 16 tokens at 2 bytes a number two visited experts keep 2 x 128 x 32 bytes of a product, and
// shared ones of 64 keep 64 x 32: with `moe` all is made again, with `moe_act` what is sent to
// experts, with `shared_experts` the rest (Megatron-Core, transformer/moe/moe_layer.py).
TEST(Memory, SharedExpertsAreRebuiltByThemselvesOrWithAll) {
  OneStage loaded = one_block();
  auto& block = std::get<TransformerShape>(loaded.model.layers[0].shape);
  block.experts = 4;
  block.experts_per_token = 2;
  block.shared_ffn = 64;
  Stack stack{.own_tensors = false};
  ModuleSet all = BlockModule::moe;
  all |= BlockModule::moe_act;
  stack.memory.block = {{.tensor = "activation", .width = Width::ffn, .rebuilt_by = all}};
  const auto kept = [&](const char* word, double load) {
    loaded.plan.recompute = parse_recompute_word(word).value();
    const ResolvedPlan r = loaded.resolved();
    Split split;
    split.expert_load = load;
    const ModelPart part = stack_part(r.model, 8, Dtype::bf16, split, stack);
    return total_bytes(StageMemory(r.plan, part, r.stages[0], Allocator::arena, stack)
                           .of(ActionKind::F, false)
                           .net);
  };
  const std::int64_t none = kept("none", 1);
  EXPECT_EQ(none - kept("selective:moe_act", 1), 8192);
  EXPECT_EQ(none - kept("selective:shared_experts", 1), 2048);
  EXPECT_EQ(none - kept("selective:moe_act+shared_experts", 1), 8192 + 2048);
  EXPECT_EQ(none - kept("selective:moe", 1), 8192 + 2048);
  // Half as much again at the fullest of them: shared experts have every token as before.
  EXPECT_EQ(kept("none", 1.5) - none, 4096);
}

// Embedding and head of 64 x 32 numbers that are one weight, in bf16: weight 2 and state 12 bytes
// each are held once. Weir's executor has a gradient for either use, 4 bytes each; autograd adds
// both up in one.
TEST(Memory, AStacksTiedWeightHasOneGradient) {
  OneStage loaded = one_block();
  loaded.model.layers = {
      {"embedding", EmbeddingShape{.vocabulary = 64, .hidden = 32, .tied = true}, ""},
      {"head", HeadShape{.vocabulary = 64, .hidden = 32, .tied = true}, ""}};
  const std::int64_t numbers = 64 * 32;
  EXPECT_EQ(loaded.state(), numbers * (2 + 12 + 2 * 4));
  const ResolvedPlan r = loaded.resolved();
  const Stack stack{.own_tensors = false};
  const StageMemory memory(r.plan, *r.part, r.stages[0], Allocator::arena, stack);
  EXPECT_EQ(total_bytes(memory.parameters()), numbers * (2 + 12 + 4));
}

// With fused attention only the statistics are there to be dropped: 4 heads x 8 rows x 4 bytes x 2
// samples = 256.
TEST(Memory, SelectiveLeavesLittleOfAFusedCore) {
  OneStage loaded = one_block();
  const std::int64_t unfused = total_bytes(loaded.of(ActionKind::F).net);
  set_attention(loaded.model, AttentionKind::fused);
  const std::int64_t kept = total_bytes(loaded.of(ActionKind::F).net);
  EXPECT_EQ(unfused - kept, 1024 - 256);
  loaded.plan.recompute.mode = RecomputeMode::selective;
  EXPECT_EQ(kept - total_bytes(loaded.of(ActionKind::F).net), 256);
}

// Of two blocks F leaves their outputs, 8 x 32 x 2 bytes x 2 samples = 1024 each, and with `full`
// nothing else: the first one's is the input that the second is rebuilt from. The backward makes
// one block's tensors at a time, S: its worst moment, I of the second block, has that much more
// than without, and the first block's S is made when the second's is gone.
TEST(Memory, FullRebuildsALayerAtATime) {
  OneStage loaded = one_block();
  loaded.model.layers.push_back(loaded.model.layers.front());
  const Footprint f = loaded.of(ActionKind::F), b = loaded.of(ActionKind::B);
  const std::int64_t saved = (total_bytes(f.net) - 2 * 1024) / 2;
  loaded.plan.recompute.mode = RecomputeMode::full;
  const Footprint ff = loaded.of(ActionKind::F, true), bf = loaded.of(ActionKind::B, true);
  EXPECT_EQ(total_bytes(ff.net), 2 * 1024);
  EXPECT_EQ(ff.net[MemoryKind::activations], 2 * 1024);
  EXPECT_EQ(total_bytes(bf.worst) - total_bytes(b.worst), saved);
  EXPECT_EQ(bf.worst[MemoryKind::rematerialised], saved);
  EXPECT_EQ(bf.net[MemoryKind::rematerialised], 0);
  EXPECT_EQ(total_bytes(ff.net) + total_bytes(bf.net), total_bytes(f.net) + total_bytes(b.net));
  // The micro-batch that is spared is as without.
  EXPECT_EQ(loaded.of(ActionKind::F, false).net, f.net);
  EXPECT_EQ(loaded.of(ActionKind::B, false).worst, b.worst);
  // Only the second block: the first keeps what it saves.
  loaded.plan.recompute.layers = {{1, 2}};
  EXPECT_EQ(total_bytes(loaded.of(ActionKind::F, true).net), 2 * 1024 + saved);
}

// Five blocks, two at a time: chunks of blocks 0 and 1, 2 and 3, and 4 alone. F leaves the inputs
// of blocks 2 and 4 and the last output, 3 x 1024 (of block 0 it is the stage's input, none here).
// With x the worst moment of a block's backward without re-materialisation and S what a block
// saves: at block 4's, x + S are live; then its kept input goes, and at block 3's are x - 1024 + 2
// S and block 3's input, 1024, that was rebuilt with it: x + 2 S, the most.
TEST(Memory, FullRebuildsAChunkAtATime) {
  OneStage loaded = one_block();
  loaded.model.layers.assign(5, loaded.model.layers.front());
  const Footprint f = loaded.of(ActionKind::F), b = loaded.of(ActionKind::B);
  const std::int64_t saved = (total_bytes(f.net) - 5 * 1024) / 5;
  loaded.plan.recompute = parse_recompute_word("full:2").value();
  const Footprint ff = loaded.of(ActionKind::F, true), bf = loaded.of(ActionKind::B, true);
  EXPECT_EQ(ff.net[MemoryKind::activations], 3 * 1024);
  EXPECT_EQ(total_bytes(ff.net), 3 * 1024);
  EXPECT_EQ(total_bytes(bf.worst) - total_bytes(b.worst), 2 * saved);
  EXPECT_EQ(bf.worst[MemoryKind::rematerialised], 2 * saved + 1024);
  EXPECT_EQ(bf.net[MemoryKind::rematerialised], 0);
  EXPECT_EQ(total_bytes(ff.net) + total_bytes(bf.net), total_bytes(f.net) + total_bytes(b.net));
  EXPECT_EQ(loaded.of(ActionKind::F, false).net, f.net);
  // Apart, all chunks are rebuilt by I, and W has of each block what its products read (below).
  const Footprint i = loaded.of(ActionKind::I, true), w = loaded.of(ActionKind::W, true);
  EXPECT_EQ(i.net[MemoryKind::rematerialised], 5 * (3 * 1024 + 4096));
  EXPECT_EQ(w.net[MemoryKind::rematerialised], -5 * (3 * 1024 + 4096));
  // All five at once: the last output is left, and all that is saved lives with four inputs.
  loaded.plan.recompute = parse_recompute_word("full:9").value();
  EXPECT_EQ(total_bytes(loaded.of(ActionKind::F, true).net), 1024);
  EXPECT_EQ(loaded.of(ActionKind::B, true).worst[MemoryKind::rematerialised], 5 * saved + 4 * 1024);
}

// Apart, I rebuilds and W has what its products read: the two norms' outputs and the context, 1024
// each, and the activation of width 128, 4096.
TEST(Memory, WhatWReadsOfARebuiltLayerLivesUntilW) {
  OneStage loaded = one_block();
  loaded.plan.recompute.mode = RecomputeMode::full;
  const Footprint i = loaded.of(ActionKind::I, true), w = loaded.of(ActionKind::W, true);
  EXPECT_EQ(i.net[MemoryKind::rematerialised], 3 * 1024 + 4096);
  EXPECT_EQ(w.net[MemoryKind::rematerialised], -(3 * 1024 + 4096));
  EXPECT_EQ(
      total_bytes(loaded.of(ActionKind::F, true).net) + total_bytes(i.net) + total_bytes(w.net), 0);
}

// Four actions of one rank and the update, 10 ns each. What the second takes is no matter: without
// a length it lies between the first and the third, as ever, and each is counted.
TEST(Memory, AnActionOfNoLengthIsOverBeforeTheNext) {
  OneStage one = one_block();
  one.plan.microbatches = 2;
  one.plan.recompute.mode = RecomputeMode::full;
  const ResolvedPlan loaded =
      derive(one.plan, one.model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 2})));
  const auto peak = [&](std::int64_t second) {
    std::vector<Span> spans(loaded.program.size());
    std::int64_t now = 0;
    int place = 0;
    for (const OperationId id : loaded.program.compute_lane(Rank{0}).operations()) {
      Span& span = spans[static_cast<std::size_t>(id.value)];
      span.start = Nanoseconds(now);
      now += place++ == 1 ? second : 10;
      span.end = Nanoseconds(now);
    }
    return memory_peaks(loaded, loaded.program, std::span<const Span>(spans), std::vector<Bytes>(1))
        .front();
  };
  const RankMemory long_one = peak(10), instant = peak(0);
  EXPECT_EQ(instant.peak, long_one.peak);
  for (const MemoryKind kind : kMemoryKinds)
    EXPECT_EQ(instant.at_peak[kind], long_one.at_peak[kind]) << to_string(kind);
}

// 1 byte and 64, 512, 10 MiB and one more.
TEST(Memory, AllocatorsRoundUp) {
  EXPECT_EQ(allocated_bytes(1, Allocator::arena), 64);
  EXPECT_EQ(allocated_bytes(1, Allocator::pytorch), 512);
  EXPECT_EQ(allocated_bytes(513, Allocator::pytorch), 1024);
  EXPECT_EQ(allocated_bytes(10 << 20, Allocator::pytorch), 10 << 20);
  EXPECT_EQ(allocated_bytes((10 << 20) + 1, Allocator::pytorch), 12 << 20);
  EXPECT_EQ(allocated_bytes(0, Allocator::pytorch), 0);
}

TEST(Memory, AProcessTakesItsShareFirst) {
  const ResolvedPlan loaded = one_block().resolved();
  const Program& program = loaded.program;
  const auto peak = [&](Bytes overhead) {
    return memory_peaks(loaded, program, {}, {}, {Allocator::arena, overhead}).front().peak;
  };
  EXPECT_EQ(peak(Bytes(1000)) - peak(Bytes(0)), Bytes(1000));
}

// A buffer is 8 tokens of 2 samples, 32 numbers of 2 bytes: 1,024. All 10 are held where the host
// is far ahead, and 1 always. With the device as fast as the host it is half as far ahead: 1 + 5.
// The peak may be off by 1.25 to either side.
TEST(Memory, CollectivesHoldBuffersAsFarAsTheHostIsAhead) {
  OneStage stage = one_block();
  stage.plan.tp = 2;
  const ResolvedPlan loaded = stage.resolved();
  MemoryRules rules;
  const auto peak = [&] { return memory_peaks(loaded, loaded.program, {}, {}, rules).front(); };
  const RankMemory none = peak();
  rules.stack.memory.pending = 10;
  rules.stack.memory.pending_least = 1;
  rules.stack.memory.pending_spread = 1.25;
  EXPECT_EQ(peak().peak - none.peak, Bytes(10 * 1024));
  EXPECT_EQ(peak().upper, Bytes(peak().peak.count() * 5 / 4));
  EXPECT_EQ(peak().least, Bytes(peak().peak.count() * 4 / 5));
  rules.device_over_host = 1;
  EXPECT_EQ(peak().peak - none.peak, Bytes(6 * 1024));
  rules.device_over_host = 0.5;
  EXPECT_EQ(peak().peak - none.peak, Bytes(1024));
}

// docs/theory.md 7.4: the gathers of all micro-batches in flight but two, two a block, on up to
// two nodes of 8; never more than 52, and the last rank, with one in flight, has none of them.
TEST(Memory, CollectivesOfTheWarmUpHoldTheirGathers) {
  OneStage stage = one_block();
  stage.model.layers = std::vector<Layer>(28, stage.model.layers[0]);
  stage.plan.pp = 4;
  stage.plan.microbatches = 32;
  stage.plan.boundaries = {7, 14, 21};
  MemoryRules rules;
  rules.stack.memory.pending = 52;
  rules.stack.memory.pending_least = 3;
  rules.stack.memory.pending_nodes = 2;
  rules.devices_per_node = 8;
  rules.device_over_host = 0.5;
  const auto held = [&](int tp, int rank, int in_flight) {
    stage.plan.tp = tp;
    const ResolvedPlan loaded =
        derive(stage.plan, stage.model, std::get<Schedule>(make_schedule("1f1b", {4, 1, 32})));
    return pending_buffers(loaded, Rank{rank}, in_flight, rules);
  };
  EXPECT_EQ(held(16, 0, 4), 3 + 2 * 7 * 2);
  EXPECT_EQ(held(16, 0, 8), 52);
  rules.device_over_host = 1;  // half as far ahead, and a quarter where all 32 are in flight
  EXPECT_EQ(held(32, 0, 4), 3 + 26);
  EXPECT_EQ(held(32, 0, 32), 3 + 13);
  rules.device_over_host = 0.5;
  EXPECT_EQ(held(16, 3, 1), 3);
  EXPECT_EQ(held(32, 0, 4), 3);
  EXPECT_EQ(held(1, 0, 4), 0);
}

// Software that makes gradients in a step's first backward and drops them at the update, 4 bytes of
// each of 12,704 parameters: where activations are the larger part the peak, before that backward,
// has none of them; where they are the smaller, it stands behind it and has all.
TEST(Memory, GradientsThatComeWithTheBackward) {
  OneStage stage = one_block();
  constexpr std::int64_t kGradients = 4 * 12'704;
  const auto peak = [&](int batch, bool come) {
    stage.plan.micro_batch_size = batch;
    const ResolvedPlan loaded = stage.resolved();
    MemoryRules rules;
    rules.stack.own_tensors = false;
    rules.stack.memory.gradients_come = come;
    std::vector<Span> spans;  // one after the other: F, B, the update
    for (std::size_t i = 0; i < loaded.program.ids().size(); ++i) {
      Span span{};
      span.start = Nanoseconds(2 * static_cast<std::int64_t>(i));
      span.end = span.start + Nanoseconds(1);
      spans.push_back(span);
    }
    return memory_peaks(loaded, loaded.program, IndexedView<OperationId, const Span>(spans), {},
                        rules)
        .front()
        .peak.count();
  };
  EXPECT_EQ(peak(64, true), peak(64, false) - kGradients);
  EXPECT_GE(peak(1, true), (2 + 12) * 12'704 + kGradients);
  EXPECT_LT(peak(1, true), peak(1, false));
}

// What is gathered at an update that replicas share, 2 bytes of each of 12,704 parameters, is there
// throughout; with ZeRO 0 nothing is gathered.
TEST(Memory, GathersAtTheUpdateAreHeld) {
  OneStage stage = one_block();
  stage.plan.dp = 2;
  MemoryRules rules;
  const auto held = [&](int zero) {
    stage.plan.zero = zero;
    const ResolvedPlan loaded = stage.resolved();
    rules.stack.memory.at_update = 0;
    const Bytes without = memory_peaks(loaded, loaded.program, {}, {}, rules).front().peak;
    rules.stack.memory.at_update = 2;
    return memory_peaks(loaded, loaded.program, {}, {}, rules).front().peak - without;
  };
  EXPECT_EQ(held(1), Bytes(allocated_bytes(2 * 12'704, Allocator::arena)));
  EXPECT_EQ(held(0), Bytes(0));
}

// Two blocks on two stages, two replicas, ZeRO-3. A stack that gathers a stage's weights once keeps
// 2 bytes, and of its gradients 4, of each of the stage's 12,704 parameters beside the shards; one
// stage alone shards as ever.
TEST(Memory, ShardsStayGatheredThroughAPipeline) {
  OneStage two = one_block();
  two.model.layers.push_back(two.model.layers.front());
  two.plan.pp = 2;
  two.plan.zero = 3;
  two.plan.boundaries = {1};
  const auto held = [&](int replicas, const Stack& stack) {
    two.plan.dp = replicas;
    const ResolvedPlan r =
        derive(two.plan, two.model, std::get<Schedule>(make_schedule("1f1b", {2, 1, 2})));
    return StageMemory(r.plan, *r.part, r.stages[0], Allocator::arena, stack).parameters();
  };
  Stack keeps;
  keeps.memory.pipeline_weights = 2;
  keeps.memory.pipeline_gradients = 4;
  const BytesByKind sharded = held(2, {}), gathered = held(2, keeps);
  EXPECT_EQ(gathered[MemoryKind::weights] - sharded[MemoryKind::weights],
            allocated_bytes(2 * 12'704, Allocator::arena));
  EXPECT_EQ(gathered[MemoryKind::gradients] - sharded[MemoryKind::gradients],
            allocated_bytes(4 * 12'704, Allocator::arena));
  EXPECT_EQ(total_bytes(held(1, keeps)), total_bytes(held(1, {})));
}

}  // namespace
}  // namespace weir::memory_test
