// Forward through the operations: what a step's tensor goes into is a step's too.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "plan/words/indexed.hpp"

namespace weir::layout {
namespace {

bool of_steps(Act act) { return act == Act::step || act == Act::carry || act == Act::stack; }

// The one dimension that the layer's steps are over; -1: it has none.
int time_of(const Network& network, const NetworkLayer& layer) {
  int time = -1;
  for (const Operation& o : layer.operations) {
    if (!of_steps(o.act)) continue;
    if (time >= 0 && o.over != time)
      throw std::invalid_argument(fmt::format("its steps are over {} and over {}",
                                              network.dimensions[at(time)].name,
                                              network.dimensions[at(o.over)].name));
    time = o.over;
  }
  return time;
}

struct Steps {
  const Network& network;
  NetworkLayer& layer;

  [[noreturn]] void refuse(const Operation& o, const std::string& why) const {
    throw std::invalid_argument(fmt::format("{}: {}", to_text(network, layer, o), why));
  }
  [[nodiscard]] const std::string& name(int tensor) const { return layer.tensors[at(tensor)].name; }
  [[nodiscard]] bool has_time(int tensor) const {
    return has_dimension(layer.tensors[at(tensor)].dimensions, layer.time);
  }
  void require_step(const Operation& o) const {
    if (!layer.stepwise[at(o.inputs[0])])
      refuse(o, fmt::format("{} is not made step by step", name(o.inputs[0])));
  }

  void take(const Operation& o) {
    const bool inside = o.act == Act::step || std::ranges::any_of(o.inputs, [&](int input) {
                          return layer.stepwise[at(input)];
                        });
    if (o.act == Act::stack || o.act == Act::carry) require_step(o);
    if (o.act == Act::step && layer.stepwise[at(o.inputs[0])])
      refuse(o, fmt::format("{} is one step already", name(o.inputs[0])));
    if (o.act == Act::stack || !inside) {
      // Steps are put together, or nothing of a step is here.
      layer.behind[at(o.output)] = o.act == Act::stack || std::ranges::any_of(o.inputs, [&](int i) {
                                     return layer.behind[at(i)];
                                   });
      return;
    }
    for (const int input : o.inputs) {
      if (layer.behind[at(input)])
        refuse(o, fmt::format("{} is made of all steps, and a step reads it", name(input)));
      if (o.act != Act::step && has_time(input))
        refuse(o, fmt::format("{} has all steps: take one by step({})", name(input), name(input)));
    }
    layer.stepwise[at(o.output)] = true;
  }
};

}  // namespace

void find_steps(const Network& network, NetworkLayer& layer) {
  layer.time = time_of(network, layer);
  layer.stepwise.assign(layer.tensors.size(), false);
  layer.behind.assign(layer.tensors.size(), false);
  if (layer.time < 0) return;
  Steps steps{network, layer};
  for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
    layer.stepwise[t] = layer.tensors[t].role == Role::state;
    if (layer.stepwise[t] && steps.has_time(static_cast<int>(t)))
      throw std::invalid_argument(
          fmt::format("{} is of one step, and has their dimension", layer.tensors[t].name));
  }
  for (const Operation& operation : layer.operations) steps.take(operation);
  // A step's tensor that nothing puts together would be the last step's alone.
  const int output = layer.operations.back().output;
  if (layer.stepwise[at(output)])
    throw std::invalid_argument(
        fmt::format("its output {} is of one step: stack makes one of all", steps.name(output)));
}

}  // namespace weir::layout
