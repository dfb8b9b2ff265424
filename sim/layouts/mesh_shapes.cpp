// Every order of the names times every ordered factorisation.
// SPDX-License-Identifier: Apache-2.0
#include "sim/layouts/mesh_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "plan/layout/einsum_text.hpp"
#include "plan/layout/network_text.hpp"
#include "plan/words/indexed.hpp"

namespace weir {
namespace {

using layout::MeshDimension;
using Mesh = std::vector<MeshDimension>;

// Sizes of 1 included: a rule over such a dimension splits nothing.
void append_shapes(const std::vector<std::string>& names, std::int64_t left, Mesh& so_far,
                   std::vector<Mesh>& all) {
  const std::string& name = names[so_far.size()];
  const bool last = so_far.size() + 1 == names.size();
  for (std::int64_t size = last ? left : 1; size <= left; ++size) {
    if (left % size != 0) continue;
    so_far.push_back({name, name, size});
    if (last) {
      all.push_back(so_far);
    } else {
      append_shapes(names, left / size, so_far, all);
    }
    so_far.pop_back();
  }
}

std::vector<Mesh> shapes_of(std::vector<std::string> names, int devices) {
  std::vector<Mesh> all;
  std::ranges::sort(names);
  // Where a mesh dimension stands says which devices are its neighbours, so every order counts.
  do {
    Mesh so_far;
    append_shapes(names, devices, so_far, all);
  } while (std::next_permutation(names.begin(), names.end()));
  return all;
}

// The rules were read on a mesh with all names: a dimension of size 1 goes, and with it its bit.
layout::NetworkLayout without_ones(const Mesh& shape, const Mesh& read,
                                   const std::vector<layout::Axes>& over) {
  layout::NetworkLayout made;
  made.over.assign(over.size(), 0);
  for (const MeshDimension& m : shape) {
    if (m.size == 1) continue;
    const auto from = std::ranges::find(read, m.name, &MeshDimension::name) - read.begin();
    for (std::size_t d = 0; d < over.size(); ++d) {
      if ((over[d] >> static_cast<unsigned>(from) & 1U) != 0)
        made.over[d] |= layout::Axes{1} << made.mesh.size();
    }
    made.mesh.push_back(m);
  }
  return made;
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
  const std::vector<layout::Axes> over = parse_network_rules(rules, network, read);
  std::vector<ShapedLayout> all;
  std::set<std::string> seen;
  for (const Mesh& shape : shapes_of(names, devices)) {
    ShapedLayout one{without_ones(shape, read.mesh, over), {}, {}};
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
