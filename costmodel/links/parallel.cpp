// What parallel degrees send (docs/theory.md 6.3 and 6.4).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/parallel.hpp"

#include <algorithm>

#include "costmodel/links/collectives.hpp"
#include "costmodel/links/expert_exchange.hpp"
#include "costmodel/links/expert_overlap.hpp"
#include "plan/job/placement.hpp"

namespace weir {
namespace {

// Bytes of a micro-batch's tokens, `width` numbers each, on one device of cp.
Bytes tokens_bytes(const Plan& plan, std::int64_t width, std::int64_t element) {
  return Bytes(plan.split().tokens(plan.seq_length) * plan.micro_batch_size * width * element);
}

// R is F once more, and B is I and W.
PerKind<Seconds> sent(Seconds forward, Seconds input, Seconds weight = Seconds(0)) {
  return {.f = forward, .i = input, .w = weight, .b = input + weight, .r = forward};
}

// Sums of a block that its devices share: of attention and MLP, one of both where they run in
// parallel; cross attention is a third.
double shared_sums(const TransformerShape& block) {
  return (block.parallel ? 1 : 2) + (block.cross_attention ? 1 : 0);
}
// Inputs of those parts, whose gradients are summed likewise: parallel parts read two where each
// has a norm of its own.
double shared_inputs(const TransformerShape& block) {
  return shared_sums(block) + (block.parallel && !block.single_norm ? 1 : 0);
}

// What sequence parallelism gathers of what a block's products read, as a share of 16 bits.
struct GatheredShare {
  double forward = 1, backward = 1;
};
// In 8 bits (NVIDIA/TransformerEngine@d0067d0da6cb:transformer_engine/pytorch/distributed.py): by
// rows, 1 of 2 bytes, where one scale is the whole tensor's (_all_gather_fp8); else with 1/32 of a
// byte of scales, and in the backward, which needs gradients by columns too, twice
// (_all_gather_mxfp8; module/linear.py:905 asks for both).
// Frozen weights have no W to need columns.
GatheredShare gathered_share(Fp8Recipe recipe, bool frozen) {
  switch (recipe) {
    case Fp8Recipe::none:
      break;
    case Fp8Recipe::delayed:
    case Fp8Recipe::tensorwise:
      return {0.5, 0.5};
    case Fp8Recipe::blockwise:
    case Fp8Recipe::mxfp8:
      return {33.0 / 64, frozen ? 33.0 / 64 : 33.0 / 32};
  }
  return {};
}

// Tensor parallelism's traffic of each kind of layer.
struct TensorTraffic {
  const Plan& plan;
  const Link& link;
  bool regathers;
  bool gathers_in_w;
  GatheredShare gathered = {};  // of what a block's products read

  [[nodiscard]] Seconds gather(Bytes n) const { return ring_all_gather(n, plan.tp, link); }
  [[nodiscard]] Seconds scatter(Bytes n) const { return ring_reduce_scatter(n, plan.tp, link); }
  [[nodiscard]] Seconds reduce(Bytes n) const { return all_reduce(n, plan.tp, link); }
  // The same of `share` of its bytes.
  [[nodiscard]] Seconds gather(Bytes n, double share) const {
    return gather(Bytes(static_cast<std::int64_t>(static_cast<double>(n.count()) * share)));
  }
  [[nodiscard]] Bytes input(std::int64_t hidden) const {
    return tokens_bytes(plan, hidden, bytes_per_element(plan.dtype));
  }
  [[nodiscard]] Seconds in_w(Seconds gathers) const {
    return plan.sequence_parallel && gathers_in_w ? gathers : Seconds(0);
  }

