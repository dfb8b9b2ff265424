// What tells a plan from others of its model, and nothing more.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace weir {

std::string to_text(const Recompute& recompute) {
  if (!recompute.except_last) return recompute_word(recompute);
  if (recompute.mode == RecomputeMode::stage) return "except-last";
  return recompute_word(recompute) + " except-last";
}

std::string summary(const Plan& plan) {
  constexpr std::size_t kMostShown = 8;
  std::string boundaries;
  for (std::size_t i = 0; i < plan.boundaries.size(); ++i) {
    // Of many boundaries the first two and the last are shown.
    const bool skipped =
        plan.boundaries.size() > kMostShown && i >= 2 && i + 1 < plan.boundaries.size();
    if (skipped && i > 2) continue;
    boundaries += fmt::format("{}{}", i == 0 ? "" : ",",
                              skipped ? "..." : std::to_string(plan.boundaries[i]));
  }
  std::string text =
      fmt::format("K{}{}", plan.pp, plan.vpp > 1 ? fmt::format(" v{}", plan.vpp) : "");
  if (plan.tp > 1) text += fmt::format(" tp{}{}", plan.tp, plan.sequence_parallel ? "s" : "");
  if (plan.cp > 1) text += fmt::format(" cp{}", plan.cp);
  if (plan.dp > 1) text += fmt::format(" dp{}", plan.dp);
  if (plan.ep > 1) text += fmt::format(" ep{}", plan.ep);
  if (plan.etp > 0) text += fmt::format(" etp{}", plan.etp);
  if (plan.overlap_experts) text += " overlapped";
  if (plan.zero > 0) text += fmt::format(" zero{}", plan.zero);
  if (plan.zero_shards > 0) text += fmt::format(" shards{}", plan.zero_shards);
  if (plan.zero_secondary > 0) text += fmt::format(" secondary{}", plan.zero_secondary);
  if (!plan.cuda_graphs.none()) text += fmt::format(" graphs {}", to_string(plan.cuda_graphs));
  if (plan.offload_optimizer > 0) text += fmt::format(" offload{:.3g}", plan.offload_optimizer);
  if (plan.offload_activations > 0)
    text += fmt::format(" offload{:.3g} of activations", plan.offload_activations);
  text += fmt::format(" M{} b{} {}", plan.microbatches, plan.micro_batch_size, plan.schedule);
  if (plan.rank_order != RankOrder::tp_cp_dp_pp)
    text += fmt::format(" {}", to_string(plan.rank_order));
  for (const PlacedRanks& placed : plan.placement)
    text += fmt::format(" {}@{}", placed.ranks, placed.pool);
  if (plan.slices > 1) text += fmt::format(" slices{}", plan.slices);
  if (plan.lengths.known()) text += " " + to_text(plan.lengths);
  if (plan.attention == AttentionKind::fused) text += " fused";
  if (plan.fp8 != Fp8Recipe::none) {
    text += fmt::format(" fp8 {}{}", to_string(plan.fp8), plan.fp8_parameters ? " parameters" : "");
  }
  if (plan.prediction_layers > 0) text += fmt::format(" predict{}", plan.prediction_layers);
  if (plan.lora.rank > 0) text += fmt::format(" lora{}", plan.lora.rank);
  if (!plan.frozen.empty()) text += fmt::format(" frozen {}", layers_word(plan.frozen));
  if (plan.skips == SkipTransport::direct) text += " direct skips";
  if (plan.recompute.mode != RecomputeMode::none) text += " " + to_text(plan.recompute);
  return boundaries.empty() ? text : text + " [" + boundaries + "]";
}

std::string legend_of_summaries(const std::vector<std::string>& names) {
  // In the order of a name.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kLetters{
      {{"K", "ranks of the pipeline"},
       {"v", "stages a rank"},
       {"tp", "tensor-parallel devices (an s behind: with sequence parallelism)"},
       {"cp", "context-parallel devices"},
       {"dp", "replicas"},
       {"ep", "devices that share experts"},
       {"etp", "tensor-parallel devices of an expert"},
       {"zero", "stage of ZeRO"},
       {"M", "micro-batches a step"},
       {"b", "samples a micro-batch"}}};
  // A letter stands before its number, at the beginning of a word.
  const auto has = [](const std::string& name, std::string_view letter) {
    for (std::size_t at = name.find(letter); at != name.npos; at = name.find(letter, at + 1)) {
      const std::size_t behind = at + letter.size();
      const bool digit = behind < name.size() && name[behind] >= '0' && name[behind] <= '9';
      if (digit && (at == 0 || name[at - 1] == ' ')) return true;
    }
    return false;
  };
  std::string text;
  for (const auto& [letter, meaning] : kLetters) {
    if (std::ranges::any_of(names, [&, letter = letter](auto& name) { return has(name, letter); }))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", letter, meaning);
  }
  text += "; then the schedule and what else the plan has";
  const bool split = std::ranges::any_of(
      names, [](const std::string& name) { return name.find('[') != name.npos; });
  return split ? text + "; in brackets the layers at which further stages begin" : text;
}

}  // namespace weir
