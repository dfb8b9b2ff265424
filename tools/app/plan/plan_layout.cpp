// The file's network is held against the model's, its layout against Megatron's.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/plan/plan_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "plan/layout/megatron_cut.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/layout/network_json.hpp"
#include "plan/layout/read.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

using layout::Network;

// The size of a dimension; 1 where there is none of the name.
std::int64_t size_of(const Network& network, std::string_view name) {
  const auto found = std::ranges::find(network.dimensions, name, &layout::Dimension::name);
  return found == network.dimensions.end() ? 1 : found->size;
}

const layout::NetworkLayout& named_layout(const LayoutChoice& choice,
                                          const layout::LayoutFile& file) {
  const auto& all = file.network_layouts;
  if (choice.name.empty()) return all.front();
  const auto found = std::ranges::find(all, choice.name, &layout::NetworkLayout::name);
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const layout::NetworkLayout& one : all) names.push_back(one.name);
    throw UsageError(fmt::format("--layout-name {}: {} has {}", choice.name, choice.file.string(),
                                 fmt::join(names, ", ")));
  }
  return *found;
}

// Networks are equal where they are written alike.
void require_same_network(const LayoutChoice& choice, const PlanOptions& options,
                          const Model& model, const Network& network) {
  Model attending = model;
  set_attention(attending, attention_of(options));
  const layout::NetworkOf of{.seq_length = size_of(network, "rows"),
                             .batch = size_of(network, "batch"),
                             .vocabulary_of = size_of(network, "vocab")};
  std::string expected, found;
  for (const bool apart : {false, true}) {
    layout::NetworkOf with = of;
    with.experts_apart = apart;
    with.shards = size_of(network, "shard") > 1;
    try {
      Network mine = layout::model_network(attending, with);
      mine.name = network.name;
      expected = to_json(mine, {});
    } catch (const std::invalid_argument& why) {
      throw InputError(options.model.string(), "layers", why.what());
    }
    found = to_json(network, {});
    if (expected == found) return;
  }
  throw InputError(choice.file.string(), "layers",
                   fmt::format("not the network of {} with --attention {}: weir layout {} "
                               "--program makes that",
                               options.model.string(), options.attention, options.model.string()));
}

template <class T>
void take(const Session& session, const char* option, std::optional<T>& value, T from_layout) {
  if (session.given(option) && value.value_or(1) != from_layout)
    throw UsageError(fmt::format("--{} {} contradicts --layout, whose is {}", option,
                                 value.value_or(1), from_layout));
  value = from_layout;
}

}  // namespace

void take_layout(const LayoutChoice& choice, const Model& model, const Session& session,
                 PlanOptions& options, ParallelOptions& degrees, int& micro_batch_size) {
  const layout::LayoutFile file = layout::load_layouts(choice.file);
  if (!file.network)
    throw InputError(choice.file.string(), "layers",
                     "expected the network of a model: einsums have no stages");
  const Network& network = *file.network;
  require_same_network(choice, options, model, network);
  const layout::NetworkLayout& layout = named_layout(choice, file);
  layout::MegatronCut cut;
  try {
    cut = layout::megatron_cut(network, layout);
  } catch (const std::invalid_argument& why) {
    throw InputError(
        choice.file.string(), "layouts",
        fmt::format("{}: {}: a plan's stages are cut as Megatron's", layout.name, why.what()));
  }
  take(session, "tp", degrees.tp, cut.tp);
  take(session, "dp", degrees.dp, cut.dp);
  take(session, "ep", degrees.ep, cut.ep);
  // The first two stages divide what no layout names.
  if (cut.zero > 0) take(session, "zero", degrees.zero, cut.zero);
  if (degrees.sequence_parallel && !cut.sequence_parallel)
    throw UsageError("--sequence-parallel contradicts --layout, which has rows whole");
  degrees.sequence_parallel = cut.sequence_parallel;
  take(session, "seq-length", options.seq_length, size_of(network, "rows"));
  const std::int64_t samples = size_of(network, "batch") / cut.dp;
  std::optional<std::int64_t> b = micro_batch_size;
  take(session, "micro-batch-size", b, samples);
  micro_batch_size = static_cast<int>(*b);
}

}  // namespace weir::app
