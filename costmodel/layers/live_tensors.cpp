// Each tensor from the operation that makes it to the last that reads it.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/live_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "plan/words/indexed.hpp"

namespace weir {
namespace {

using layout::Act;
using layout::Network;
using layout::NetworkLayer;
using layout::Role;

// When a tensor is there, in operations from the step's first.
struct Life {
  std::vector<int> kind;
  double count = 1;  // so many, one a step over time
  std::size_t first = 0, last = 0;
  std::size_t made = 0;  // by the forward; of what no operation makes nothing
  std::vector<std::size_t> readers;
  bool weight = false, data = false;
};

// Whether the gradient of an operation reads what it read, and what it made.
bool reads_inputs(Act act) {
  return act == Act::product || act == Act::weigh || act == Act::apply || act == Act::glu ||
         act == Act::norm || act == Act::rms_norm || act == Act::attention || act == Act::loss;
}
bool reads_output(Act act) { return act == Act::softmax || act == Act::attention; }

// Of a layer that is repeated more often, the first three and the last three repetitions stand for
// themselves and one for all between them. A tensor is read beside its own repetition and its
// neighbours', or it is there for all of the step's middle. So from the second repetition to the
// last but one the counts beside an operation grow or shrink by the same numbers each time: a sum
// with fixed weights is largest at one of these two. The thirds and the one between are no peaks,
// and at the others all tensors of those between are there, or none.
constexpr std::int64_t kWritten = 7, kThird = 2;

class Lives {
 public:
  explicit Lives(const Network& network) : network_(network) {
    for (const NetworkLayer& layer : network.layers)
      operations_ += layer.operations.size() * at(std::min(layer.repeat, kWritten));
    peaks_.assign(2 * operations_, true);
    outputs_.assign(network.layers.size(), 0);
    std::size_t next = 0;
    for (std::size_t l = 0; l < network.layers.size(); ++l) {
      const std::int64_t repeat = network.layers[l].repeat, written = std::min(repeat, kWritten);
      for (std::int64_t copy = 0; copy < written; ++copy) {
        const bool between = repeat > kWritten && copy == kWritten / 2;
        copies_ = between ? static_cast<double>(repeat - kWritten + 1) : 1;
        const std::size_t begin = next;
        add(l, copy, next);
        if (repeat <= kWritten || copy < kThird || copy >= kWritten - kThird) continue;
        for (std::size_t i = begin; i < next; ++i) peaks_[i] = peaks_[mirror_of(i)] = false;
      }
    }
  }

  // Of all tensors and their gradients.
  [[nodiscard]] std::vector<Life> all() const {
    std::vector<Life> lives;
    for (Life life : lives_) {
      // The mirror image of operation k is 2 n - 1 - k.
      const std::size_t end = 2 * operations_ - 1;
      life.last = life.weight ? end : std::max(life.last, life.first);
      lives.push_back(life);
      if (life.data) continue;
      Life gradient{life.kind, life.count};
      const std::size_t last_reader =
          life.readers.empty() ? life.made : *std::ranges::max_element(life.readers);
      gradient.first = end - last_reader;
      gradient.last = life.weight ? end : end - life.made;
      lives.push_back(std::move(gradient));
    }
    return lives;
  }
  [[nodiscard]] std::size_t operations() const { return 2 * operations_; }
  // Whether the most can be there beside an operation.
  [[nodiscard]] bool can_be_peak(std::size_t operation) const { return peaks_[operation]; }

 private:
  [[nodiscard]] std::size_t mirror_of(std::size_t operation) const {
    return 2 * operations_ - 1 - operation;
  }

  std::size_t new_life(const NetworkLayer& layer, int tensor) {
    std::vector<int> kind = layer.tensors[at(tensor)].dimensions;
    std::ranges::sort(kind);
    const auto times = static_cast<double>(times_of(network_, layer, tensor));
    lives_.push_back({std::move(kind), copies_ * times});
    return lives_.size() - 1;
  }

