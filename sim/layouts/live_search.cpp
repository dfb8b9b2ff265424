// Dimensions of the largest tensors are placed first.
// SPDX-License-Identifier: Apache-2.0
#include "sim/layouts/live_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "plan/words/indexed.hpp"

namespace weir {
namespace {

using layout::Axes;
using layout::Network;
using layout::NetworkLayout;

class LiveSearch {
 public:
  LiveSearch(const Network& network, const LiveTensors& live, Dtype dtype)
      : network_(network),
        live_(live),
        dtype_(dtype),
        apart_(network.dimensions.size()),
        whole_(network.dimensions.size(), false),
        order_(network.dimensions.size()) {
    for (const layout::NetworkLayer& layer : network.layers) {
      for (const int d : needed_whole(layer)) whole_[at(d)] = true;
      for (const std::vector<int>& group : apart(layer)) {
        for (const int d : group) {
          apart_[at(d)].insert(apart_[at(d)].end(), group.begin(), group.end());
        }
      }
    }
    std::vector<double> weight(order_.size(), 0);
    for (const std::vector<int>& kind : live.kinds) {
      for (const int d : kind) weight[at(d)] += whole_elements(network, kind);
    }
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, [&](int a, int b) { return weight[at(a)] > weight[at(b)]; });
  }

  void search(const std::vector<std::int64_t>& mesh) {
    layout_ = {};
    for (std::size_t m = 0; m < mesh.size(); ++m) {
      const std::string name = fmt::format("m{}", m);
      layout_.mesh.push_back({name, name, mesh[m]});
    }
    layout_.over.assign(order_.size(), 0);
    place(0);
  }
  LeastLive best{{}, Bytes(-1), 0};

 private:
  // The least that any placing of the dimensions from order_[from] on can come to.
  [[nodiscard]] Bytes bound(std::size_t from) const {
    const Axes all = (Axes{1} << layout_.mesh.size()) - 1;
    std::vector<double> elements;
    for (const std::vector<int>& kind : live_.kinds) {
      const Axes taken = axes_of(layout_, kind);
      const bool open =
          std::any_of(order_.begin() + static_cast<std::ptrdiff_t>(from), order_.end(),
                      [&](int d) { return !whole_[at(d)] && layout::has_dimension(kind, d); });
      const auto more = static_cast<double>(open ? members(layout_, all & ~taken) : 1);
      elements.push_back(block_elements(network_, layout_, kind) / more);
    }
    double peak = 0;
    for (const std::vector<double>& counts : live_.beside) {
      peak =
          std::max(peak, std::inner_product(counts.begin(), counts.end(), elements.begin(), 0.0));
    }
    return Bytes(static_cast<std::int64_t>(
        std::floor(peak * static_cast<double>(bytes_per_element(dtype_)))));
  }

  void place(std::size_t from) {
    ++best.examined;
    const bool some = best.bytes.count() >= 0;
    if (from == order_.size()) {
      const Bytes bytes = peak_live_bytes(network_, layout_, live_, dtype_);
      if (some && bytes >= best.bytes) return;
      best.layout = layout_;
      best.bytes = bytes;
      return;
    }
    if (some && bound(from) >= best.bytes) return;
    const int d = order_[from];
    Axes taken = 0;
    // Two dimensions of a tensor, or of a product, are on no mesh dimension together.
    for (const int o : apart_[at(d)]) taken |= o == d ? Axes{0} : layout_.over[at(o)];
    const Axes all = whole_[at(d)] ? 0 : (Axes{1} << layout_.mesh.size()) - 1;
    // What is split most comes first, so that a good layout is found early.
    for (Axes axes = all;; --axes) {
      const bool divides = network_.dimensions[at(d)].size % members(layout_, axes) == 0;
      if ((axes & taken) == 0 && divides) {
        layout_.over[at(d)] = axes;
        place(from + 1);
      }
      if (axes == 0) break;
    }
    layout_.over[at(d)] = 0;
  }

  const Network& network_;
  const LiveTensors& live_;
  Dtype dtype_;
  std::vector<std::vector<int>> apart_;  // by dimension, itself too
  std::vector<bool> whole_;              // never split
  std::vector<int> order_;
  NetworkLayout layout_;
};

}  // namespace

LeastLive least_live(const Network& network, Dtype dtype, const LayoutSpace& space,
                     const std::function<void(int, int)>& progress) {
  const LiveTensors live = live_tensors(network);
  LiveSearch search(network, live, dtype);
  const auto all = meshes(space.devices, space.most_axes);
  for (std::size_t m = 0; m < all.size(); ++m) {
    search.search(all[m]);
    progress(static_cast<int>(m + 1), static_cast<int>(all.size()));
  }
  search.best.layout.name = "least live";
  return search.best;
}

}  // namespace weir
