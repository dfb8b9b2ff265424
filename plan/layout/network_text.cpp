// Names resolved against the network's dimensions and the layer's tensors.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/network_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>

#include "plan/layout/einsum_text.hpp"
#include "plan/layout/exchanges.hpp"
#include "plan/layout/steps.hpp"
#include "plan/words/indexed.hpp"

namespace weir::layout {
namespace {

// How an act is written: its word, how many it reads, and whether "over" follows.
enum class Over : std::uint8_t { never, always, either };
struct Form {
  std::string_view word;
  Act act;
  std::size_t least, most;
  Over over;
};
constexpr Form kForms[] = {{"weigh", Act::weigh, 2, 2, Over::never},
                           {"gelu", Act::apply, 1, 1, Over::never},
                           {"gelu_tanh", Act::apply, 1, 1, Over::never},
                           {"relu", Act::apply, 1, 1, Over::never},
                           {"sigmoid", Act::apply, 1, 1, Over::never},
                           {"silu", Act::apply, 1, 1, Over::never},
                           {"tanh", Act::apply, 1, 1, Over::never},
                           {"glu", Act::glu, 1, 1, Over::always},
                           {"turn", Act::turn, 1, 1, Over::either},
                           {"add", Act::add, 2, 4, Over::never},
                           {"norm", Act::norm, 1, 3, Over::always},
                           {"rms_norm", Act::rms_norm, 1, 3, Over::always},
                           {"softmax", Act::softmax, 1, 1, Over::always},
                           {"attention", Act::attention, 3, 3, Over::always},
                           {"gather", Act::gather, 1, 1, Over::always},
                           {"loss", Act::loss, 1, 1, Over::always},
                           {"move", Act::move, 1, 1, Over::never},
                           {"route", Act::route, 1, 1, Over::never},
                           {"back", Act::back, 1, 1, Over::never},
                           {"choose", Act::choose, 1, 1, Over::always},
                           {"step", Act::step, 1, 1, Over::always},
                           {"carry", Act::carry, 1, 1, Over::always},
                           {"stack", Act::stack, 1, 1, Over::always}};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}: {}", text.substr(0, 80), why));
}

template <class Named>
int named(const std::vector<Named>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Named::name);
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

struct Parts {
  std::string output, word;
  std::vector<std::string> inputs;
  std::string over;
};

// "y = a b" or "y = word(a b) over d".
Parts parts_of(std::string_view text) {
  const auto expected = [&]() {
    refuse(text, "expected as \"q = t wq\" or \"n = norm(x gain) over hidden\"");
  };
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) expected();
  Parts parts{std::string(trimmed(text.substr(0, equals))), "", {}, ""};
  std::string_view right = trimmed(text.substr(equals + 1));
  if (const auto open = right.find('('); open != std::string_view::npos) {
    const auto close = right.find(')');
    if (close == std::string_view::npos || close < open) expected();
    parts.word = trimmed(right.substr(0, open));
    const std::string_view rest = trimmed(right.substr(close + 1));
    if (rest.starts_with("over ")) parts.over = trimmed(rest.substr(5));
    if (!rest.empty() && parts.over.empty()) expected();
    right = right.substr(open + 1, close - open - 1);
    if (parts.word.empty()) expected();
  }
  parts.inputs = pieces(right, ' ');
  std::erase(parts.inputs, "");
  if (parts.inputs.empty() || !is_name(parts.output)) expected();
  return parts;
}

const Form* form_of(std::string_view word) {
  const auto* found = std::ranges::find(kForms, word, &Form::word);
  return found == std::end(kForms) ? nullptr : found;
}

std::string known_words() {
  std::vector<std::string_view> words;
  for (const Form& form : kForms) words.push_back(form.word);
  return fmt::format("{}", fmt::join(words, ", "));
}

// Act, function and "over" of an operation, by its word; without one it is a product of two.
void set_act(std::string_view text, const Parts& parts, const Network& network, Operation& made) {
  const Form product{"", Act::product, 2, 2, Over::never};
  const Form* form = parts.word.empty() ? &product : form_of(parts.word);
  if (form == nullptr) refuse(text, fmt::format("{} is none of {}", parts.word, known_words()));
  if (parts.inputs.size() < form->least || parts.inputs.size() > form->most)
    refuse(text, fmt::format("expected {} to {} tensors to read", form->least, form->most));
  if (form->over == Over::always && parts.over.empty())
    refuse(text, "expected \"over\" and a dimension");
  if (form->over == Over::never && !parts.over.empty()) refuse(text, "it runs over no dimension");
  made.act = form->act;
  if (form->act == Act::apply) made.function = parts.word;
  if (parts.over.empty()) return;
  made.over = named(network.dimensions, parts.over);
  if (made.over < 0) refuse(text, fmt::format("no dimension is called {}", parts.over));
}

