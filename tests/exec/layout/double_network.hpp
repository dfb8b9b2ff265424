// A network's forward in double, index by index, and the central differences of what it makes:
// what a run's gradients are held to. It shares no code with the run but the numbers that a run is
// given and the order of its repetitions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/cpu/layout/network_numbers.hpp"
#include "exec/cpu/layout/network_plan.hpp"
#include "exec/cpu/layout/network_run.hpp"
#include "plan/words/indexed.hpp"

namespace weir::double_network {

using layout::Act;
using layout::Network;
using layout::NetworkLayer;
using layout::Operation;
using Numbers = std::vector<double>;
using Index = std::vector<std::int64_t>;  // by the network's dimension

class Forward {
 public:
  Forward(const Network& network, const cpu::NetworkPlan& plan,
          const std::vector<cpu::NodeBlocks>& run)
      : network_(network), plan_(plan), run_(run), values_(plan.nodes.size()) {
    for (std::size_t n = 0; n < values_.size(); ++n) {
      for (const auto& tensor : run[n].values)
        values_[n].emplace_back(tensor[0].begin(), tensor[0].end());
    }
  }
  double& weight(std::size_t node, std::size_t tensor, std::size_t i) {
    return values_[node][tensor][i];
  }
  // The sum of what nobody reads, each number times the gradient that the run is given of it.
  double operator()() {
    double sum = 0;
    for (std::size_t n = 0; n < values_.size(); ++n) {
      node_ = n;
      layer_ = &network_.layers[plan_.nodes[n].layer];
      give();
      for (std::size_t o = 0; o < layer_->operations.size(); ++o)
        compute(layer_->operations[o], run_[n].picks[o][0]);
      if (plan_.nodes[n].read) continue;
      const int output = layer_->operations.back().output;
      const auto& gradient = run_[n].gradients[at(output)][0].all.front().numbers;
      for (std::size_t i = 0; i < gradient.size(); ++i)
        sum += double{gradient[i]} * values(output)[i];
    }
    return sum;
  }

 private:
  [[nodiscard]] const std::vector<int>& dims(int tensor) const {
    return layer_->tensors[at(tensor)].dimensions;
  }
  Numbers& values(int tensor) { return values_[node_][at(tensor)]; }
  [[nodiscard]] std::int64_t size(int d) const { return network_.dimensions[at(d)].size; }
  [[nodiscard]] std::size_t row_major(const std::vector<int>& dimensions,
                                      const Index& index) const {
    std::int64_t place = 0;
    for (const int d : dimensions) place = place * size(d) + index[at(d)];
    return at(place);
  }
  double& number(int tensor, const Index& index) {
    return values(tensor)[row_major(dims(tensor), index)];
  }
  // f(index) for all of these dimensions, row by row.
  template <class Each>
  void each(const std::vector<int>& dimensions, const Each& f) const {
    Index index(network_.dimensions.size(), 0);
    for (;;) {
      f(index);
      std::size_t d = dimensions.size();
      while (d > 0 && ++index[at(dimensions[d - 1])] == size(dimensions[d - 1]))
        index[at(dimensions[--d])] = 0;
      if (d == 0) return;
    }
  }
  template <class Each>
  void along(int d, Index index, const Each& f) const {
    for (index[at(d)] = 0; index[at(d)] < size(d); ++index[at(d)]) f(index);
  }
  [[nodiscard]] static std::vector<int> without(std::vector<int> these,
                                                const std::vector<int>& those) {
    std::erase_if(these, [&](int d) { return layout::has_dimension(those, d); });
    return these;
  }

  // From other layers, and tied weights from their owners.
  void give() {
    for (std::size_t g = 0; g < layer_->given.size(); ++g) {
      const int source = plan_.nodes[node_].sources[g];
      if (source < 0) continue;
      const NetworkLayer& by = network_.layers[plan_.nodes[at(source)].layer];
      values(layer_->given[g].tensor) = values_[at(source)][at(by.operations.back().output)];
    }
    for (std::size_t t = 0; t < layer_->tensors.size(); ++t) {
      if (layer_->tensors[t].role != layout::Role::tied) continue;
      for (std::size_t n = 0; n < values_.size(); ++n) {
        const auto& all = network_.layers[plan_.nodes[n].layer].tensors;
        for (std::size_t o = 0; o < all.size(); ++o) {
          if (all[o].role == layout::Role::weight && all[o].name == layer_->tensors[t].name)
            values_[node_][t] = values_[n][o];
        }
      }
    }
  }

