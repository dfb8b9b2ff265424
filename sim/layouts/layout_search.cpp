// Placings by depth-first search over dimensions: a dimension meets those placed before it, and
// goes only where none of them that it must be apart from is.
// SPDX-License-Identifier: Apache-2.0
#include "sim/layouts/layout_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "costmodel/memory/training_state.hpp"
#include "plan/layout/mesh_factors.hpp"
#include "plan/words/indexed.hpp"
#include "sim/parallel.hpp"

namespace weir {
namespace {

using layout::Axes;
using layout::Network;
using layout::NetworkLayout;

// Of one layer, or of several together.
struct Placed {
  NetworkCost cost;
  std::vector<Axes> over;
};

bool beats(const NetworkCost& a, const NetworkCost& b) {
  return a.time() <= b.time() && a.memory() <= b.memory();
}

// Fastest first; of equals the first that was found stays.
template <class P>
std::vector<P> front_of(std::vector<P> all) {
  std::ranges::stable_sort(all, [](const P& a, const P& b) {
    return std::pair(a.cost.time(), a.cost.memory()) < std::pair(b.cost.time(), b.cost.memory());
  });
  std::vector<P> front;
  for (P& one : all) {
    // All of them are in order of time: what needs no less memory than the last kept one is beaten.
    if (front.empty() || one.cost.memory() < front.back().cost.memory())
      front.push_back(std::move(one));
  }
  return front;
}

template <class P>
void add(std::vector<P>& front, P one) {
  if (std::ranges::any_of(front, [&](const P& p) { return beats(p.cost, one.cost); })) return;
  std::erase_if(front, [&](const P& p) { return beats(one.cost, p.cost); });
  front.push_back(std::move(one));
}

// What does not depend on the mesh.
struct Structure {
  std::vector<std::vector<int>> apart;     // by dimension: those it must be apart from
  std::vector<bool> whole;                 // never split
  std::vector<int> shared;                 // dimensions of several layers
  std::vector<std::vector<int>> in_layer;  // those of them that a layer has, by layer
  std::vector<std::vector<int>> of_layer;  // of one layer alone, by layer
};

Structure structure_of(const Network& network) {
  const std::size_t count = network.dimensions.size();
  Structure s{std::vector<std::vector<int>>(count),
              std::vector<bool>(count, false),
              {},
              std::vector<std::vector<int>>(network.layers.size()),
              std::vector<std::vector<int>>(network.layers.size())};
  std::vector<int> last_layer(count, -1);
  std::vector<int> layers(count, 0);
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    for (const int d : needed_whole(network.layers[l])) s.whole[at(d)] = true;
    for (const std::vector<int>& group : apart(network.layers[l])) {
      for (const int d : group) {
        // A dimension counts once a layer, however many groups of the layer have it.
        if (last_layer[at(d)] != static_cast<int>(l)) ++layers[at(d)];
        last_layer[at(d)] = static_cast<int>(l);
        for (const int o : group) {
          if (o != d && std::ranges::find(s.apart[at(d)], o) == s.apart[at(d)].end())
            s.apart[at(d)].push_back(o);
        }
      }
    }
  }
  for (std::size_t d = 0; d < count; ++d) {
    // A dimension of size 1 has nothing to split.
    if (network.dimensions[d].size == 1) s.whole[d] = true;
    if (s.whole[d] || layers[d] == 0) continue;
    (layers[d] > 1 ? s.shared : s.of_layer[at(last_layer[d])]).push_back(static_cast<int>(d));
  }
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    for (const int d : s.shared) {
      if (std::ranges::any_of(apart(network.layers[l]), [d](const std::vector<int>& group) {
            return std::ranges::find(group, d) != group.end();
          }))
        s.in_layer[l].push_back(d);
    }
  }
  return s;
}

// Calls body() for each legal placing of dimensions[from..] beside those that are placed.
template <class Body>
void each_placing(const Network& network, const Structure& s, const std::vector<int>& dimensions,
                  std::size_t from, NetworkLayout& layout, const Body& body) {
  if (from == dimensions.size()) return body();
  const int d = dimensions[from];
  // Two dimensions of one tensor cannot be split over the same mesh dimension.
  Axes taken = 0;
  for (const int o : s.apart[at(d)]) taken |= layout.over[at(o)];
  const Axes all = (Axes{1} << layout.mesh.size()) - 1;
  for (Axes axes = 0; axes <= all; ++axes) {
    // Blocks are of equal size.
    if ((axes & taken) != 0 || network.dimensions[at(d)].size % members(layout, axes) != 0)
      continue;
    layout.over[at(d)] = axes;
    each_placing(network, s, dimensions, from + 1, layout, body);
  }
  // As it was found: the caller's other placings see it whole.
  layout.over[at(d)] = 0;
}

