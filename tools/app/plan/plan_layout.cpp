// The file's network is held against the model's, its layout against Megatron's.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/plan/plan_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "plan/layout/megatron_cut.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/layout/network_json.hpp"
#include "plan/layout/read.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/named_layout.hpp"

namespace weir::app {
namespace {

using layout::Network;

// The size of a dimension; 1 where there is none of the name.
std::int64_t size_of(const Network& network, std::string_view name) {
  const auto found = std::ranges::find(network.dimensions, name, &layout::Dimension::name);
  return found == network.dimensions.end() ? 1 : found->size;
}

// A file may turn its queries and keys without saying that positions are tokens.
Network with_positions(Network network) {
  const auto tokens = std::ranges::find(network.dimensions, "tokens", &layout::Dimension::name);
  if (tokens == network.dimensions.end()) return network;
  for (layout::NetworkLayer& layer : network.layers) {
    for (layout::Operation& operation : layer.operations) {
      if (operation.act == layout::Act::turn && operation.over < 0)
        operation.over = static_cast<int>(tokens - network.dimensions.begin());
    }
  }
  return network;
}

// Networks are equal where they are written alike.
void require_same_network(const std::filesystem::path& file, const PlanOptions& options,
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
    if (expected == found || expected == to_json(with_positions(network), {})) return;
  }
  throw InputError(file.string(), "layers",
                   fmt::format("not the network of {} with --attention {}: weir layout {} "
                               "--attention {} --program makes that",
                               options.model.string(), options.attention, options.model.string(),
                               options.attention));
}

layout::LayoutFile load_network(const std::filesystem::path& file, const PlanOptions& options,
                                const Model& model) {
  layout::LayoutFile loaded = layout::load_layouts(file);
  if (!loaded.network)
    throw InputError(file.string(), "layers",
                     "expected the network of a model: einsums have no stages");
  require_same_network(file, options, model, *loaded.network);
  return loaded;
}

// The network that a plan's stages are of, all replicas together; where it cannot be, why.
Network network_of(const Model& model, const Plan& plan) {
  Model attending = model;
  set_attention(attending, plan.attention);
  try {
    return layout::model_network(attending,
                                 {.seq_length = plan.seq_length,
                                  .batch = std::int64_t{plan.micro_batch_size} * plan.dp,
                                  .vocabulary_of = layout::padded_to(plan.dtype, plan.tp),
                                  .experts_apart = plan.ep > 1,
                                  .shards = plan.zero == 3});
  } catch (const std::invalid_argument& why) {
    throw InputError(plan.model_path, "layers", why.what());
  }
}

bool same_cut(const layout::MegatronCut& a, const layout::MegatronCut& b) {
  return a.tp == b.tp && a.dp == b.dp && a.ep == b.ep &&
         a.sequence_parallel == b.sequence_parallel && a.zero == b.zero;
}

template <class T>
void take(const Session& session, const char* option, std::optional<T>& value, T from_layout) {
  if (session.given(option) && value.value_or(1) != from_layout)
    throw UsageError(fmt::format("--{} {} contradicts --layout, whose is {}", option,
                                 value.value_or(1), from_layout));
  value = from_layout;
}

}  // namespace

FileLayouts file_layouts(const std::filesystem::path& file, const Model& model,
                         const PlanOptions& options) {
  const layout::LayoutFile loaded = load_network(file, options, model);
  FileLayouts found{.seq_length = size_of(*loaded.network, "rows")};
  for (const layout::NetworkLayout& one : loaded.network_layouts) {
    try {
      const layout::MegatronCut cut = layout::megatron_cut(*loaded.network, one);
      const std::int64_t samples = size_of(*loaded.network, "batch") / cut.dp;
      // A plan says its cut alone, so that of two names for it one would never be listed.
      const auto same = std::ranges::find_if(
          found.layouts, [&](const StageLayout& before) { return same_cut(before.cut, cut); });
      if (same != found.layouts.end()) {
        found.left_out.push_back(
            fmt::format("layout {}: the same cut as layout {}", one.name, same->name));
        continue;
      }
      found.layouts.push_back({one.name, cut, static_cast<int>(samples)});
    } catch (const std::invalid_argument& why) {
      found.left_out.push_back(fmt::format("layout {}: {}: a plan's stages are cut as Megatron's",
                                           one.name, why.what()));
    }
  }
  return found;
}

AllLayouts all_layouts(const Model& model, const Plan& base, const StageDegrees& degrees) {
  AllLayouts all;
  const bool third = std::ranges::find(degrees.zero, 3) != degrees.zero.end();
  // Those of one network: with rows whole, and split.
  const auto add = [&](const Plan& plan) {
    const Network network = network_of(model, plan);
    for (const bool rows : {false, true}) {
      const layout::MegatronCut cut{plan.tp, plan.dp, plan.ep, rows, plan.zero};
      if (rows && plan.tp == 1) continue;
      if (const auto why = illegal(network, megatron_layout(network, cut))) {
        all.left_out = fmt::format("tp {}, dp {}, ep {}: {}", plan.tp, plan.dp, plan.ep, *why);
      } else {
        all.layouts.push_back({"", cut, {}});
      }
    }
  };
  Plan plan = base;
  // One sample a replica: how many more there are changes no layout.
  plan.micro_batch_size = 1;
  for (const int tp : degrees.tp) {
    for (const int dp : degrees.dp) {
      for (const int ep : degrees.ep) {
        if (dp % ep != 0) {
          all.left_out = fmt::format("ep {} does not divide dp {}", ep, dp);
          continue;
        }
        plan.tp = tp;
        plan.dp = dp;
        plan.ep = ep;
        plan.zero = 0;
        add(plan);
        if (third && dp == 1 && all.left_out.empty())
          all.left_out = "zero 3: shards need several replicas (dp 1)";
        if (!third || dp == 1) continue;
        plan.zero = 3;
        // Not every layer has words for shards; without them its other layouts stand.
        try {
          add(plan);
        } catch (const InputError& why) {
          all.no_shards = why.what();
        }
      }
    }
  }
  return all;
}

LayoutInWords layout_in_words(const Model& model, const Plan& plan) {
  const Network network = network_of(model, plan);
  const layout::NetworkLayout layout =
      megatron_layout(network, {plan.tp, plan.dp, plan.ep, plan.sequence_parallel, plan.zero});
  return {mesh_text(layout), rules_text(network, layout)};
}

void take_layout(const LayoutChoice& choice, const Model& model, const Session& session,
                 PlanOptions& options, ParallelOptions& degrees, int& micro_batch_size) {
  const layout::LayoutFile file = load_network(choice.file, options, model);
  const Network& network = *file.network;
  const layout::NetworkLayout& layout = named_layout(file, choice.name, choice.file);
  layout::MegatronCut cut;
  try {
    cut = layout::megatron_cut(network, layout);
  } catch (const std::invalid_argument& why) {
    throw InputError(
        choice.file.string(), "layouts",
        fmt::format("{}: {}: a plan's stages are cut as Megatron's (weir layout --stages forecasts "
                    "others)",
                    layout.name, why.what()));
  }
  take(session, "tp", degrees.tp, cut.tp);
  take(session, "dp", degrees.dp, cut.dp);
  take(session, "ep", degrees.ep, cut.ep);
  // A layout that divides nothing of what is kept of weights leaves the first two stages open; the
  // third's shards are words of a layout.
  if (cut.zero > 0 || degrees.zero == 3) take(session, "zero", degrees.zero, cut.zero);
  take(session, "cp", degrees.cp, 1);
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
