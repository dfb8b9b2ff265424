// A layer is a table of keys; its texts are resolved when all of it is read.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/network_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "plan/format/keys.hpp"
#include "plan/layout/network_text.hpp"

namespace weir {
namespace layout {
namespace {

constexpr std::size_t kMostLayers = 1024;   // of different kinds, one after the other
constexpr std::size_t kMostOfALayer = 256;  // tensors, operations
constexpr double kMostRepeats = 1 << 20;

struct LayerText {
  std::string name;
  std::int64_t repeat = 1;
  std::optional<std::vector<std::string>> reads;
  std::vector<std::string> tensors, operations;
};

}  // namespace
}  // namespace layout

namespace format {
namespace {

using layout::LayerText;

constexpr Key<LayerText> kNetworkLayer[] = {
    key<&LayerText::name>("name", ""),
    maybe<&LayerText::repeat>("repeat",
                              "| may be left out | how often it is in a row: 1; its output then "
                              "has its input's dimensions",
                              {1, layout::kMostRepeats}),
    maybe<&LayerText::reads>("reads",
                             "| may be left out | names of earlier layers, or `data`: where each "
                             "given value comes from, in the order of `tensors`; the layer before"),
    key<&LayerText::tensors>("tensors",
                             "as `x[batch, hidden]`; `weight w[hidden, ffn]`; `tied w[vocab, "
                             "hidden]`, which another layer has; `state h[batch, hidden]`, which "
                             "goes from step to step"),
    key<&LayerText::operations>("operations",
                                "as `u = n w`, `n = norm(x gain) over hidden`, `h = carry(n) over "
                                "time`; the forward only, "
                                "gradients are derived")};

}  // namespace
}  // namespace format

namespace layout {
namespace {

NetworkLayer layer_of(const LayerText& text, const Network& network, const JsonObject& object) {
  NetworkLayer layer;
  layer.name = text.name;
  layer.repeat = text.repeat;
  layer.reads = text.reads;
  if (text.tensors.size() > kMostOfALayer)
    object.fail("tensors", fmt::format("expected {} at most", kMostOfALayer));
  if (text.operations.size() > kMostOfALayer)
    object.fail("operations", fmt::format("expected {} at most", kMostOfALayer));
  // The list that is at fault when a text of it is refused.
  const char* key = "tensors";
  try {
    for (const std::string& tensor : text.tensors) append_tensor(tensor, network, layer);
    key = "operations";
    for (const std::string& operation : text.operations)
      append_operation(operation, network, layer);
    finish_layer(network, layer);
  } catch (const std::invalid_argument& why) {
    object.fail(key, why.what());
  }
  return layer;
}

}  // namespace

Network read_layers(JsonObject& top, std::string name, std::vector<Dimension> dimensions) {
  Network network{std::move(name), std::move(dimensions), {}};
  for (const Dimension& d : network.dimensions) {
    // Rules have these for what is kept of weights.
    if (d.name == kOptimizer || d.name == kGradients)
      top.fail("dimensions", fmt::format("{}: rules call what is kept of weights so", d.name));
  }
  for (JsonObject object : top.objects("layers")) {
    const LayerText text = format::read(object, format::kNetworkLayer);
    for (const NetworkLayer& before : network.layers) {
      if (before.name == text.name) object.fail("name", text.name + " is there twice");
    }
    network.layers.push_back(layer_of(text, network, object));
  }
  if (network.layers.empty() || network.layers.size() > kMostLayers)
    top.fail("layers", fmt::format("expected 1 to {} of them", kMostLayers));
  try {
    finish_network(network);
  } catch (const std::invalid_argument& why) {
    top.fail("layers", why.what());
  }
  if (all_elements(network) > kMostNumbers)
    top.fail("layers", "all tensors together have more than 2^53 elements");
  std::set<int> used;
  for (const NetworkLayer& layer : network.layers) {
    for (const NetworkTensor& tensor : layer.tensors)
      used.insert(tensor.dimensions.begin(), tensor.dimensions.end());
  }
  for (std::size_t d = 0; d < network.dimensions.size(); ++d) {
    if (!used.contains(static_cast<int>(d))) {
      top.fail("dimensions", fmt::format("no tensor has dimension {}", network.dimensions[d].name));
    }
  }
  return network;
}

std::string to_json(const Network& network, const std::vector<NetworkLayout>& layouts) {
  Json json{{"schema", "weir.layout/1"}, {"name", network.name}};
  for (const Dimension& d : network.dimensions)
    json["dimensions"].push_back({{"name", d.name}, {"symbol", d.symbol}, {"size", d.size}});
  for (const NetworkLayer& layer : network.layers) {
    LayerText text{layer.name, layer.repeat, layer.reads, {}, {}};
    for (const NetworkTensor& tensor : layer.tensors)
      text.tensors.push_back(to_text(network, tensor));
    for (const Operation& operation : layer.operations)
      text.operations.push_back(to_text(network, layer, operation));
    json["layers"].push_back(format::written(text, format::kNetworkLayer));
  }
  json["layouts"] = Json::array();
  for (const NetworkLayout& layout : layouts) {
    Json mesh = Json::array();
    for (const MeshDimension& m : layout.mesh)
      mesh.push_back({{"name", m.name}, {"symbol", m.symbol}, {"size", m.size}});
    // "none" is for people; in the file rules may be empty.
    const std::string rules = rules_text(network, layout);
    json["layouts"].push_back(
        {{"name", layout.name}, {"mesh", mesh}, {"rules", rules == "none" ? "" : rules}});
  }
  return json.dump(2) + "\n";
}

std::vector<format::Section> layout_sections() {
  return {format::described("layout layer", format::kNetworkLayer)};
}

}  // namespace layout
}  // namespace weir
