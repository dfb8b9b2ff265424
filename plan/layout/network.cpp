// What networks and their layouts must keep to, and how they print.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/network.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "plan/words/indexed.hpp"
#include "plan/words/names.hpp"

namespace weir::layout {
namespace {

constexpr Names<Act, 19> kActs{{{Act::product, "product"},
                                {Act::weigh, "weigh"},
                                {Act::apply, "apply"},
                                {Act::glu, "glu"},
                                {Act::turn, "turn"},
                                {Act::add, "add"},
                                {Act::norm, "norm"},
                                {Act::rms_norm, "rms_norm"},
                                {Act::softmax, "softmax"},
                                {Act::attention, "attention"},
                                {Act::gather, "gather"},
                                {Act::loss, "loss"},
                                {Act::move, "move"},
                                {Act::route, "route"},
                                {Act::back, "back"},
                                {Act::choose, "choose"},
                                {Act::step, "step"},
                                {Act::carry, "carry"},
                                {Act::stack, "stack"}}};

bool within(const std::vector<int>& some, const std::vector<int>& all) {
  return std::ranges::all_of(some, [&](int d) { return has_dimension(all, d); });
}

bool same(const std::vector<int>& a, const std::vector<int>& b) {
  return a.size() == b.size() && within(a, b);
}

std::vector<int> without(std::vector<int> dimensions, int d) {
  std::erase(dimensions, d);
  return dimensions;
}

// Two on one mesh dimension, in words.
std::optional<std::string> meeting(const Network& network, const NetworkLayout& layout,
                                   const std::vector<int>& dimensions) {
  Axes taken = 0;
  for (const int d : dimensions) {
    const Axes both = taken & layout.over[at(d)];
    taken |= layout.over[at(d)];
    if (both == 0) continue;
    const auto* other =
        std::ranges::find_if(dimensions.data(), dimensions.data() + dimensions.size(),
                             [&](int o) { return (layout.over[at(o)] & both) != 0; });
    return fmt::format("dimensions {} and {} are both on mesh dimension {}",
                       network.dimensions[at(*other)].name, network.dimensions[at(d)].name,
                       axes_text(layout, both));
  }
  return std::nullopt;
}

struct Shape {
  const Network& network;
  const NetworkLayer& layer;
  const Operation& operation;