  // The tensors of one repetition, which begins with operation `next`.
  void add(std::size_t l, std::int64_t copy, std::size_t& next) {
    const NetworkLayer& layer = network_.layers[l];
    std::vector<std::size_t> life(layer.tensors.size(), 0);
    std::vector<bool> known(layer.tensors.size(), false);
    for (std::size_t g = 0; g < layer.given.size(); ++g) {
      const layout::Given& given = layer.given[g];
      const bool before = copy > 0 && g == 0;
      if (!before && given.source < 0) continue;
      life[at(given.tensor)] = before ? outputs_[l] : outputs_[at(given.source)];
      known[at(given.tensor)] = true;
    }
    for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
      const layout::NetworkTensor& tensor = layer.tensors[t];
      const auto owner = weights_.find(tensor.name);
      if (tensor.role == Role::tied && owner != weights_.end()) {
        life[t] = owner->second;
        continue;
      }
      if (known[t]) continue;
      life[t] = new_life(layer, static_cast<int>(t));
      lives_[life[t]].weight = is_weight(tensor);
      const bool made = std::ranges::any_of(layer.operations, [t](const layout::Operation& o) {
        return o.output == static_cast<int>(t);
      });
      lives_[life[t]].data = !made && !is_weight(tensor);
      if (tensor.role == Role::weight) weights_.try_emplace(tensor.name, life[t]);
    }
    for (const layout::Operation& operation : layer.operations) run(operation, life, next++);
    outputs_[l] = life[at(layer.operations.back().output)];
  }

  void run(const layout::Operation& operation, const std::vector<std::size_t>& life,
           std::size_t now) {
    const std::size_t mirror = mirror_of(now);
    Life& output = lives_[life[at(operation.output)]];
    output.first = output.made = now;
    output.last = std::max(output.last, reads_output(operation.act) ? mirror : now);
    for (const int input : operation.inputs) {
      Life& its = lives_[life[at(input)]];
      its.readers.push_back(now);
      its.last = std::max(its.last, reads_inputs(operation.act) ? mirror : now);
    }
  }

  const Network& network_;
  std::size_t operations_ = 0;  // of the forward
  std::vector<bool> peaks_;     // by operation, the backward's too
  double copies_ = 1;           // that the repetition being added stands for
  std::vector<Life> lives_;
  std::vector<std::size_t> outputs_;            // by layer: of the last repetition so far
  std::map<std::string, std::size_t> weights_;  // by name, the first that has it
};

bool within(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] > b[k]) return false;
  }
  return true;
}

}  // namespace

LiveTensors live_tensors(const Network& network) {
  const Lives lives(network);
  LiveTensors live;
  std::map<std::vector<int>, std::size_t> kinds;
  // Of a few kinds each.
  std::vector<std::vector<std::pair<std::size_t, double>>> changes(lives.operations() + 1);
  const std::vector<Life> all = lives.all();
  for (const Life& life : all) kinds.try_emplace(life.kind, kinds.size());
  live.kinds.resize(kinds.size());
  for (const auto& [kind, number] : kinds) live.kinds[number] = kind;
  for (const Life& life : all) {
    const std::size_t kind = kinds.at(life.kind);
    changes[life.first].emplace_back(kind, life.count);
    changes[life.last + 1].emplace_back(kind, -life.count);
  }
  std::vector<double> now(kinds.size(), 0);
  for (std::size_t i = 0; i < lives.operations(); ++i) {
    for (const auto& [kind, count] : changes[i]) now[kind] += count;
    if (!lives.can_be_peak(i)) continue;
    // Beside another operation there is as much of everything: this one is no peak.
    if (std::ranges::any_of(live.beside, [&](const auto& one) { return within(now, one); }))
      continue;
    std::erase_if(live.beside, [&](const auto& one) { return within(one, now); });
    live.beside.push_back(now);
  }
  return live;
}

Bytes peak_live_bytes(const Network& network, const layout::NetworkLayout& layout,
                      const LiveTensors& live, Dtype dtype) {
  std::vector<double> elements;
  for (const std::vector<int>& kind : live.kinds)
    elements.push_back(block_elements(network, layout, kind));
  double peak = 0;
  for (const std::vector<double>& counts : live.beside) {
    double sum = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) sum += counts[k] * elements[k];
    peak = std::max(peak, sum);
  }
  return Bytes(static_cast<std::int64_t>(
      std::llround(peak * static_cast<double>(bytes_per_element(dtype)))));
}

}  // namespace weir