  [[nodiscard]] static double apply(const std::string& function, double x) {
    if (function == "relu") return std::max(x, 0.0);
    if (function == "silu") return x / (1 + std::exp(-x));
    if (function == "gelu") return x * std::erfc(-x / std::numbers::sqrt2) / 2;
    if (function == "gelu_tanh")
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    throw std::invalid_argument(function);
  }

  void compute(const Operation& o, const std::vector<std::int64_t>& picks) {
    const int x = o.inputs[0], y = o.output;
    Numbers& out = values(y);
    std::ranges::fill(out, 0.0);
    switch (o.act) {
      case Act::product:
      case Act::weigh:
        return each(o.all,
                    [&](const Index& i) { number(y, i) += number(x, i) * number(o.inputs[1], i); });
      case Act::add:
        return each(dims(y), [&](const Index& i) {
          for (const int input : o.inputs) number(y, i) += number(input, i);
        });
      case Act::apply:
        return each(dims(y),
                    [&](const Index& i) { number(y, i) = apply(o.function, number(x, i)); });
      case Act::glu:
        return each(dims(y), [&](Index i) {
          i[at(o.over)] = 1;
          const double gate = apply("silu", number(x, i));
          i[at(o.over)] = 0;
          number(y, i) = number(x, i) * gate;
        });
      case Act::turn:
        return turn(o);
      case Act::norm:
      case Act::rms_norm:
        return norm(o);
      case Act::softmax:
        return each(dims(y), [&](const Index& i) {
          double sum = 0;
          along(o.over, i, [&](const Index& j) { sum += std::exp(number(x, j) - number(x, i)); });
          number(y, i) = 1 / sum;
        });
      case Act::attention:
        return attend(o);
      case Act::loss:
      case Act::gather:
      case Act::choose:
        return pick(o, picks);
      case Act::move:  // place by place
        out = values(x);
        return;
      case Act::route:
      case Act::back:
        return visit(o);
      default:
        throw std::invalid_argument(std::string(to_string(o.act)));
    }
  }
  // By the integers that the run is given, row by row of what is made.
  void pick(const Operation& o, const std::vector<std::int64_t>& picks) {
    const int x = o.inputs[0], y = o.output;
    std::size_t row = 0;
    if (o.act != Act::gather) {
      return each(dims(y), [&](Index i) {
        double sum = 0;
        if (o.act == Act::loss)
          along(o.over, i, [&](const Index& j) { sum += std::exp(number(x, j)); });
        i[at(o.over)] = picks[row++];
        number(y, i) = o.act == Act::loss ? std::log(sum) - number(x, i) : number(x, i);
      });
    }
    each(without(dims(y), dims(x)), [&](Index i) {
      i[at(o.over)] = picks[row++];
      const std::vector<int> rest = without(dims(x), {o.over});
      each(rest, [&](const Index& j) {
        for (const int d : rest) i[at(d)] = j[at(d)];
        number(y, i) = number(x, i);
      });
    });
  }
  void norm(const Operation& o) {
    const int x = o.inputs[0];
    const auto n = static_cast<double>(size(o.over));
    each(dims(o.output), [&](const Index& i) {
      double mean = 0, squares = 0;
      along(o.over, i, [&](const Index& j) { mean += number(x, j) / n; });
      if (o.act == Act::rms_norm) mean = 0;
      along(o.over, i, [&](const Index& j) { squares += std::pow(number(x, j) - mean, 2) / n; });
      double& y = number(o.output, i);
      y = (number(x, i) - mean) / std::sqrt(squares + 1e-5);
      if (o.inputs.size() > 1) y *= number(o.inputs[1], i);
      if (o.inputs.size() > 2) y += number(o.inputs[2], i);
    });
  }
  void turn(const Operation& o) {
    const int pairs = dims(o.output).back();
    each(dims(o.output), [&](const Index& i) {
      const std::int64_t place = i[at(pairs)];
      Index other = i;
      other[at(pairs)] = place % 2 == 0 ? place + 1 : place - 1;
      const std::int64_t first = place / 2 * 2;  // of the two
      const double rate =
          std::pow(10000.0, -static_cast<double>(first) / static_cast<double>(size(pairs)));
      const double angle = static_cast<double>(i[at(o.over)]) * rate;
      const double sine = place % 2 == 0 ? -std::sin(angle) : std::sin(angle);
      number(o.output, i) =
          std::cos(angle) * number(o.inputs[0], i) + sine * number(o.inputs[0], other);
    });
  }
  // A row of shares over all keys, then the sum of values by them.
  void attend(const Operation& o) {
    const int q = o.inputs[0], k = o.inputs[1], v = o.inputs[2];
    const int width = dims(q).back();
    const std::vector<int> rows = without(dims(q), {width});
    each(rows, [&](const Index& row) {
      Numbers shares;
      double sum = 0;
      along(o.over, row, [&](const Index& key) {
        double score = 0;
        along(width, key, [&](const Index& i) { score += number(q, i) * number(k, i); });
        shares.push_back(std::exp(score));
        sum += shares.back();
      });
      each(without(dims(o.output), rows), [&](const Index& rest) {
        Index i = row;
        for (const int d : without(dims(o.output), rows)) i[at(d)] = rest[at(d)];
        double all = 0;
        along(o.over, i,
              [&](const Index& key) { all += shares[at(key[at(o.over)])] / sum * number(v, key); });
        number(o.output, i) = all;
      });
    });
  }
  // Visit n of all, token by token, is of expert (n + n / E) mod E, whose slot n / E it takes.
  void visit(const Operation& o) {
    const bool out = o.act == Act::route;
    const int tokens = out ? o.inputs[0] : o.output, visits = out ? o.output : o.inputs[0];
    const std::vector<int> token = without(dims(tokens), dims(visits)),
                           place = without(dims(visits), dims(tokens)),
                           both = without(dims(tokens), token);
    const std::vector<int> expert(place.begin(), place.end() - 1);
    std::int64_t experts = 1;
    for (const int d : expert) experts *= size(d);
    std::int64_t of_tokens = 1;
    for (const int d : token) of_tokens *= size(d);
    const std::int64_t copies = experts * size(place.back()) / of_tokens;
    std::int64_t n = 0;
    each(token, [&](const Index& from) {
      for (std::int64_t copy = 0; copy < copies; ++copy, ++n) {
        each(both, [&](Index i) {
          for (const int d : token) i[at(d)] = from[at(d)];
          std::int64_t left = (n + n / experts) % experts;
          for (std::size_t d = expert.size(); d-- > 0; left /= size(expert[d]))
            i[at(expert[d])] = left % size(expert[d]);
          i[at(place.back())] = n / experts;
          number(o.output, i) += number(o.inputs[0], i);
        });
      }
    });
  }