  [[nodiscard]] const std::vector<int>& out() const {
    return layer.tensors[at(operation.output)].dimensions;
  }
  [[nodiscard]] const std::vector<int>& in(std::size_t i) const {
    return layer.tensors[at(operation.inputs[i])].dimensions;
  }
  [[nodiscard]] const char* product() const {
    std::vector<int> read;
    for (std::size_t i = 0; i < operation.inputs.size(); ++i)
      read.insert(read.end(), in(i).begin(), in(i).end());
    return within(out(), read) ? nullptr : "the output has a dimension that no factor has";
  }
  [[nodiscard]] const char* sum() const {
    bool whole = false;
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      if (!within(in(i), out())) return "a summand has a dimension that the output has not";
      whole |= same(in(i), out());
    }
    return whole ? nullptr : "no summand has all of the output's dimensions";
  }
  [[nodiscard]] const char* norm() const {
    if (!same(in(0), out())) return "the output has other dimensions than what is normalised";
    for (std::size_t i = 1; i < operation.inputs.size(); ++i) {
      if (!within(in(i), out())) return "gains are of dimensions that the output has";
    }
    return nullptr;
  }
  [[nodiscard]] const char* attention() const {
    if (has_dimension(in(0), operation.over) || has_dimension(out(), operation.over))
      return "only keys and values have the dimension of keys";
    if (!has_dimension(in(1), operation.over) || !has_dimension(in(2), operation.over))
      return "keys and values need the dimension of keys";
    if (in(0).empty() || !has_dimension(in(1), in(0).back()))
      return "scores are summed over the last dimension of queries, which keys need too";
    // One kernel sums a row's shares over its keys and nothing else: a softmax of sums over a
    // dimension that only keys or values have, or a sum of several rows' results, would be partial
    // where that dimension is split, and nobody would add up the parts.
    const std::vector<int> rows = without(in(0), in(0).back());
    if (!within(without(in(1), operation.over), in(0)))
      return "keys have a dimension that queries lack";
    if (!within(rows, out())) return "queries have a dimension that the output lacks";
    if (!within(without(in(2), operation.over), out()))
      return "values have a dimension that the output lacks";
    for (const int d : out()) {
      if (!has_dimension(rows, d) && !has_dimension(in(2), d))
        return "the output has a dimension that neither queries nor values have";
    }
    return nullptr;
  }
  [[nodiscard]] const char* move() const {
    if (in(0).size() != out().size()) return "a move changes no number of dimensions";
    for (std::size_t i = 0; i < out().size(); ++i) {
      if (network.dimensions[at(in(0)[i])].size != network.dimensions[at(out()[i])].size)
        return "a move changes no size";
    }
    return nullptr;
  }
  [[nodiscard]] const char* route() const {
    std::vector<int> from = in(0), to = out();
    std::erase_if(from, [&](int d) { return has_dimension(out(), d); });
    std::erase_if(to, [&](int d) { return has_dimension(in(0), d); });
    if (from.empty() || to.empty()) return "nothing is routed";
    const double ratio = whole_elements(network, to) / whole_elements(network, from);
    // On the way out tokens are copied; on the way home visits only change their names.
    const bool home = operation.act == Act::back;
    const bool whole = home ? ratio == 1 : ratio >= 1 && ratio == std::floor(ratio);
    return whole ? nullptr : "visits are a whole number of copies of the tokens";
  }
  [[nodiscard]] const char* choose() const {
    const auto left = without(in(0), operation.over);
    return within(left, out()) && out().size() == in(0).size()
               ? nullptr
               : "one dimension is chosen from and another takes its place";
  }
  [[nodiscard]] const char* stack() const {
    return has_dimension(out(), operation.over) && same(without(out(), operation.over), in(0))
               ? nullptr
               : "the output has its dimensions and that of the steps";
  }
  [[nodiscard]] const char* reduced(bool keeps) const {
    const auto left = keeps ? in(0) : without(in(0), operation.over);
    return same(left, out()) ? nullptr : "the output has other dimensions";
  }
  [[nodiscard]] const char* turn() const {
    if (const char* why = reduced(true)) return why;
    const bool along = operation.over >= 0 && in(0).back() == operation.over;
    return along ? "pairs are the last dimension's, positions another's" : nullptr;
  }
  [[nodiscard]] const char* gather() const {
    return within(without(in(0), operation.over), out()) && !has_dimension(out(), operation.over)
               ? nullptr
               : "the output has the table's dimensions but the one that is picked from";
  }
};

const char* complaint(const Shape& shape) {
  const Operation& operation = shape.operation;
  // An attention runs over keys, which queries lack; what goes from step to step has no dimension
  // of all of them.
  const bool of_a_step = operation.act == Act::carry || operation.act == Act::stack;
  if (operation.over >= 0 && !of_a_step &&
      !has_dimension(shape.in(operation.act == Act::attention ? 1 : 0), operation.over))
    return "its first factor has no such dimension";
  switch (operation.act) {
    case Act::product:
    case Act::weigh:
      return shape.product();
    case Act::turn:
      return shape.turn();
    case Act::apply:
    case Act::softmax:
      return shape.reduced(true);
    case Act::glu:
    case Act::loss:
    case Act::step:
      return shape.reduced(false);
    case Act::add:
      return shape.sum();
    case Act::norm:
    case Act::rms_norm:
      return shape.norm();
    case Act::attention:
      return shape.attention();
    case Act::gather:
      return shape.gather();
    case Act::move:
    case Act::carry:
      return shape.move();
    case Act::stack:
      return shape.stack();
    case Act::route:
    case Act::back:
      return shape.route();
    case Act::choose:
      return shape.choose();
  }
  return nullptr;
}

// The acts that need all of a dimension on each processor.
bool needs_whole(Act act) {
  return act == Act::glu || act == Act::choose || act == Act::attention ||
         // Steps follow each other: a processor that had later ones alone would wait for the
         // others.
         act == Act::step || act == Act::carry || act == Act::stack;
}
// Of an operation, those dimensions.
std::vector<int> whole_of(const NetworkLayer& layer, const Operation& operation) {
  std::vector<int> whole;
  if (needs_whole(operation.act)) whole.push_back(operation.over);
  // One kernel makes scores and their softmax: no processor waits there for another's part of the
  // sum, as it could where scores are a product.
  if (operation.act == Act::attention)
    whole.push_back(layer.tensors[at(operation.inputs[0])].dimensions.back());
  return whole;
}
// Those that see all of their dimensions at once; the others go tensor by tensor.
bool multiplies(Act act) {
  return act == Act::product || act == Act::weigh || act == Act::attention || act == Act::gather;
}

}  // namespace

std::string_view to_string(Act act) { return name_of(kActs, act); }

