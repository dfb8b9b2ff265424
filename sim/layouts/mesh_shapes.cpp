// Every order of the names times every list of factors.
// SPDX-License-Identifier: Apache-2.0
#include "sim/layouts/mesh_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "plan/layout/einsum_text.hpp"
#include "plan/layout/mesh_factors.hpp"
#include "plan/layout/network_text.hpp"
#include "plan/words/indexed.hpp"

namespace weir {
namespace {

using layout::MeshDimension;
using Mesh = std::vector<MeshDimension>;

std::vector<Mesh> shapes_of(std::vector<std::string> names, int devices) {
  std::vector<Mesh> all;
  std::ranges::sort(names);
  // Where a mesh dimension stands says which devices are its neighbours, so every order counts.
  do {
    // Sizes of 1 included: a rule over such a dimension splits nothing.
    for (const auto& sizes : layout::ordered_factors(devices, names.size())) {
      Mesh& mesh = all.emplace_back();
      for (std::size_t m = 0; m < names.size(); ++m) mesh.push_back({names[m], names[m], sizes[m]});
    }
  } while (std::next_permutation(names.begin(), names.end()));
  return all;
}

std::string name_of(const layout::NetworkLayout& layout) {
  std::string name;
  for (const MeshDimension& m : layout.mesh)
    name += fmt::format("{}{}={}", name.empty() ? "" : ",", m.name, m.size);
  return name.empty() ? "one" : name;
}

}  // namespace

std::vector<std::string> axes_named(std::string_view rules) {
  std::vector<std::string> names;
  for (const std::string& rule : layout::pieces(rules, ',')) {
    const auto sides = layout::pieces(rule, ':');
    if (sides.size() != 2 || !layout::is_name(sides[1]))
      throw std::invalid_argument(fmt::format("{}: expected as \"batch:d,heads:m\"", rule));
    if (std::ranges::find(names, sides[1]) == names.end()) names.push_back(sides[1]);
  }
  if (names.empty() || names.size() > kMostShapedAxes)
    throw std::invalid_argument(
        fmt::format("expected rules over 1 to {} mesh dimensions", kMostShapedAxes));
  return names;
}

std::vector<ShapedLayout> on_every_shape(const layout::Network& network, std::string_view rules,
                                         int devices, const NetworkJob& job,
                                         const Cluster& cluster) {
  const std::vector<std::string> names = axes_named(rules);
  layout::NetworkLayout read;
  for (const std::string& name : names) read.mesh.push_back({name, name, 1});
  set_network_rules(rules, network, read);
  std::vector<ShapedLayout> all;
  std::set<std::string> seen;
  for (const Mesh& shape : shapes_of(names, devices)) {
    ShapedLayout one{on_mesh(read, shape), {}, {}};
    one.layout.name = name_of(one.layout);
    // Orders that differ in dimensions of size 1 alone are the same mesh.
    if (!seen.insert(one.layout.name).second) continue;
    one.why = illegal(network, one.layout);
    if (!one.why) one.cost = network_cost(network, one.layout, job, cluster);
    all.push_back(std::move(one));
  }
  std::ranges::stable_sort(all, [](const ShapedLayout& a, const ShapedLayout& b) {
    if (a.why.has_value() != b.why.has_value()) return !a.why;
    return !a.why && a.cost.time() < b.cost.time();
  });
  return all;
}

}  // namespace weir