  PerKind<Seconds> operator()(const EmbeddingShape& e) const {
    const Bytes n = input(e.hidden);
    if (plan.sequence_parallel && gathers_in_w) return sent(scatter(n), Seconds(0), gather(n));
    if (plan.sequence_parallel) return sent(scatter(n), gather(n));
    return sent(reduce(n), Seconds(0));
  }
  PerKind<Seconds> operator()(const TransformerShape& b) const {
    PerKind<Seconds> all = block(b);
    if (predicts(b)) all += prediction(b);
    return all;
  }
  // In front of such a block: its embedding as the model's; the projection, whose outputs are
  // divided and then gathered.
  [[nodiscard]] PerKind<Seconds> prediction(const TransformerShape& b) const {
    const Bytes n = input(b.hidden), both = n * std::int64_t{2};
    if (!plan.sequence_parallel) return sent(reduce(n) + gather(n), reduce(both));
    const Seconds again = regathers ? gather(both) : Seconds(0);
    return sent(scatter(n) + gather(both) + gather(n), gather(n) * 2.0 + scatter(both) + again,
                in_w(gather(both)));
  }
  [[nodiscard]] PerKind<Seconds> block(const TransformerShape& b) const {
    const Bytes n = input(b.hidden);
    const double sums = shared_sums(b), inputs = shared_inputs(b);
    const bool again = regathers && plan.sequence_parallel;
    // Experts end in an exchange of their own: what follows attention and what follows them differ.
    if ((plan.ep > 1 || plan.etp > 0) && b.experts > 1) return with_experts(b, again);
    if (!plan.sequence_parallel) return sent(reduce(n) * sums, reduce(n) * inputs);
    // What goes to experts is gathered before it is cast, in the number format (NVIDIA/
    // Megatron-LM@d98e8a64ddf3:megatron/core/transformer/moe/token_dispatcher.py:299, 743-752).
    const double to_experts = b.experts > 1 && !b.parallel ? 1 : 0;
    const auto all = [&](double parts, double share) {
      return gather(n, share) * (parts - to_experts) + gather(n) * to_experts;
    };
    // All-reduce = reduce-scatter + all-gather: under sequence parallelism the two stand apart
    // (docs/theory.md 6.3).
    const Seconds read = all(inputs, gathered.forward);
    return sent(read + scatter(n) * sums,
                all(sums, gathered.backward) + scatter(n) * inputs + (again ? read : Seconds(0)),
                in_w(gather(n) * (inputs + sums)));
  }
  // Behind an all-to-all each device has its part of the tokens that reach its experts: gathered
  // among those that divide an expert, and what their parts of it give reduce-scattered.
  [[nodiscard]] PerKind<Seconds> with_experts(const TransformerShape& b, bool again) const {
    const Bytes n = input(b.hidden);
    const auto attention = [&](double share) {
      return plan.sequence_parallel ? gather(n, share) + scatter(n) : reduce(n);
    };
    const auto reached = static_cast<double>(n.count() * b.experts_per_token) * plan.expert_load;
    const Bytes visited(static_cast<std::int64_t>(reached * plan.split().expert_share()));
    const Seconds brought = ring_all_gather(visited, plan.expert_tp(), link);
    const Seconds experts = brought + ring_reduce_scatter(visited, plan.expert_tp(), link);
    return sent(attention(gathered.forward) + experts,
                attention(gathered.backward) + experts +
                    (again ? gather(n, gathered.forward) + brought : Seconds(0)),
                in_w((gather(n) + brought) * 2.0));
  }
  PerKind<Seconds> operator()(const HeadShape& head) const {
    const Bytes n = input(head.hidden);
    const Seconds loss = 3.0 * reduce(tokens_bytes(plan, 1, 4));
    const double losses = 1.0 + static_cast<double>(head.predictions);
    if (!plan.sequence_parallel) return sent(loss * losses, reduce(n) * losses);
    return sent((gather(n) + loss) * losses, scatter(n) * losses, in_w(gather(n) * losses));
  }
  PerKind<Seconds> operator()(const NormShape&) const { return {}; }
  PerKind<Seconds> operator()(const CellShape&) const { return {}; }
  PerKind<Seconds> operator()(const TimedShape&) const { return {}; }
  PerKind<Seconds> operator()(const SizedShape&) const { return {}; }
};

// `in_node`: of the group's members.
Link grouped(const Cluster& cluster, int members, int in_node) {
  if (members <= in_node) return cluster.intra;
  const Link& intra = cluster.intra;
  const Link& inter = cluster.inter;
  Link link;
  // A ring over nodes crosses one wire between them in every in_node steps.
  link.latency = (intra.latency * (in_node - 1.0) + inter.latency) / static_cast<double>(in_node);
  // `inter` is one device's share of a node's cards; a ring that enters the node once has them all.
  link.bandwidth =
      BytesPerSecond(std::min(intra.bandwidth.count(), inter.bandwidth.count() * in_node));
  if (in_node > 1)
    link.node = NodeLevel{in_node,       intra.latency,   intra.bandwidth,
                          inter.latency, inter.bandwidth, inter.tree};
  return link;
}

// `in_node`: of the devices that hold the same weights, next to each other in their own order.
ReplicaLinks replica_links(const Plan& plan, const Cluster& cluster, int sharers, int in_node) {
  const Link within = grouped(cluster, sharers, in_node);
  return {within, grouped(cluster, plan.share_groups(), std::max(1, in_node / sharers)),
          plan.zero_secondary > 0 ? grouped(cluster, plan.zero_secondary, in_node) : within};
}

}  // namespace

int replicas_in_node(const Plan& plan, const Cluster& cluster) {
  if (plan.rank_order == RankOrder::tp_cp_dp_pp)
    return std::max(1, cluster.devices_per_node / plan.tp);
  const int replicas = cluster.devices_per_node / (plan.tp * plan.cp * plan.pp);
  return replicas > 0 ? plan.cp * replicas
                      : std::clamp(cluster.devices_per_node / plan.tp, 1, plan.cp);
}

Link group_link(const Cluster& cluster, int members, int stride) {
  return grouped(cluster, members, std::max(1, cluster.devices_per_node / stride));
}

ParallelLinks parallel_links(const Plan& plan, const Cluster& cluster) {
  const int apart = plan.rank_order == RankOrder::tp_cp_pp_dp ? plan.pp : 1;
  const int stride = plan.expert_tp() * plan.ep * apart;
  return {group_link(cluster, plan.tp, 1), group_link(cluster, plan.cp, plan.tp),
          replica_links(plan, cluster, plan.sharers(), replicas_in_node(plan, cluster)),
          group_link(cluster, plan.ep, plan.expert_tp()),
          replica_links(plan, cluster, plan.expert_sharers(),
                        std::max(1, cluster.devices_per_node / stride))};
}

Link pipeline_link(const Plan& plan, const Cluster& cluster, Rank from, Rank to) {
  if (!cluster.pools.empty() || !plan.placement.empty())
    return Placement(plan, cluster).link(from, to);
  const auto device = [&plan](Rank rank) {
    return Rank{static_cast<std::int32_t>(first_device(plan, rank))};
  };
  return cluster.link(device(from), device(to));
}

MessageCost stage_message(Bytes bytes, const Plan& plan, const Link& link, const Cluster& cluster) {
  const auto occupied = [](Bytes n, const LinkRegime& by) {
    return by.bandwidth.count() > 0 ? n / by.bandwidth : Seconds(0);
  };
  const LinkRegime whole = link.at(bytes);
  const Seconds occupancy = occupied(bytes, whole);
  if (plan.tp > 1 && !plan.sequence_parallel) {
    // Scatter-gather (Narayanan et al. 2021): each device sends its part and the receivers gather,
    // where that is faster. A part is a message too, of a size and so of a regime of its own.
    const LinkRegime part = link.at(Bytes(bytes.count() / plan.tp));
    const Link within = group_link(cluster, plan.tp, 1);
    const Seconds parts =
        scatter_gather_send(bytes, plan.tp, {part.latency, part.bandwidth}, within);
    if (parts < occupancy + whole.latency) {
      const Seconds of_part = occupied(bytes, part) / plan.tp;
      return {to_nanoseconds(of_part), to_nanoseconds(parts - of_part)};
    }
  }
  return {to_nanoseconds(occupancy), to_nanoseconds(whole.latency)};
}

namespace {

// Behind a block's last product, which a rebuilt one may leave out.
Seconds last_sum(const Layer& layer, const Plan& plan, const Link& link) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr || block->experts > 1) return Seconds(0);
  const Bytes n = tokens_bytes(plan, block->hidden, bytes_per_element(plan.dtype));
  if (plan.sequence_parallel) return ring_reduce_scatter(n, plan.tp, link);
  return all_reduce(n, plan.tp, link);
}