// Of what the optimizer keeps beside weights: as a layout has them.
struct Division {
  Axes optimizer = 0, gradients = 0;
};

void set(NetworkLayout& layout, const Division& division) {
  layout.optimizer = division.optimizer;
  layout.gradients = division.gradients;
}

// Nothing first, so that it stays where dividing brings nothing. Gradients are divided as the
// optimizer's numbers are, or not.
std::vector<Division> divisions(std::size_t mesh_dimensions, bool divided_state) {
  std::vector<Division> all{{}};
  for (Axes axes = 1; divided_state && axes < Axes{1} << mesh_dimensions; ++axes)
    all.insert(all.end(), {{axes, 0}, {axes, axes}});
  return all;
}

// On a mesh of these sizes, nothing split.
NetworkLayout empty_layout(const std::vector<std::int64_t>& sizes, std::size_t dimensions) {
  NetworkLayout layout;
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    const std::string name = fmt::format("m{}", m);
    layout.mesh.push_back({name, name, sizes[m]});
  }
  layout.over.assign(dimensions, 0);
  return layout;
}

// Of all layers.
struct DividedPlaced : Placed {
  Division division;
};

void set(NetworkLayout& layout, const DividedPlaced& placed) {
  layout.over = placed.over;
  set(layout, placed.division);
}

MeshFront mesh_front(const std::vector<std::int64_t>& sizes, std::size_t dimensions,
                     const std::vector<DividedPlaced>& front) {
  NetworkLayout layout = empty_layout(sizes, dimensions);
  MeshFront one{layout.mesh, {}};
  for (const DividedPlaced& placed : front) {
    set(layout, placed);
    one.front.push_back({layout, placed.cost});
  }
  return one;
}

const FoundLayout* first_within(const std::vector<FoundLayout>& front, Bytes memory) {
  const auto found = std::ranges::find_if(
      front, [memory](const FoundLayout& one) { return one.cost.memory() <= memory; });
  return found == front.end() ? nullptr : &*found;
}

// The least share of a layer's state that a division leaves: where each weight is whole on all the
// devices that divide what is kept beside it.
double least_of_state(const NetworkJob& job, const NetworkLayout& layout,
                      const Division& division) {
  constexpr int kMany = 1 << 20;
  const StateBytes bytes = state_bytes(job.optimizer, job.dtype);
  const auto of = [&](int zero, std::int64_t sharers) {
    const StateShare share = zero_share(kMany, bytes, zero, static_cast<int>(sharers));
    return static_cast<double>(share.total().count());
  };
  const int zero = division.gradients != 0 ? 2 : 1;
  return of(zero, members(layout, division.optimizer)) / of(0, 1) - 1e-4;  // shares are rounded up
}

// One mesh.
class MeshSearch {
 public:
  MeshSearch(const Network& network, const Structure& s, const NetworkJob& job,
             const Cluster& cluster, const std::vector<std::int64_t>& sizes, bool divided_state)
      : network_(network),
        s_(s),
        job_(job),
        cluster_(cluster),
        divisions_(divisions(sizes.size(), divided_state)) {
    layout_ = empty_layout(sizes, network.dimensions.size());
    known_.resize(network.layers.size());
    for (const Division& division : divisions_)
      least_state_.push_back(least_of_state(job, layout_, division));
  }

  std::vector<DividedPlaced> search(std::atomic<std::int64_t>& examined) {
    std::vector<DividedPlaced> front;
    for (std::size_t d = 0; d < divisions_.size(); ++d)
      each_placing(network_, s_, s_.shared, 0, layout_, [&] { add_sums(d, front); });
    examined += examined_;
    return front;
  }

 private:
  using Fronts = std::vector<std::vector<Placed>>;  // by division

