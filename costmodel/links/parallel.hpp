// What parallel degrees cost: where a plan's devices sit, what a layer sends between those that
// share it, and what replicas send each other once a step. Devices are numbered tp first, then cp,
// dp and pp (Megatron's order tp-cp-dp-pp) and fill nodes in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/links/message_cost.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/words/per_kind.hpp"
#include "plan/words/units.hpp"

namespace weir {

// The link that a ring over a group sees: `members` devices, `stride` apart. Within a node it is
// the node's own. Across nodes a piece passes all hops of the ring, one in `members in a node` of
// them across: the latency is their mean. As many rings as the group has members in a node run
// beside each other, each through its own adapter (NCCL), so the rate is that many times a device's
// share of the network, but no more than the node's own link gives.
[[nodiscard]] Link group_link(const Cluster& cluster, int members, int stride);

// Of devices that hold the same weights.
struct ReplicaLinks {
  ReplicaLinks(const Link& all) : within(all) {}  // NOLINT(google-explicit-constructor)
  ReplicaLinks(const Link& shards, const Link& groups, const Link& copies)
      : within(shards), across(groups), secondary(copies) {}
  Link within;     // between those among which ZeRO divides: all where nothing else is said
  Link across;     // between those of several such groups that have the same share
  Link secondary;  // between those that divide weights a second time
};

// Of the cp x dp devices that hold the same weights, how many one node has: those of cp are next to
// each other, those of dp a replica apart where its ranks come first.
[[nodiscard]] int replicas_in_node(const Plan& plan, const Cluster& cluster);

// Links of a plan's groups.
struct ParallelLinks {
  Link tensor;                   // between the tp devices of a stage
  Link context;                  // between its cp devices
  ReplicaLinks replicas;         // between the cp x dp devices that hold the same weights
  Link experts;                  // between the ep that share experts, side by side (etp apart)
  ReplicaLinks expert_replicas;  // between those that hold the same experts
};
[[nodiscard]] ParallelLinks parallel_links(const Plan& plan, const Cluster& cluster);
// Between two ranks of the pipeline: the first device of each stands for all.
[[nodiscard]] Link pipeline_link(const Plan& plan, const Cluster& cluster, Rank from, Rank to);

// A message of so many bytes between two stages, of one device of each. The tp devices of a stage
// hold the same output, unless sequence parallelism divides it: each sends its peer all of it, or
// Megatron's scatter-gather its part (costmodel/links/collectives), whichever arrives first. The
// gathering is the receivers' and takes latency.
[[nodiscard]] MessageCost stage_message(Bytes bytes, const Plan& plan, const Link& link,
                                        const Cluster& cluster);

// What becomes of the all-gathers that the weight gradients need under sequence parallelism.
enum class WeightGathers : std::uint8_t {
  hidden,  // they run beside I's products, as a GPU's streams let them
  counted  // they are W's: a core does one thing after the other
};

// What a layer sends for one micro-batch. Nothing of it is hidden behind products. R sends what F
// does, and B what I and W do.
//
// With n bytes of a micro-batch's tokens as the layer's input has them on one device of cp:
//   tensor parallelism (Shoeybi et al. 2019, section 3: the operators f and g): an all-reduce of n
//   in F after each part of a block that ends in a product (attention, MLP; one where they run in
//   parallel; cross attention is a third), and in I one for each input of theirs: as many, but one
//   more where parallel parts have a norm each. The embedding: one in F. The head: one
//   of n in I, and in F three of one number of 4 bytes a token (maximum, sum and target of the
//   softmax over a divided vocabulary). With sequence parallelism (Korthikanti et al. 2022,
//   section 4.2.2) each of those is an all-gather and a reduce-scatter; the embedding's only a
//   reduce-scatter in F and an all-gather in I, the head's an all-gather in F and a reduce-scatter
//   in I. W's products need their input gathered again, and where W is a pass of its own the
//   gradient of their output too: two all-gathers a part, the head's input, and the embedding's
//   gradient, which then I leaves to it.
//   prediction (NVIDIA/Megatron-LM@d98e8a64ddf3, core/transformer/multi_token_prediction.py,
//   _concat_embeddings): before such a block an embedding's own, and of a projection of 2 h to h
//   whose outputs are divided an all-gather of n in F and an all-reduce of 2 n in I; with sequence
//   parallelism in F all-gathers of 2 n and of n, in I a reduce-scatter of 2 n and an all-gather of
//   n. The head's as often as there are losses.
//   adapters (Megatron-Bridge@067f987df03b, peft/utils.py, ParallelLinearAdapter): with q bytes of
//   what A makes of the tokens and o of what B does, beside a product whose output is divided an
//   all-gather of q in F, an all-reduce of q and one of n (with sequence parallelism a
//   reduce-scatter) in I; beside one whose input is divided an all-reduce of q and an all-gather of
//   o in F, an all-reduce of q in I, and with sequence parallelism an all-gather of o. Nothing of
//   these is overlapped.
// Of a plan that asks for it (Plan::overlap_tensor_parallel) the stack's share runs beside
// products, and the rest is left; a stack that gathers kept shards again in I adds that to I's.
// Where products are in 8 bits (`recipe`), what a block gathers for them is cast first
// (docs/theory.md 5.11), latents too; what goes to experts is cast behind its exchange; sums stay
// in the number format.
[[nodiscard]] PerKind<Seconds> tensor_traffic(const Layer& layer, const Plan& plan,
                                              const Link& link, const StackTime& stack = {},
                                              WeightGathers gathers = WeightGathers::hidden,
                                              Fp8Recipe recipe = Fp8Recipe::none);

// Of tensor_traffic's B, what a stack sends beside the products of weights' gradients where the
// plan asks for no other overlap (StackTime::tensor_beside_weights): the sums of inputs' gradients,
// one for each part of a block and the head's; reduce-scatters with sequence parallelism.
[[nodiscard]] Seconds sums_beside_weights(const Layer& layer, const Plan& plan, const Link& link,
                                          const StackTime& stack);

// What the host is busy with in a block under tensor parallelism: so much for each of the
// collectives above, kernels and calls between them counted in (StackTime::collective_host).
[[nodiscard]] PerKind<Seconds> collective_host_time(const Layer& layer, const Plan& plan,
                                                    const Cluster& cluster);

// Context parallelism as Llama 3 does it (Grattafiori et al. 2024, section 3.3.2): F gathers the
// keys and values of the whole sequence, I gathers them again and reduce-scatters their gradients.
[[nodiscard]] PerKind<Seconds> context_traffic(const Layer& layer, const Plan& plan,
                                               const Link& link);

// Expert parallelism (GShard: Lepikhin et al., ICLR 2021, section 3.2): F sends each token's hidden
// numbers to the experts it visits and their answers back, an all-to-all each; I mirrors both. In
// the number format, also where products run in FP8. Devices of a tensor-parallel group send their
// part of the tokens, however many of them divide an expert. A stack may send no
// token twice the same way (costmodel/links/expert_exchange). Of a plan that asks for it
// (Plan::overlap_experts) a share runs beside another micro-batch's work (expert_overlap), and the
// rest is left.
[[nodiscard]] PerKind<Seconds> expert_traffic(const Layer& layer, const Plan& plan,
                                              const Link& link, const StackTime& stack = {});

// Whether the stack keeps ZeRO-3's weights gathered, and its gradients whole, from a step's first
// forward to its last backward (StackMemory::pipeline_weights): replicas then send once a step, as
// under ZeRO-1.
[[nodiscard]] bool stays_gathered(const Plan& plan, const Stack& stack);

// Of a layer or a stage, on one device: the numbers that it holds, and of them those that are
// trained, whose gradients are exchanged and whose new values are gathered; and of those again the
// ones that a plan with fp8_parameters gathers in 8 bits.
struct HeldNumbers {
  HeldNumbers(std::int64_t all)  // NOLINT(google-explicit-constructor): all of them are trained
      : held(all), trained(all) {}
  HeldNumbers(std::int64_t holds, std::int64_t trains, std::int64_t multiplied)
      : held(holds), trained(trains), products(multiplied) {}
  std::int64_t held, trained, products = 0;
};

// What replicas send for one micro-batch under ZeRO (Rajbhandari et al., SC 2020, section 7), to
// run beside the layer's own work: stage 2 reduce-scatters the layer's gradients in W; stage 3 also
// gathers its weights in F and in I; nothing where they stay gathered. Both among those that ZeRO
// divides among; in I from the second, nearer copy where there is one (ZeRO++'s hpZ: Wang et al.,
// 2023, section 3.2).
// The same of the devices that hold the same experts.
[[nodiscard]] PerKind<Seconds> replica_traffic(const HeldNumbers& numbers, const Plan& plan,
                                               const ReplicaLinks& links, const Stack& stack = {});
[[nodiscard]] PerKind<Seconds> expert_replica_traffic(const HeldNumbers& numbers, const Plan& plan,
                                                      const ReplicaLinks& links,
                                                      const Stack& stack = {});

// Once a step, for the parameters of a stage's device: gradients in fp32 are all-reduced, or under
// ZeRO-1 reduce-scattered (later stages did it with each micro-batch); and up to stage 2 the
// updated weights gathered.
struct StepTraffic {
  Seconds reduce{0};
  Seconds gather{0};
};
// A stack may send gradients in fewer bytes, and all-reduce them under ZeRO-1 too. Where ZeRO
// divides within groups, each device's share of the sums is then all-reduced across them, once a
// step (MiCS: Zhang et al., VLDB 2022, section 3.4, "2-hop"; NVIDIA/Megatron-LM@d98e8a64ddf3,
// core/distributed/param_and_grad_buffer.py, start_grad_sync); weights are gathered within.
[[nodiscard]] StepTraffic step_traffic(const HeldNumbers& numbers, const Plan& plan,
                                       const ReplicaLinks& links, const Stack& stack = {});
// The same of the devices that hold the same experts.
[[nodiscard]] StepTraffic expert_step_traffic(const HeldNumbers& numbers, const Plan& plan,
                                              const ReplicaLinks& links, const Stack& stack = {});

// A table that stages share (tied embeddings) has its gradients all-reduced between them, fp32,
// before the update (Shoeybi et al. 2019; Megatron's embedding group); `holders` are the ranks that
// have it.
[[nodiscard]] Seconds tied_reduction(std::int64_t parameters, const Plan& plan,
                                     const Cluster& cluster, const std::vector<Rank>& holders);

// What is left of a reduction that may start while the last micro-batch's backward still runs,
// layer by layer from the last: all layers but the first can hide in the backward of those before
// them. With L equal layers: max(reduce / L, reduce - backward (L - 1) / L).
[[nodiscard]] Seconds exposed_reduction(Seconds reduce, Seconds backward, int layers);

}  // namespace weir