// What the devices of an adapter send each other.
PerKind<Seconds> adapter_traffic(const Layer& layer, const Plan& plan, const Link& link) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr || layer.treated.adapters.rank == 0) return {};
  const TensorTraffic traffic{plan, link, false, false};
  Seconds forward{0}, input{0};
  for (const AdapterPart& adapter : adapters_of(*block, layer.treated.adapters, 1, 1)) {
    // Experts have tokens of their own, which no other device of the group has.
    if (adapter.tokens == AdapterTokens::visits) continue;
    const Seconds made = traffic.reduce(traffic.input(adapter.rank));
    input += made;
    if (adapter.input_divided) {
      const Seconds answers = traffic.gather(traffic.input(adapter.whole_out));
      forward += made + answers;
      if (plan.sequence_parallel) input += answers;
    } else {
      const Bytes read = traffic.input(adapter.in);
      forward += traffic.gather(traffic.input(adapter.rank));
      input += plan.sequence_parallel ? traffic.scatter(read) : traffic.reduce(read);
    }
  }
  return sent(forward, input);
}

}  // namespace

PerKind<Seconds> tensor_traffic(const Layer& layer, const Plan& plan, const Link& link,
                                const StackTime& stack, WeightGathers gathers, Fp8Recipe recipe) {
  if (plan.tp == 1) return {};
  const bool counted = gathers == WeightGathers::counted;
  const TensorTraffic kinds{plan, link, stack.regathers, counted,
                            gathered_share(recipe, layer.treated.frozen)};
  PerKind<Seconds> traffic = std::visit(kinds, layer.shape);
  if (stack.rebuild_stops_early) traffic.r -= last_sum(layer, plan, link);
  // What hides behind products is not waited for.
  if (plan.overlap_tensor_parallel && plan.sequence_parallel) {
    for (const ActionKind kind : kPassKinds) traffic[kind] *= 1 - stack.tensor_overlap;
  }
  if (!layer.treated.backward) traffic.i = traffic.w = traffic.b = Seconds(0);
  traffic += adapter_traffic(layer, plan, link);
  return traffic;
}