  const Network& network_;
  const cpu::NetworkPlan& plan_;
  const std::vector<cpu::NodeBlocks>& run_;
  std::vector<std::vector<Numbers>> values_;  // by node and tensor
  std::size_t node_ = 0;
  const NetworkLayer* layer_ = nullptr;
};

// Some numbers of each weight of each node: the run's gradient beside the central difference, over
// the weight's largest gradient. How many weights were held.
inline int hold_gradients(const Network& network) {
  constexpr double kStep = 1e-5, kApart = 1e-4;
  const layout::NetworkLayout nowhere{
      "", {}, std::vector<layout::Axes>(network.dimensions.size(), 0)};
  cpu::Workers one(1);
  cpu::NetworkRun run(network, nowhere, one, 3);
  static_cast<void>(run.step());
  const cpu::NetworkPlan plan = cpu::network_plan(network, nowhere);
  const std::vector<cpu::NodeBlocks>& nodes = run.nodes(0);
  Forward forward(network, plan, nodes);
  int held = 0;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const NetworkLayer& layer = network.layers[plan.nodes[n].layer];
    for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
      if (layer.tensors[t].role != layout::Role::weight) continue;
      SCOPED_TRACE(layer.name + ": " + to_text(network, layer.tensors[t]));
      const std::vector<float>& gradient = nodes[n].gradients[t][0].all.front().numbers;
      double largest = 0;
      std::size_t place = 0;  // of it
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        if (std::abs(gradient[i]) > largest)
          std::tie(largest, place) = std::pair(std::abs(double{gradient[i]}), i);
      }
      for (const std::size_t i : {place, gradient.size() / 3}) {
        const double before = forward.weight(n, t, i);
        forward.weight(n, t, i) = before + kStep;
        const double above = forward();
        forward.weight(n, t, i) = before - kStep;
        const double below = forward();
        forward.weight(n, t, i) = before;
        const double difference = (above - below) / (2 * kStep);
        // Of a bias of keys the gradient is 0 but for rounding.
        EXPECT_NEAR(gradient[i], difference, kApart * std::max(largest, 1e-2)) << i;
      }
      ++held;
    }
  }
  return held;
}

}  // namespace weir::double_network