  // The layers' fronts where the shared dimensions are, added up.
  void add_sums(std::size_t division, std::vector<DividedPlaced>& front) {
    std::vector<Placed> sums{{NetworkCost{}, layout_.over}};
    for (std::size_t l = 0; l < network_.layers.size(); ++l) {
      const std::vector<Placed>& one = layer_fronts(l)[division];
      std::vector<Placed> next;
      for (const Placed& before : sums) {
        for (const Placed& here : one) {
          Placed both = before;
          both.cost += here.cost;
          for (std::size_t i = 0; i < here.over.size(); ++i)
            both.over[at(s_.of_layer[l][i])] = here.over[i];
          next.push_back(std::move(both));
        }
      }
      // Reduced after every layer: a sum that is beaten so far stays beaten, whatever the other
      // layers add.
      sums = front_of(std::move(next));
    }
    for (Placed& sum : sums) add(front, DividedPlaced{std::move(sum), divisions_[division]});
  }

  // Once for each placing of the shared dimensions that the layer has: those that it has not change
  // nothing of it. Of what is returned `over` is of the layer's own dimensions, in their order.
  const Fronts& layer_fronts(std::size_t l) {
    std::vector<Axes> where;
    for (const int d : s_.in_layer[l]) where.push_back(layout_.over[at(d)]);
    const auto [found, is_new] = known_[l].try_emplace(std::move(where));
    Fronts& fronts = found->second;
    if (!is_new) return fronts;
    fronts.resize(divisions_.size());
    // Of those whose weights lie and are reduced alike, none that another beats: divisions, which
    // change nothing else, change them alike.
    std::map<std::vector<Axes>, std::vector<Placed>> alike;
    each_placing(network_, s_, s_.of_layer[l], 0, layout_, [&] {
      Placed one;
      for (const int d : s_.of_layer[l]) one.over.push_back(layout_.over[at(d)]);
      const layout::LayerShare share = share_of(l, {});
      one.cost = cost_of(l, share);
      add(alike[of_weights(l, share)], std::move(one));
    });
    std::vector<Placed> undivided;
    for (auto& [weights, placed] : alike) {
      for (const Placed& one : placed) add(fronts.front(), one);
      std::ranges::move(placed, std::back_inserter(undivided));
    }
    // Those that are soon over come first: then most others need not be priced.
    std::ranges::stable_sort(undivided, {}, [](const Placed& p) { return passes_time(p.cost); });
    for (std::size_t d = 1; d < divisions_.size(); ++d) add_divided(l, d, undivided, fronts[d]);
    return fronts;
  }

  // A division takes nothing away from products and exchanges, nor from what F keeps.
  static Seconds passes_time(const NetworkCost& cost) { return cost.products + cost.exchanges; }

  void add_divided(std::size_t l, std::size_t division, const std::vector<Placed>& undivided,
                   std::vector<Placed>& front) {
    for (const Placed& one : undivided) {
      NetworkCost bound;
      bound.products = passes_time(one.cost);
      bound.kept = one.cost.kept;
      bound.state = Bytes(static_cast<std::int64_t>(static_cast<double>(one.cost.state.count()) *
                                                    least_state_[division]));
      if (std::ranges::any_of(front, [&](const Placed& p) { return beats(p.cost, bound); }))
        continue;
      for (std::size_t i = 0; i < one.over.size(); ++i)
        layout_.over[at(s_.of_layer[l][i])] = one.over[i];
      add(front, Placed{cost_of(l, share_of(l, divisions_[division])), one.over});
    }
    for (const int d : s_.of_layer[l]) layout_.over[at(d)] = 0;
  }

  layout::LayerShare share_of(std::size_t l, const Division& division) {
    ++examined_;
    set(layout_, division);
    return layer_share(network_, layout_, l);
  }
  [[nodiscard]] NetworkCost cost_of(std::size_t l, const layout::LayerShare& share) const {
    return layer_cost(share, network_.layers[l].repeat, layout_, job_, cluster_);
  }

  // Where each weight is split, and over what its gradient is summed.
  [[nodiscard]] std::vector<Axes> of_weights(std::size_t l, const layout::LayerShare& share) const {
    std::vector<Axes> all;
    for (const layout::NetworkTensor& tensor : network_.layers[l].tensors)
      if (is_weight(tensor)) all.push_back(axes_of(layout_, tensor.dimensions));
    for (const layout::Exchange& exchange : share.exchanges) {
      if (exchange.pass != layout::Pass::step) continue;
      all.push_back(static_cast<Axes>(exchange.tensor));
      all.push_back(exchange.axes);
    }
    return all;
  }

  // Of each layer, by where the shared dimensions that it has are.
  std::vector<std::map<std::vector<Axes>, Fronts>> known_;
  const Network& network_;
  const Structure& s_;
  const NetworkJob& job_;
  const Cluster& cluster_;
  std::vector<Division> divisions_;
  std::vector<double> least_state_;  // by division
  NetworkLayout layout_;
  std::int64_t examined_ = 0;
};

}  // namespace