Seconds sums_beside_weights(const Layer& layer, const Plan& plan, const Link& link,
                            const StackTime& stack) {
  if (plan.tp == 1 || !stack.tensor_beside_weights || plan.overlap_tensor_parallel)
    return Seconds(0);
  const TensorTraffic traffic{plan, link, false, false};
  const auto sum = [&](std::int64_t hidden) {
    const Bytes n = traffic.input(hidden);
    return plan.sequence_parallel ? traffic.scatter(n) : traffic.reduce(n);
  };
  if (const auto* head = std::get_if<HeadShape>(&layer.shape))
    return sum(head->hidden) * (1.0 + static_cast<double>(head->predictions));
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return Seconds(0);
  // Experts scatter what they give before its gradient is there to be summed.
  const bool apart = (plan.ep > 1 || plan.etp > 0) && block->experts > 1;
  return sum(block->hidden) * (apart ? 1.0 : shared_inputs(*block));
}

PerKind<Seconds> collective_host_time(const Layer& layer, const Plan& plan,
                                      const Cluster& cluster) {
  const StackTime& stack = cluster.stack.time;
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (plan.tp == 1 || block == nullptr) return {};
  const bool several_nodes = plan.pp > 1 && plan.devices() > cluster.devices_per_node;
  const Seconds each =
      stack.collective_host + stack.collective_host_across * (several_nodes ? 1.0 * plan.tp : 0.0);
  const double sums = shared_sums(*block), inputs = shared_inputs(*block);
  if (!plan.sequence_parallel) return sent(each * sums, each * inputs);
  const double both = sums + inputs;
  return sent(each * both, each * (both + (stack.regathers ? inputs : 0)));
}

