// By the names that a model's network gives its dimensions.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/megatron_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "plan/words/indexed.hpp"

namespace weir::layout {
namespace {

// Where Megatron's cut has a dimension, of replicas that have other experts (d) and the same (e),
// and of processors that divide layers (m).
struct MegatronAxes {
  Axes d = 0, e = 0, m = 0, rows = 0, shards = 0;
  [[nodiscard]] Axes of(std::string_view dimension) const {
    const std::pair<std::string_view, Axes> rules[] = {
        {"batch", d | e},  {"rows", rows},   {"heads", m},   {"ffn", m},
        {"shared_ffn", m}, {"vocab", m},     {"experts", e}, {"slots", d | (e != 0 ? rows : 0)},
        {"places", d},     {"shard", shards}};
    const auto* rule = std::ranges::find(rules, dimension, [](const auto& r) { return r.first; });
    return rule == std::end(rules) ? Axes{0} : rule->second;
  }
};

}  // namespace

MegatronCut megatron_cut(const Network& network, const NetworkLayout& layout) {
  const auto over = [&](std::string_view name) {
    const auto found = std::ranges::find(network.dimensions, name, &Dimension::name);
    return found == network.dimensions.end() ? Axes{0}
                                             : layout.over[at(found - network.dimensions.begin())];
  };
  MegatronAxes axes{.e = over("experts"), .m = over("heads"), .rows = over("rows")};
  axes.d = over("batch") & ~axes.e;
  axes.shards = over("shard") == 0 ? 0 : axes.d | axes.e;
  for (std::size_t d = 0; d < network.dimensions.size(); ++d) {
    const std::string& name = network.dimensions[d].name;
    const Axes expected = name == "rows" ? layout.over[d] & axes.m : axes.of(name);
    if (layout.over[d] == expected && (name != "rows" || expected == 0 || expected == axes.m))
      continue;
    const auto text = [&](Axes a) { return a == 0 ? "nothing" : axes_text(layout, a); };
    throw std::invalid_argument(
        fmt::format("{} is split over {}, where Megatron's cut has it over {}", name,
                    text(layout.over[d]), text(name == "rows" ? axes.m : axes.of(name))));
  }
  // Devices that divide layers are neighbours, then those that have other experts.
  const Axes order[] = {axes.m, axes.e, axes.d};
  std::size_t place = 0;
  for (std::size_t a = layout.mesh.size(); a-- > 0;) {
    const Axes axis = Axes{1} << a;
    while (place < std::size(order) && (order[place] & axis) == 0) ++place;
    if (place == std::size(order))
      throw std::invalid_argument(
          fmt::format("mesh dimension {} is not where Megatron's cut has it: tensor parallelism "
                      "last, experts before it, replicas first",
                      layout.mesh[a].name));
  }
  const Axes replicas = axes.d | axes.e;
  if (layout.optimizer != 0 && layout.optimizer != replicas)
    throw std::invalid_argument(fmt::format(
        "the optimizer's numbers are split over {}, where Megatron's cut has them over {}",
        axes_text(layout, layout.optimizer),
        replicas == 0 ? "nothing" : axes_text(layout, replicas)));
  const auto count = [&](Axes a) { return static_cast<int>(members(layout, a)); };
  const int zero = axes.shards != 0 ? 3 : layout.gradients != 0 ? 2 : layout.optimizer != 0 ? 1 : 0;
  return {count(axes.m), count(axes.d | axes.e), count(axes.e), axes.rows != 0, zero};
}

NetworkLayout megatron_layout(const Network& network, const MegatronCut& cut) {
  NetworkLayout layout;
  layout.name = "megatron";
  const auto axis = [&](const char* name, int size) {
    if (size <= 1) return Axes{0};
    layout.mesh.push_back({name, name, size});
    return Axes{1} << (layout.mesh.size() - 1);
  };
  // The replicas are d x e: each e of them share one set of experts.
  const Axes d = axis("d", cut.dp / cut.ep), e = axis("e", cut.ep), m = axis("m", cut.tp);
  const MegatronAxes axes{d, e, m, cut.sequence_parallel ? m : Axes{0},
                          cut.zero == 3 ? d | e : Axes{0}};
  for (const Dimension& dimension : network.dimensions)
    layout.over.push_back(axes.of(dimension.name));
  if (cut.zero == 1 || cut.zero == 2) layout.optimizer = d | e;
  if (cut.zero == 2) layout.gradients = d | e;
  return layout;
}

}  // namespace weir::layout
