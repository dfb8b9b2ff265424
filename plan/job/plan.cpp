// Words of a plan's choices, what a model allows of them, and the plan's way to another folder and
// to a file.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/plan.hpp"

#include <fmt/format.h>

#include <utility>

#include "plan/schedule/generators/generators.hpp"
#include "plan/text/seen_from.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<RankOrder, 2> kRankOrders{
    {{RankOrder::tp_cp_dp_pp, "tp-cp-dp-pp"}, {RankOrder::tp_cp_pp_dp, "tp-cp-pp-dp"}}};
constexpr Names<ExpertDispatch, 4> kDispatches{{{ExpertDispatch::by_stack, "by-stack"},
                                                {ExpertDispatch::alltoall, "alltoall"},
                                                {ExpertDispatch::allgather, "allgather"},
                                                {ExpertDispatch::once, "once"}}};
constexpr Names<SkipTransport, 2> kSkipTransports{
    {{SkipTransport::relay, "relay"}, {SkipTransport::direct, "direct"}}};

// An adapter stands beside some product, and its devices have equal parts of it.
std::optional<Misfit> cannot_adapt(const Model& model, const Plan& plan) {
  if (plan.lora.rank == 0) return std::nullopt;
  bool any = false;
  for (const Layer& layer : model.layers) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr) continue;
    // Undivided, because it is only asked which products have an adapter.
    for (const AdapterPart& adapter : adapters_of(*block, plan.lora, 1, 1)) {
      any = true;
      const bool experts = adapter.tokens == AdapterTokens::visits;
      const int devices = experts ? plan.expert_tp() : plan.tp;
      if (plan.lora.rank % devices == 0) continue;
      return Misfit{"lora", fmt::format("{} = {} does not divide the rank {}",
                                        experts ? "etp" : "tp", devices, plan.lora.rank)};
    }
  }
  if (any) return std::nullopt;
  return Misfit{"lora", fmt::format("the model has none of {}", to_string(plan.lora.targets))};
}

}  // namespace

std::string_view to_string(RankOrder order) { return name_of(kRankOrders, order); }

std::optional<RankOrder> parse_rank_order(std::string_view text) {
  return named(kRankOrders, text);
}

std::string_view to_string(ExpertDispatch dispatch) { return name_of(kDispatches, dispatch); }

std::optional<ExpertDispatch> parse_expert_dispatch(std::string_view text) {
  return named(kDispatches, text);
}

std::string_view to_string(SkipTransport transport) { return name_of(kSkipTransports, transport); }

std::optional<SkipTransport> parse_skip_transport(std::string_view text) {
  return named(kSkipTransports, text);
}

std::optional<Misfit> cannot_share_experts(const Plan& plan) {
  const int among = plan.tp / plan.expert_tp() * plan.replicas();
  if (among % plan.ep == 0) return std::nullopt;
  return Misfit{"ep", fmt::format("{} does not divide the {} devices of {}", plan.ep, among,
                                  plan.etp > 0 ? "tp x cp x dp / etp" : "dp x cp")};
}

namespace {

// Precondition: set_treatment() saw the model, or the command that makes the plan did so for it.
std::optional<Misfit> cannot_have_shards(const Model& model, const Plan& plan) {
  if (!divides_vocabulary(plan.schedule)) return std::nullopt;
  if (const auto reason = cannot_divide_vocabulary(model))
    return Misfit{"schedule", fmt::format("{}: {}", plan.schedule, *reason)};
  if (plan.recompute.mode == RecomputeMode::stage)
    return Misfit{"recompute", fmt::format("stage: expected layers, or none, with {}, whose shards "
                                           "are stages that are not rebuilt",
                                           plan.schedule)};
  return std::nullopt;
}

}  // namespace

std::optional<Misfit> cannot_divide(const Model& model, const Plan& plan) {
  if (auto misfit = cannot_have_shards(model, plan)) return misfit;
  if (auto misfit = cannot_split(model, plan.seq_length, plan.split())) return misfit;
  if (auto misfit = cannot_adapt(model, plan)) return misfit;
  if (plan.prediction_layers > 0) {
    if (plan.lora.rank > 0)
      return Misfit{"prediction_layers", "expected without lora, which trains no new blocks"};
    if (const auto reason = cannot_predict(model)) return Misfit{"prediction_layers", *reason};
  }
  if (auto misfit = cannot_share_state(plan)) return misfit;
  if (auto misfit = cannot_lie_in_rows(plan)) return misfit;
  return cannot_share_experts(plan);
}