PerKind<Seconds> context_traffic(const Layer& layer, const Plan& plan, const Link& link) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr || plan.cp == 1) return {};
  const std::int64_t numbers =
      plan.seq_length * plan.micro_batch_size * 2 * (block->kv_heads / plan.tp) * block->head_dim;
  const Bytes whole(numbers * bytes_per_element(plan.dtype));
  const Seconds gather = ring_all_gather(whole, plan.cp, link);
  return sent(gather, gather + ring_reduce_scatter(whole, plan.cp, link));
}

namespace {

// `all`: the bytes of one device's tokens, once for each expert that they visit.
Seconds one_way(Bytes all, const TransformerShape& block, const Plan& plan, const Link& link,
                const StackTime& stack) {
  const auto copies = static_cast<double>(block.experts_per_token);
  ExpertDispatch dispatch = plan.expert_dispatch;
  if (dispatch == ExpertDispatch::by_stack) {
    const bool across = link.node.has_value();
    dispatch = stack.experts_sent_once && across ? ExpertDispatch::once : ExpertDispatch::alltoall;
  }
  // Every device gets the tokens of all, and gives all of them a part of the sum back.
  if (dispatch == ExpertDispatch::allgather) {
    const double tokens = static_cast<double>(all.count()) / (copies * plan.expert_load);
    return ring_all_gather(Bytes(static_cast<std::int64_t>(tokens * plan.ep)), plan.ep, link);
  }
  const int inside = link.node ? link.node->members : plan.ep;
  if (dispatch == ExpertDispatch::alltoall || plan.ep % inside != 0)
    return all_to_all(all, plan.ep, link);
  const TokenSpread spread{copies, places_visited(block, plan.ep),
                           places_visited(block, plan.ep / inside)};
  return exchange_sent_once(all, plan.ep, spread, link);
}

}  // namespace

PerKind<Seconds> expert_traffic(const Layer& layer, const Plan& plan, const Link& link,
                                const StackTime& stack) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr || block->experts == 1 || plan.ep == 1) return {};
  // A token is sent once for each expert that it visits.
  const double tokens = static_cast<double>(plan.split().tokens(plan.seq_length)) / plan.tp *
                        plan.micro_batch_size * static_cast<double>(block->experts_per_token);
  const auto element = static_cast<double>(bytes_per_element(plan.dtype));
  const double bytes = tokens * plan.expert_load * static_cast<double>(block->hidden) * element;
  const Bytes all(static_cast<std::int64_t>(bytes));
  const Seconds once = one_way(all, *block, plan, link, stack);
  const Seconds way = once * (1 - expert_overlap(plan, stack)), both = way * 2.0;
  // There and back, in the forward and again in the backward.
  PerKind<Seconds> traffic = sent(both, both);
  if (stack.rebuild_stops_early) traffic.r = way;
  return traffic;
}