// The layer that a name of "reads" stands for; -1: data.
int source_of(const Network& network, const std::string& name) {
  const int source = named(network.layers, name);
  if (source < 0 && name != "data")
    throw std::invalid_argument(
        fmt::format("reads {}: no layer before it is called so, nor is it data", name));
  return source;
}

// Where a given value comes from, and whether another layer that reads the same keeps it already.
void find_sources(const Network& network, NetworkLayer& layer) {
  std::vector<std::string> reads;
  if (layer.reads) {
    reads = *layer.reads;
  } else if (network.layers.empty()) {
    reads.assign(layer.given.size(), "data");
  } else {
    if (layer.given.empty()) throw std::invalid_argument("it does not read the layer before");
    reads.push_back(network.layers.back().name);
  }
  if (reads.size() != layer.given.size())
    throw std::invalid_argument(
        fmt::format("{} values are given to it, and it reads {} layers: name each under \"reads\"",
                    layer.given.size(), reads.size()));
  for (std::size_t g = 0; g < reads.size(); ++g) {
    Given& given = layer.given[g];
    const NetworkTensor& tensor = layer.tensors[at(given.tensor)];
    given.source = source_of(network, reads[g]);
    if (given.source < 0) continue;
    const NetworkLayer& before = network.layers[at(given.source)];
    if (before.tensors[at(before.operations.back().output)].dimensions != tensor.dimensions)
      throw std::invalid_argument(fmt::format("{} has other dimensions than what layer {} makes",
                                              tensor.name, before.name));
    for (const NetworkLayer& other : network.layers) {
      for (const Given& its : other.given)
        given.elsewhere |= its.source == given.source && keeps_given(network, other, its.tensor);
    }
  }
}

}  // namespace

void append_tensor(std::string_view text, const Network& network, NetworkLayer& layer) {
  NetworkTensor tensor;
  std::string_view rest = trimmed(text);
  for (const auto& [word, role] :
       {std::pair{"weight ", Role::weight}, std::pair{"tied ", Role::tied},
        std::pair{"state ", Role::state}}) {
    if (!rest.starts_with(word)) continue;
    tensor.role = role;
    rest = trimmed(rest.substr(std::string_view(word).size()));
    break;
  }
  const auto parsed = parse_tensor(rest);
  if (!parsed) refuse(text, "expected as \"x[batch, io]\" or \"weight w[io, hidden]\"");
  if (named(layer.tensors, parsed->name) >= 0)
    refuse(text, fmt::format("{} is there twice", parsed->name));
  tensor.name = parsed->name;
  for (const std::string& name : parsed->dimensions) {
    const int d = named(network.dimensions, name);
    if (d < 0) refuse(text, fmt::format("no dimension is called {}", name));
    if (has_dimension(tensor.dimensions, d))
      refuse(text, fmt::format("dimension {} is there twice", name));
    tensor.dimensions.push_back(d);
  }
  layer.tensors.push_back(std::move(tensor));
}

void append_operation(std::string_view text, const Network& network, NetworkLayer& layer) {
  const Parts parts = parts_of(text);
  const auto tensor = [&](const std::string& name) {
    const int t = named(layer.tensors, name);
    if (t < 0) refuse(text, fmt::format("no tensor of layer {} is called {}", layer.name, name));
    return t;
  };
  Operation made;
  made.output = tensor(parts.output);
  set_act(text, parts, network, made);
  for (const std::string& name : parts.inputs) {
    const int input = tensor(name);
    if (std::ranges::find(made.inputs, input) != made.inputs.end())
      refuse(text, fmt::format("{} is there twice", name));
    made.inputs.push_back(input);
  }
  const Role role = layer.tensors[at(made.output)].role;
  const bool carries = made.act == Act::carry;
  if (is_weight(layer.tensors[at(made.output)]))
    refuse(text, fmt::format("{} is a weight", parts.output));
  if (carries != (role == Role::state))
    refuse(text, carries ? fmt::format("{} is no state", parts.output)
                         : fmt::format("{} is a state: carry makes it", parts.output));
  for (const Operation& before : layer.operations) {
    if (before.output == made.output)
      refuse(text, fmt::format("{} was computed before", parts.output));
    // A state is read before it is made: what is read is the step's before.
    if (!carries && std::ranges::find(before.inputs, made.output) != before.inputs.end())
      refuse(text, fmt::format("{} was used before", parts.output));
  }
  if (std::ranges::find(made.inputs, made.output) != made.inputs.end())
    refuse(text, fmt::format("{} is made of itself", parts.output));
  made.all = layer.tensors[at(made.output)].dimensions;
  for (const int input : made.inputs) {
    for (const int d : layer.tensors[at(input)].dimensions) made.all.push_back(d);
  }
  // Every dimension once, in the network's order.
  std::ranges::sort(made.all);
  made.all.erase(std::unique(made.all.begin(), made.all.end()), made.all.end());
  if (const auto why = malformed(network, layer, made)) throw std::invalid_argument(*why);
  layer.operations.push_back(std::move(made));
}

