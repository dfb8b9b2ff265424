// The software that runs a plan, as part of the machine: what it keeps and in which precision, what
// it fuses, sends, overlaps and launches, where it puts embedding and head. Schema weir.stack/1.
// A default Stack is Weir's own executor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/job/origins.hpp"
#include "plan/model/block_modules.hpp"
#include "plan/model/model.hpp"
#include "plan/model/treatment.hpp"
#include "plan/words/attention_library.hpp"
#include "plan/words/units.hpp"

namespace weir {

// What a tensor of a layer is as wide as, for one token: numbers of the whole layer.
enum class Width : std::uint8_t {
  hidden,
  query,       // heads x head_dim
  key_value,   // keys and values: 2 x kv_heads x head_dim
  context,     // what heads give: heads x a value's numbers
  latents,     // of latent attention: what its inner norms read and write
  visits,      // of a layer with experts: hidden for every expert visited
  up,          // what the MLP's first product makes: gated twice ffn; of every expert visited
  ffn,         // what its second one reads; of every expert visited, and of shared ones
  heads,       // one number a head
  scores,      // heads x keys; of fused attention none
  token,       // one number
  experts,     // of a layer with experts: one number an expert, as its router has
  vocabulary,  // logits
};

// Which blocks a rule is for.
enum class Blocks : std::uint8_t {
  all,
  dense,           // without experts
  experts,         // with
  latent,          // with latent attention
  direct,          // without
  rotary,          // with rotary positions
  gated,           // with a gate in the MLP
  drops_out,       // with dropout of what attention and MLP give
  drops_scores,    // with dropout of attention's probabilities
  plain_experts,   // with experts whose MLPs have no gate
  biased_experts,  // with experts whose MLPs have biases
};

// Who shares it.
enum class Share : std::uint8_t {
  tensor,    // divided among the tensor-parallel devices
  sequence,  // divided among them under sequence parallelism only
  whole,
};

// One tensor that a layer keeps from F to its backward.
struct KeptRule {
  std::string tensor;
  Width width = Width::hidden;
  double bytes = 2;  // for each number of the width
  double fp8 = 0;    // the same where products run in FP8; 0: as `bytes`
  Share share = Share::tensor;
  bool until_i = false;  // freed by I; else by W
  Blocks blocks = Blocks::all;
  ModuleSet rebuilt_by = {};  // selective re-materialisation of any of these makes it again
  // Whose weights' gradient alone reads it: not kept where those are frozen.
  std::optional<BlockProduct> weights_of = {};
  // What the MLP's activation is made of: not kept where that is ReLU, whose backward needs its
  // result alone.
  bool before_activation = false;
};

// Element-wise work that a stack's blocks do beside what costmodel/layers/kernels lists (a copy, a
// step that is not fused).
struct ExtraStream {
  std::string what;
  Width width = Width::hidden;
  double forward = 0, backward = 0;  // bytes moved for each number of the width
  Share share = Share::tensor;
  int kernels = 1;  // launches, in each pass that has bytes
  Blocks blocks = Blocks::all;
  bool each_expert = false;  // of the device's makes these launches, one after the other
  bool with_fp8 = true;      // also where products are in 8 bits
};

// What a stack makes step by step, a kernel each, where others have one kernel: bytes that all of
// them move for each number, and how many there are. `forward` 0: it is one kernel.
struct StepwiseKernels {
  double forward = 0, backward = 0;
  int kernels_forward = 1, kernels_backward = 1;
  bool with_fp8 = true;  // false: it is one kernel where products are in 8 bits
};

struct StackMemory {
  std::vector<KeptRule> block;  // of a transformer block; empty: as Weir's executor does
  // Of the head, bytes for each logit: kept from F to its backward, and in either at its worst.
  double logits_kept = 0, logits_forward = 0, logits_backward = 0;
  // Bytes a parameter.
  double weights = 0;    // 0: as the number format
  double gradients = 4;  // where they accumulate
  double optimizer = 12;
  // Gradients come with a step's first backward, layer by layer, and go with the update; else they
  // are held throughout.
  bool gradients_come = false;
  double backward_gradients = 0;  // those of one micro-batch's backward, whole until it ends
  // Held beside the shards of ZeRO-3 where stages send each other micro-batches: weights gathered
  // in the step's first forward and kept, gradients summed whole until its last backward. 0: every
  // pass gathers and reduces anew.
  double pipeline_weights = 0, pipeline_gradients = 0;
  double buckets = 0;      // permanent, where replicas share no state (ZeRO 0, dp > 1)
  double fp8_weights = 0;  // cached copies of products in FP8
  double at_update = 0;    // of gathers and casts at the end of a step, under ZeRO
  // Buffers of a gathered micro-batch (tokens x hidden, in the number format) that collectives hold
  // on to where tp > 1 (costmodel/memory/pending): where the host is far ahead of the device, and
  // where it is not; on how many nodes a tensor group may be that holds those of its warm-up; and
  // by what factor such a peak may be off, to either side.
  double pending = 0, pending_least = 0, pending_nodes = 0, pending_spread = 1;
  // What is reserved over what is allocated: of a caching allocator's fragments and segments.
  double reserved_expected = 1, reserved_most = 1;
  // Share of the device's memory from which on its allocator gives cached blocks back and asks
  // again, step by step, in pipelines; 1: never.
  double crowded = 1;
  Bytes libraries{0};  // workspaces of libraries that the allocator has, from the first product on
  Bytes expert_libraries{0};  // on top where a rank has experts, whose products have streams
  Bytes process{0};           // beside the allocator: context and libraries; 0: the device's
};

struct StackTime {
  AttentionLibrary attention = AttentionLibrary::flash2;  // whose kernels fused attention runs
  std::optional<Seconds> launch;   // of one kernel by the host; none: the device's
  bool blocking_launches = false;  // the host waits for each kernel
  double block_kernels_forward = 0,
         block_kernels_backward = 0;  // launches a block beside the listed
  double tensor_kernels = 0;  // launches, and kernels on the device, beside each collective of tp
  // The host's time about each collective of a block under tensor parallelism, with the kernels
  // and calls up to the next; and on top, for each device of tp, where stages are on several nodes.
  Seconds collective_host{0}, collective_host_across{0};
  std::vector<ExtraStream> block;
  // Of each number that a norm normalises.
  StepwiseKernels norm;
  StepwiseKernels softmax;  // of each score, where attention is not fused
  double accumulate = 0;    // bytes moved a parameter and micro-batch, to add up gradients
  double embedding = 0;  // the same of the embedding's tables, whose gradient is as large as they
  // Bytes moved a logit beside the listed, in F and in I.
  double logits = 0, logits_backward = 0;
  // The host's time for a block's modules, hooks and launches, however little there is to compute.
  Seconds block_host_forward{0}, block_host_backward{0};
  // The same of a block with experts, whose router, sorting and exchanges are many small kernels
  // and a wait for their sizes; less than the others': as those.
  Seconds expert_host_forward{0}, expert_host_backward{0};
  // The share of tensor-parallel traffic that runs beside products where a plan asks for it
  // (Plan::overlap_tensor_parallel).
  double tensor_overlap = 0;
  // In every other plan: sums of an input's gradient run beside the product of the weights' one.
  bool tensor_beside_weights = false;
  // The share of the all-to-all exchanges of experts that does, where a plan asks for that
  // (Plan::overlap_experts); what it slows is taken off already.
  double expert_overlap = 0;
  // Where experts are on several nodes a token travels once to each device that has some of its
  // experts, and crosses once to each node (DeepEP); else once for each expert.
  bool experts_sent_once = false;
  // By what share of the time that traffic runs beside work both are slowed: collectives take
  // multiprocessors and bandwidth.
  double overlap_slowdown = 0;
  // What is rebuilt runs up to the last tensor that the backward needs (PyTorch's checkpoints that
  // are not reentrant): a block's last product, and its experts' way back, are left out.
  bool rebuild_stops_early = false;
  bool regathers = false;  // the backward gathers the kept shards of sequence parallelism again
  // Copies of activations to the host and back keep the device waiting; else they run beside work.
  bool blocking_offload = false;
  bool blocking_messages = false;  // a message of the pipeline keeps both its stages waiting
  Seconds message{0};              // host time about each message
  double reduced_gradients = 4;    // bytes a parameter on the wire
  bool reduces_whole = false;      // ZeRO-1 all-reduces gradients instead of scattering them
  std::optional<bool> overlaps_reduction;  // with the last backward; none: the plan says
  // Updated weights arrive during the next forward; none: where the plan asks for it.
  std::optional<bool> overlaps_gather = false;
  double update = 0;            // bytes moved a parameter of the optimizer's share; 0: as Weir's
  double kernels_a_tensor = 0;  // launches a parameter tensor at the update
  Seconds step{0};              // host time a step
};

// Where stages begin.
enum class StagePlacement : std::uint8_t {
  layers,          // equal numbers of blocks, embedding and head beside them
  embedding_head,  // embedding and head count as a block each
  cost,            // running sums of products: blocks 4 h^2 + 3 f h, head v h (nanotron)
  middle,          // blocks in order, the remainder to the middle stages (torchtitan)
};

struct Stack {
  std::string name = "weir";
  bool own_tensors = true;  // keeps what Weir's executor keeps; else `memory`
  StagePlacement placement = StagePlacement::layers;
  bool empty_stages = false;
  bool lone_norm = true;  // a stage may have the final norm alone
  bool fp8 = false;  // blocks' products in FP8; head, attention and the rest in the number format
  StackMemory memory;
  StackTime time;
  Origins origins;
};

// Throw InputError, also for a key that is unknown or a constant without an origin.
[[nodiscard]] Stack load_stack(const std::filesystem::path& file);
[[nodiscard]] Stack parse_stack(const std::string& text, const std::string& file);

// The first layers of stages 1.. as the stack's rule places them; equal neighbours: an empty stage.
// nullopt: there are more stages than the rule fills and the stack leaves none empty.
[[nodiscard]] std::optional<std::vector<int>> stage_boundaries(const Stack& stack,
                                                               const Model& model, int stages);

}  // namespace weir