namespace {

// Of so many numbers, their products among them. MXFP8 needs rows and columns each with scales of
// their own, so the numbers are gathered before they are cast (NVIDIA/Megatron-LM@d98e8a64ddf3,
// core/distributed/param_and_grad_buffer.py, _post_param_sync).
Bytes gathered_weights(std::int64_t numbers, const HeldNumbers& of, const Plan& plan) {
  const std::int64_t element = bytes_per_element(plan.dtype);
  const bool cast = plan.fp8_parameters && plan.fp8 != Fp8Recipe::mxfp8;
  const std::int64_t in_8_bits = cast ? of.products : 0;
  return Bytes(numbers * element - in_8_bits * (element - 1));
}

// How many share, and the links between them; `copies` divide weights a second time, 0: none do.
struct Sharing {
  int sharers, groups, copies;
  const ReplicaLinks& links;
};

PerKind<Seconds> sharded_traffic(const HeldNumbers& numbers, const Sharing& among, const Plan& plan,
                                 const Stack& stack) {
  const int n = among.sharers;
  if (n == 1 || plan.zero < 2 || stays_gathered(plan, stack)) return {};
  const Link& link = among.links.within;
  PerKind<Seconds> traffic;
  traffic.w = ring_reduce_scatter(Bytes(numbers.trained * 4), n, link);
  if (plan.zero == 3) {
    const Bytes weights = gathered_weights(numbers.held, numbers, plan);
    traffic.f = traffic.i = ring_all_gather(weights, n, link);
    if (among.copies > 0) traffic.i = ring_all_gather(weights, among.copies, among.links.secondary);
  }
  traffic.b = traffic.i + traffic.w;
  traffic.r = traffic.f;
  return traffic;
}

StepTraffic reduced(const HeldNumbers& numbers, const Sharing& among, const Plan& plan,
                    const Stack& stack) {
  const int n = among.sharers;
  const bool stays = stays_gathered(plan, stack);
  const std::int64_t given_back = stays ? numbers.held : numbers.trained;
  if (n * among.groups == 1 || given_back == 0) return {};  // nothing to sum, or to give back
  const Bytes gradients(static_cast<std::int64_t>(static_cast<double>(numbers.trained) *
                                                  stack.time.reduced_gradients)),
      weights = gathered_weights(given_back, numbers, plan);
  const Link& link = among.links.within;
  StepTraffic traffic;
  // Parameters that stay gathered through the step are gathered once in it, as under ZeRO-1.
  const int zero = stays ? 1 : plan.zero;
  if (zero == 0 || (zero == 1 && stack.time.reduces_whole)) {
    traffic.reduce = all_reduce(gradients, n, link);
  } else if (zero == 1) {
    traffic.reduce = ring_reduce_scatter(gradients, n, link);
  }
  if (among.groups > 1) {
    const Bytes share(ceil_div(gradients.count(), std::int64_t{n}));
    traffic.reduce += all_reduce(share, among.groups, among.links.across);
  }
  if (zero == 1 || zero == 2) traffic.gather = ring_all_gather(weights, n, link);
  return traffic;
}

Sharing sharing(const Plan& plan, const ReplicaLinks& links) {
  return {plan.sharers(), plan.share_groups(), plan.zero_secondary, links};
}
// Experts have fewer copies: as many groups of fewer.
Sharing expert_sharing(const Plan& plan, const ReplicaLinks& links) {
  const int n = plan.expert_sharers();
  return {n, plan.share_groups(), plan.zero_secondary < n ? plan.zero_secondary : 0, links};
}

}  // namespace

bool stays_gathered(const Plan& plan, const Stack& stack) {
  return plan.zero == 3 && plan.pp > 1 && plan.replicas() > 1 && stack.memory.pipeline_weights > 0;
}

PerKind<Seconds> replica_traffic(const HeldNumbers& numbers, const Plan& plan,
                                 const ReplicaLinks& links, const Stack& stack) {
  return sharded_traffic(numbers, sharing(plan, links), plan, stack);
}

PerKind<Seconds> expert_replica_traffic(const HeldNumbers& numbers, const Plan& plan,
                                        const ReplicaLinks& links, const Stack& stack) {
  return sharded_traffic(numbers, expert_sharing(plan, links), plan, stack);
}

StepTraffic step_traffic(const HeldNumbers& numbers, const Plan& plan, const ReplicaLinks& links,
                         const Stack& stack) {
  return reduced(numbers, sharing(plan, links), plan, stack);
}

StepTraffic expert_step_traffic(const HeldNumbers& numbers, const Plan& plan,
                                const ReplicaLinks& links, const Stack& stack) {
  return reduced(numbers, expert_sharing(plan, links), plan, stack);
}

Seconds tied_reduction(std::int64_t parameters, const Plan& plan, const Cluster& cluster,
                       const std::vector<Rank>& holders) {
  const Link link = pipeline_link(plan, cluster, holders.front(), holders.back());
  return all_reduce(Bytes(parameters * 4), static_cast<int>(holders.size()), link);
}

Seconds exposed_reduction(Seconds reduce, Seconds backward, int layers) {
  if (layers == 0) return reduce;
  const double hidden = (layers - 1.0) / layers;
  return std::max(reduce / static_cast<double>(layers), reduce - backward * hidden);
}

}  // namespace weir