void finish_layer(const Network& network, NetworkLayer& layer) {
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("layer {}: {}", layer.name, why));
  };
  if (layer.operations.empty()) fail("expected operations");
  std::set<int> used, made;
  for (const Operation& operation : layer.operations) {
    used.insert(operation.inputs.begin(), operation.inputs.end());
    made.insert(operation.output);
  }
  for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
    const NetworkTensor& tensor = layer.tensors[t];
    const int index = static_cast<int>(t);
    const bool last = index == layer.operations.back().output;
    if (!used.contains(index) && !last) fail(fmt::format("nothing uses {}", tensor.name));
    if (used.contains(index) && last) fail(fmt::format("{} is not its output alone", tensor.name));
    if (is_weight(tensor) || made.contains(index)) continue;
    if (tensor.role == Role::state) fail(fmt::format("nothing carries {} on", tensor.name));
    layer.given.push_back({index});
  }
  if (!layer.given.empty()) layer.input = layer.given.front().tensor;
  const auto& output = layer.tensors[at(layer.operations.back().output)].dimensions;
  if (layer.repeat > 1 && (layer.input < 0 || layer.tensors[at(layer.input)].dimensions != output))
    fail("it is repeated, so its output needs the dimensions of its input");
  try {
    find_steps(network, layer);
    find_sources(network, layer);
  } catch (const std::invalid_argument& why) {
    fail(why.what());
  }
}

void finish_network(const Network& network) {
  std::set<int> read;
  for (const NetworkLayer& layer : network.layers) {
    for (const Given& given : layer.given) read.insert(given.source);
  }
  for (std::size_t l = 0; l + 1 < network.layers.size(); ++l) {
    const NetworkLayer& layer = network.layers[l];
    // A loss ends a branch: its gradient is given, whoever reads it.
    if (!read.contains(static_cast<int>(l)) && layer.operations.back().act != Act::loss)
      throw std::invalid_argument(
          fmt::format("layer {}: no layer reads it, and it is no loss", layer.name));
  }
}

void set_network_rules(std::string_view rules, const Network& network, NetworkLayout& layout) {
  layout.over.assign(network.dimensions.size(), 0);
  layout.optimizer = layout.gradients = 0;
  for (const std::string& rule : pieces(rules, ',')) {
    const auto sides = pieces(rule, ':');
    if (sides.size() != 2 || !is_name(sides[0]) || !is_name(sides[1]))
      refuse(rule, "expected as \"batch:d,heads:m\"");
    const int d = named(network.dimensions, sides[0]);
    Axes* over = sides[0] == kOptimizer   ? &layout.optimizer
                 : sides[0] == kGradients ? &layout.gradients
                 : d >= 0                 ? &layout.over[at(d)]
                                          : nullptr;
    if (over == nullptr) {
      std::vector<std::string> names;
      for (const Dimension& dimension : network.dimensions) names.push_back(dimension.name);
      refuse(rule, fmt::format("no dimension is called {}; there are {}", sides[0],
                               fmt::join(names, ", ")));
    }
    const int mesh = named(layout.mesh, sides[1]);
    if (mesh < 0) refuse(rule, fmt::format("no mesh dimension is called {}", sides[1]));
    const Axes axis = Axes{1} << static_cast<unsigned>(mesh);
    if ((*over & axis) != 0) refuse(rule, "it is there twice");
    *over |= axis;
  }
}

}  // namespace weir::layout