double whole_elements(const Network& network, const std::vector<int>& dimensions) {
  double all = 1;
  for (const int d : dimensions) all *= static_cast<double>(network.dimensions[at(d)].size);
  return all;
}

double all_elements(const Network& network) {
  double all = 0;
  for (const NetworkLayer& layer : network.layers) {
    for (const NetworkTensor& tensor : layer.tensors)
      all += whole_elements(network, tensor.dimensions) * static_cast<double>(layer.repeat);
  }
  return all;
}

std::int64_t members(const NetworkLayout& layout, Axes axes) {
  std::int64_t product = 1;
  for (std::size_t m = 0; m < layout.mesh.size(); ++m) {
    if ((axes >> m & 1U) != 0) product *= layout.mesh[m].size;
  }
  return product;
}

Axes axes_of(const NetworkLayout& layout, const std::vector<int>& dimensions) {
  Axes axes = 0;
  for (const int d : dimensions) axes |= layout.over[at(d)];
  return axes;
}

Axes sharers_of(const NetworkLayout& layout, const NetworkTensor& weight) {
  return layout.optimizer & ~axes_of(layout, weight.dimensions);
}

double block_elements(const Network& network, const NetworkLayout& layout,
                      const std::vector<int>& dimensions) {
  return whole_elements(network, dimensions) /
         static_cast<double>(members(layout, axes_of(layout, dimensions)));
}

std::int64_t times_of(const Network& network, const NetworkLayer& layer, int tensor) {
  const bool once = layer.time < 0 || !layer.stepwise[at(tensor)];
  return once ? 1 : network.dimensions[at(layer.time)].size;
}

std::vector<std::string> sources_of(const Network& network, const NetworkLayer& layer) {
  std::vector<std::string> names;
  for (const Given& given : layer.given)
    names.push_back(given.source < 0 ? "data" : network.layers[at(given.source)].name);
  return names;
}

AttentionProducts attention_products(const NetworkLayer& layer, const Operation& attention) {
  const auto dims = [&](int tensor) { return layer.tensors[at(tensor)].dimensions; };
  const auto joined = [](std::vector<int> all, const std::vector<int>& more) {
    for (const int d : more) {
      if (!has_dimension(all, d)) all.push_back(d);
    }
    return all;
  };
  const std::vector<int> queries = dims(attention.inputs[0]);
  const std::vector<int> rows = without(queries, queries.back());
  return {joined(queries, dims(attention.inputs[1])),
          joined(joined(rows, dims(attention.inputs[2])), dims(attention.output))};
}

std::vector<std::vector<int>> apart(const NetworkLayer& layer) {
  std::vector<std::vector<int>> groups;
  for (const NetworkTensor& tensor : layer.tensors) groups.push_back(tensor.dimensions);
  for (const Operation& operation : layer.operations) {
    if (multiplies(operation.act)) groups.push_back(operation.all);
  }
  return groups;
}

std::vector<int> needed_whole(const NetworkLayer& layer) {
  std::vector<int> whole;
  for (const Operation& operation : layer.operations) {
    for (const int d : whole_of(layer, operation)) whole.push_back(d);
  }
  return whole;
}

std::optional<std::string> malformed(const Network& network, const NetworkLayer& layer,
                                     const Operation& operation) {
  const char* why = complaint({network, layer, operation});
  if (why == nullptr) return std::nullopt;
  return fmt::format("{}: {}", to_text(network, layer, operation), why);
}

std::optional<std::string> illegal(const Network& network, const NetworkLayer& layer,
                                   const NetworkLayout& layout) {
  const auto where = [&](const std::string& what, const std::string& why) {
    return fmt::format("layer {}: {}: {}", layer.name, what, why);
  };
  for (const NetworkTensor& tensor : layer.tensors) {
    if (const auto why = meeting(network, layout, tensor.dimensions))
      return where(to_text(network, tensor), *why);
    for (const int d : tensor.dimensions) {
      const std::int64_t parts = members(layout, layout.over[at(d)]);
      const Dimension& dimension = network.dimensions[at(d)];
      if (dimension.size % parts != 0) {
        return where(to_text(network, tensor),
                     fmt::format("dimension {} of size {} does not divide by the {} of mesh "
                                 "dimension {}",
                                 dimension.name, dimension.size, parts,
                                 axes_text(layout, layout.over[at(d)])));
      }
    }
  }
  for (const Operation& operation : layer.operations) {
    // A gate's halves, all choices or all keys: what is read together must be on one processor.
    for (const int d : whole_of(layer, operation)) {
      if (layout.over[at(d)] == 0) continue;
      return where(
          to_text(network, layer, operation),
          fmt::format("each processor needs all of dimension {}", network.dimensions[at(d)].name));
    }
    // Dimensions of three tensors may meet in a product though no tensor has two of them: a
    // processor would then see blocks of the diagonal alone.
    if (!multiplies(operation.act)) continue;
    if (const auto why = meeting(network, layout, operation.all))
      return where(to_text(network, layer, operation), *why);
  }
  return std::nullopt;
}