std::optional<Misfit> cannot_share_state(const Plan& plan) {
  const auto misfit = [](const char* key, std::string reason) {
    return std::optional<Misfit>({key, std::move(reason)});
  };
  if (plan.zero_shards > 0) {
    if (plan.zero == 0) return misfit("zero_shards", "expected beside zero only");
    const int all = plan.replicas();
    if (plan.zero_shards >= all || all % plan.zero_shards != 0) {
      return misfit("zero_shards", fmt::format("{}: expected a divisor of the {} devices of cp x "
                                               "dp below them (left out where all share)",
                                               plan.zero_shards, all));
    }
    if (plan.expert_replicas() % plan.share_groups() != 0) {
      return misfit("zero_shards",
                    fmt::format("{}: the {} devices that have the same experts do not divide into "
                                "{} groups",
                                plan.zero_shards, plan.expert_replicas(), plan.share_groups()));
    }
  }
  if (plan.zero_secondary > 0) {
    if (plan.zero < 3) return misfit("zero_secondary", "expected beside zero 3 only");
    if (plan.sharers() % plan.zero_secondary != 0 || plan.zero_secondary >= plan.sharers()) {
      return misfit(
          "zero_secondary",
          fmt::format("{}: expected a divisor of the {} devices among which ZeRO divides, "
                      "below them",
                      plan.zero_secondary, plan.sharers()));
    }
  }
  return std::nullopt;
}

namespace {

// Devices that have other numbers of passes may meet in none but their own sequences' exchanges.
std::optional<Misfit> cannot_follow_lengths(const Plan& plan) {
  const SequenceLengths& lengths = plan.lengths;
  const auto misfit = [&](std::string_view reason) {
    return Misfit{"lengths", fmt::format("dynamic_cp = {}: {}", lengths.dynamic_cp, reason)};
  };
  const int all = plan.replicas();
  if (lengths.rows != RowsOf::packed) return misfit("expected with packed rows");
  if (plan.stages() > 1) return misfit("expected without a pipeline");
  if (plan.ep > 1) return misfit("expected without expert parallelism, whose devices meet");
  if (plan.zero == 3) return misfit("expected without ZeRO 3, whose devices meet");
  if (!plan.cuda_graphs.none()) return misfit("expected without CUDA graphs, of one length each");
  if (all < 2 || (all & (all - 1)) != 0)
    return misfit(fmt::format("expected a power of two of cp x dp devices, not {}", all));
  const int longest = lengths.quantiles.back();
  if (devices_of_sequence(longest, lengths.dynamic_cp) > all) {
    return misfit(fmt::format("the longest sequence has {} tokens, above the {} of {} devices",
                              longest, std::int64_t{all} * lengths.dynamic_cp, all));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Misfit> cannot_lie_in_rows(const Plan& plan) {
  const SequenceLengths& lengths = plan.lengths;
  if (!lengths.known()) return std::nullopt;
  if (plan.seq_length == 0) return Misfit{"lengths", "expected with rows of tokens"};
  // A stream that is cut may have longer ones.
  if (lengths.rows != RowsOf::cut && lengths.quantiles.back() > plan.seq_length) {
    return Misfit{"lengths", fmt::format("the longest has {} tokens, expected at most the {} of a "
                                         "row (or rows that cut)",
                                         lengths.quantiles.back(), plan.seq_length)};
  }
  if (plan.slices > 1) return Misfit{"lengths", "expected without slices, which are of whole rows"};
  return lengths.dynamic_cp > 0 ? cannot_follow_lengths(plan) : std::nullopt;
}

void set_treatment(Model& model, const Plan& plan) {
  set_vocabulary(model, 1);  // what comes next counts layers as the model's file has them
  set_prediction(model, plan.prediction_layers);
  set_attention(model, plan.attention);
  set_trained(model, plan.lora, plan.frozen);
  set_fp8(model, plan.fp8);
  if (divides_vocabulary(plan.schedule)) set_vocabulary(model, plan.pp);
}

Model model_of_stages(Model model, const Plan& plan) {
  set_treatment(model, plan);
  model.layers.resize(static_cast<std::size_t>(staged_layers(model)));
  return model;
}

Plan rebased(Plan plan, const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto seen_from_there = [&](const std::string& path) {
    return seen_from(to, from / path).string();
  };
  plan.model_path = seen_from_there(plan.model_path);
  if (plan.schedule.ends_with(".csv")) plan.schedule = seen_from_there(plan.schedule);
  return plan;
}

void save_plan(const Plan& plan, const std::filesystem::path& file) {
  write_file_atomically(file, to_json(plan));
}

}  // namespace weir