const FoundLayout* FoundLayouts::best(Bytes memory) const { return first_within(front, memory); }
const FoundLayout* MeshFront::best(Bytes memory) const { return first_within(front, memory); }

std::vector<std::vector<std::int64_t>> meshes(int devices, int most_axes) {
  if (devices == 1) return {{}};
  // Sizes in every order: what a mesh dimension is near to in the cluster follows from its place.
  // Of equal layouts the one on the simplest mesh is found first, and stays.
  std::vector<std::vector<std::int64_t>> all;
  for (int axes = 1; axes <= most_axes; ++axes) {
    for (auto& sizes : layout::ordered_factors(devices, at(axes))) {
      if (std::ranges::find(sizes, 1) == sizes.end()) all.push_back(std::move(sizes));
    }
  }
  return all;
}

std::optional<std::vector<FoundLayout>> fastest_layouts(const Network& network,
                                                        const NetworkJob& job,
                                                        const Cluster& cluster,
                                                        const LayoutSpace& space,
                                                        std::size_t count) {
  const Structure structure = structure_of(network);
  std::vector<int> dimensions = structure.shared;
  for (const std::vector<int>& own : structure.of_layer)
    dimensions.insert(dimensions.end(), own.begin(), own.end());
  const auto all = meshes(space.devices, space.most_axes);
  const bool too_many = std::ranges::any_of(all, [&](const auto& sizes) {
    return std::pow(2.0, static_cast<double>(sizes.size() * dimensions.size())) > kMostCompared;
  });
  if (too_many) return std::nullopt;
  std::vector<FoundLayout> fastest;
  for (const auto& sizes : all) {
    NetworkLayout layout = empty_layout(sizes, network.dimensions.size());
    const auto compare = [&] {
      const FoundLayout one{layout, network_cost(network, layout, job, cluster)};
      // After those that are as fast: of equal layouts the one on the simplest mesh comes first.
      const auto place = std::ranges::upper_bound(
          fastest, one.cost.time(), {}, [](const FoundLayout& f) { return f.cost.time(); });
      const auto same = [&](const FoundLayout& f) {
        return f.cost.time() == one.cost.time() && f.cost.memory() == one.cost.memory();
      };
      if (std::any_of(fastest.begin(), place, same)) return;
      fastest.insert(place, one);
      if (fastest.size() > count) fastest.pop_back();
    };
    for (const Division& division : divisions(sizes.size(), space.divided_state)) {
      set(layout, division);
      each_placing(network, structure, dimensions, 0, layout, compare);
    }
  }
  return fastest;
}

FoundLayouts search_layouts(const Network& network, const NetworkJob& job, const Cluster& cluster,
                            const LayoutSpace& space) {
  const Structure structure = structure_of(network);
  const auto all = meshes(space.devices, space.most_axes);
  std::vector<std::vector<DividedPlaced>> fronts(all.size());
  std::atomic<std::int64_t> examined = 0;
  in_parallel(all.size(), [&](std::size_t m) {
    fronts[m] =
        MeshSearch(network, structure, job, cluster, all[m], space.divided_state).search(examined);
  });
  FoundLayouts found{.meshes = static_cast<std::int64_t>(all.size()), .examined = examined};
  // In the order of the meshes, whichever thread was first.
  std::vector<std::pair<std::size_t, DividedPlaced>> every;
  for (std::size_t m = 0; m < all.size(); ++m) {
    found.by_mesh.push_back(mesh_front(all[m], network.dimensions.size(), front_of(fronts[m])));
    for (DividedPlaced& placed : fronts[m]) every.emplace_back(m, std::move(placed));
  }
  std::ranges::stable_sort(every, [](const auto& a, const auto& b) {
    return std::pair(a.second.cost.time(), a.second.cost.memory()) <
           std::pair(b.second.cost.time(), b.second.cost.memory());
  });
  for (auto& [m, placed] : every) {
    // Across meshes too, in order of time: only less memory than the last one is worth having.
    if (!found.front.empty() && placed.cost.memory() >= found.front.back().cost.memory()) continue;
    NetworkLayout layout = empty_layout(all[m], network.dimensions.size());
    layout.name = fmt::format("found {}", found.front.size() + 1);
    set(layout, placed);
    found.front.push_back({std::move(layout), placed.cost});
  }
  return found;
}

}  // namespace weir