std::optional<std::string> illegal(const Network& network, const NetworkLayout& layout) {
  if (layout.gradients != 0 && layout.gradients != layout.optimizer) {
    return fmt::format(
        "{} are split over {} and the {}'s numbers over {}: expected both alike, or "
        "{} whole",
        kGradients, axes_text(layout, layout.gradients), kOptimizer,
        layout.optimizer == 0 ? "nothing" : axes_text(layout, layout.optimizer), kGradients);
  }
  for (const NetworkLayer& layer : network.layers) {
    if (auto why = illegal(network, layer, layout)) return why;
  }
  return std::nullopt;
}

std::string to_text(const Network& network, const NetworkTensor& tensor) {
  std::vector<std::string> names;
  for (const int d : tensor.dimensions) names.push_back(network.dimensions[at(d)].name);
  const char* role = tensor.role == Role::weight  ? "weight "
                     : tensor.role == Role::tied  ? "tied "
                     : tensor.role == Role::state ? "state "
                                                  : "";
  return fmt::format("{}{}[{}]", role, tensor.name, fmt::join(names, ", "));
}

std::string to_text(const Network& network, const NetworkLayer& layer, const Operation& operation) {
  std::vector<std::string> names;
  for (const int input : operation.inputs) names.push_back(layer.tensors[at(input)].name);
  const std::string& output = layer.tensors[at(operation.output)].name;
  if (operation.act == Act::product) return fmt::format("{} = {}", output, fmt::join(names, " "));
  const std::string_view act =
      operation.act == Act::apply ? std::string_view(operation.function) : to_string(operation.act);
  const std::string over =
      operation.over < 0 ? "" : " over " + network.dimensions[at(operation.over)].name;
  return fmt::format("{} = {}({}){}", output, act, fmt::join(names, " "), over);
}

std::string mesh_text(const NetworkLayout& layout) {
  std::string text;
  for (const MeshDimension& m : layout.mesh)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", m.name, m.size);
  return text;
}

std::string rules_text(const Network& network, const NetworkLayout& layout) {
  std::vector<std::string> rules;
  const auto add = [&](std::string_view name, Axes axes) {
    for (std::size_t m = 0; m < layout.mesh.size(); ++m) {
      if ((axes >> m & 1U) != 0) rules.push_back(fmt::format("{}:{}", name, layout.mesh[m].name));
    }
  };
  for (std::size_t d = 0; d < network.dimensions.size(); ++d)
    add(network.dimensions[d].name, layout.over[d]);
  add(kOptimizer, layout.optimizer);
  add(kGradients, layout.gradients);
  return rules.empty() ? "none" : fmt::format("{}", fmt::join(rules, ", "));
}

std::string axes_text(const NetworkLayout& layout, Axes axes) {
  std::vector<std::string> names;
  for (std::size_t m = 0; m < layout.mesh.size(); ++m) {
    if ((axes >> m & 1U) != 0) names.push_back(layout.mesh[m].name);
  }
  return fmt::format("{}", fmt::join(names, "*"));
}

std::string block_text(const Network& network, const NetworkLayout& layout,
                       const std::vector<int>& dimensions) {
  std::vector<std::string> above, below;
  for (const int d : dimensions) {
    // A factor of 1 says nothing in a formula.
    if (network.dimensions[at(d)].size > 1) above.push_back(network.dimensions[at(d)].symbol);
  }
  const Axes axes = axes_of(layout, dimensions);
  for (std::size_t m = 0; m < layout.mesh.size(); ++m) {
    if ((axes >> m & 1U) != 0) below.push_back(layout.mesh[m].symbol);
  }
  std::string first = above.empty() ? "1" : fmt::format("{}", fmt::join(above, "*"));
  if (below.empty()) return first;
  const std::string divisor = fmt::format("{}", fmt::join(below, "*"));
  return below.size() == 1 ? first + "/" + divisor : fmt::format("{}/({})", first, divisor);
}

}  // namespace weir::layout
