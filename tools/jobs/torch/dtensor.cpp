// The network as Python literals, and the placements of every tensor.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torch/dtensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "plan/words/indexed.hpp"
#include "tools/jobs/job/script.hpp"
#include "tools/jobs/torch/torch_layers.hpp"

namespace weir {
namespace {

using layout::Act;
using layout::Network;
using layout::NetworkLayer;
using layout::NetworkLayout;
using layout::NetworkTensor;

constexpr std::string_view kScript = R"py(#!/usr/bin/env python3
"""@NAME@ under the layout @LAYOUT@, as DTensors. Written by weir export.

    @LAUNCH@

PLACEMENTS are each tensor's on the mesh, as `distribute_tensor` takes them; `Network` computes on
them. --against-whole compares it with the network on one device: the loss, and every gradient.
"""
import argparse

SEED = 1
DIMENSIONS = @DIMENSIONS@
MESH = @MESH@  # the last has neighbouring devices
RULES = @RULES@
LAYERS = @PROGRAM@

@FUNCTIONS@
PLACEMENTS = {
@PLACEMENTS@}


def differences(network):
    """Of loss and gradients from those of the network on one device, as shares of the largest
    number. Gradients that cancel, as those of keys' biases do under a softmax, are rounding alone:
    they are shares of a thousandth of the largest gradient."""
    whole = Network()
    losses = [network(), whole()]
    for loss in losses:
        loss.backward()
    if dist.get_rank() == 0:
        print(f"loss {losses[0].item():.6f}, whole {losses[1].item():.6f}", flush=True)
    yield abs(losses[0].item() - losses[1].item()) / abs(losses[1].item())
    largest = {name: weight.grad.abs().max().item() for name, weight in whole.weights.items()}
    least = max(largest.values()) / 1000
    for name, weight in whole.weights.items():
        mine = network.weights[name].grad.full_tensor().cpu()
        yield (mine - weight.grad).abs().max().item() / max(largest[name], least)


def main():
    options = argparse.ArgumentParser(description="Trains the network on random numbers.")
    options.add_argument("--steps", type=int, default=3)
    options.add_argument("--against-whole", action="store_true")
    given = options.parse_args()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = dist.init_device_mesh("cuda" if cuda else "cpu", tuple(MESH.values()),
                                 mesh_dim_names=tuple(MESH))
    network = Network(mesh)
    if given.against_whole:
        worst = max(differences(network))
        if dist.get_rank() == 0:
            print(f"largest difference {worst:.2e}", flush=True)
    else:
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
        for _ in range(given.steps):
            optimizer.zero_grad()
            loss = network()
            loss.backward()
            optimizer.step()
            if dist.get_rank() == 0:
                print(f"loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
)py";

std::vector<std::string> names_of(const Network& network, const std::vector<int>& dimensions) {
  std::vector<std::string> names;
  for (const int d : dimensions) names.push_back(network.dimensions[at(d)].name);
  return names;
}

// What the script computes of an operation, in one word, or why it cannot.
const char* cannot(Act act) {
  switch (act) {
    case Act::route:
    case Act::back:
    case Act::choose:
      return "DTensor has no placement for tokens that go to the experts they choose";
    case Act::step:
    case Act::carry:
    case Act::stack:
      return "steps over time have no DTensor script";
    case Act::attention:
      return "the kernel's scale and mask are no words of a network: --attention unfused has its "
             "products and its softmax";
    case Act::turn:
      return "the angles of rotary positions are no words of a network";
    case Act::product:
    case Act::weigh:
    case Act::apply:
    case Act::glu:
    case Act::add:
    case Act::norm:
    case Act::rms_norm:
    case Act::softmax:
    case Act::gather:
    case Act::loss:
    case Act::move:
      break;
  }
  return nullptr;
}

Json operations_of(const Network& network, const NetworkLayer& layer) {
  Json all = Json::array();
  for (const layout::Operation& operation : layer.operations) {
    Json inputs = Json::array();
    for (const int input : operation.inputs) inputs.push_back(layer.tensors[at(input)].name);
    all.push_back(
        {{"act", to_string(operation.act)},
         {"function", operation.function},
         {"output", layer.tensors[at(operation.output)].name},
         {"inputs", inputs},
         {"over", operation.over < 0 ? "" : network.dimensions[at(operation.over)].name}});
  }
  return all;
}

Json program_of(const Network& network) {
  Json layers = Json::array();
  for (const NetworkLayer& layer : network.layers) {
    Json tensors = Json::object(), given = Json::object();
    for (const NetworkTensor& tensor : layer.tensors) {
      const char* role = tensor.role == layout::Role::weight ? "weight"
                         : tensor.role == layout::Role::tied ? "tied"
                                                             : "value";
      tensors[tensor.name] = {role, names_of(network, tensor.dimensions)};
    }
    const std::vector<std::string> sources = sources_of(network, layer);
    for (std::size_t g = 0; g < sources.size(); ++g)
      given[layer.tensors[at(layer.given[g].tensor)].name] = sources[g];
    layers.push_back({{"name", layer.name},
                      {"repeat", layer.repeat},
                      {"given", given},
                      {"tensors", tensors},
                      {"operations", operations_of(network, layer)}});
  }
  return layers;
}

// "[Shard(0), Replicate()]": of each mesh dimension in order, which of the tensor's is split over
// it. Of a dimension over several DTensor splits by the first and each part by the next, which is
// the order of processors.
std::string placements_of(const NetworkLayout& layout, const NetworkTensor& tensor) {
  std::vector<std::string> all;
  for (std::size_t m = 0; m < layout.mesh.size(); ++m) {
    const auto on = std::ranges::find_if(
        tensor.dimensions, [&](int d) { return (layout.over[at(d)] >> m & 1U) != 0; });
    all.push_back(on == tensor.dimensions.end()
                      ? "Replicate()"
                      : fmt::format("Shard({})", on - tensor.dimensions.begin()));
  }
  return fmt::format("[{}]", fmt::join(all, ", "));
}

std::string placement_lines(const Network& network, const NetworkLayout& layout) {
  std::string lines;
  for (const NetworkLayer& layer : network.layers) {
    lines += fmt::format("    {}: {{\n", Json(layer.name).dump());
    for (const NetworkTensor& tensor : layer.tensors) {
      if (tensor.role != layout::Role::weight) continue;
      lines += fmt::format("        {}: {},  # {}\n", Json(tensor.name).dump(),
                           placements_of(layout, tensor),
                           fmt::join(names_of(network, tensor.dimensions), ", "));
    }
    lines += "    },\n";
  }
  return lines;
}

}  // namespace

ExportedJob export_dtensor(const Network& network, const NetworkLayout& layout,
                           const std::string& file, const ExportOptions& options) {
  for (const NetworkLayer& layer : network.layers) {
    for (const layout::Operation& operation : layer.operations) {
      const char* why = cannot(operation.act);
      if (why == nullptr) continue;
      throw InputError(
          file, "layers",
          fmt::format("layer {}: {}: {}", layer.name, to_text(network, layer, operation), why));
    }
  }
  if (layout.mesh.empty())
    throw InputError(file, "layouts",
                     layout.name + ": expected a mesh: on one device nothing is split");
  Json sizes = Json::object(), mesh = Json::object(), rules = Json::object();
  int devices = 1;
  for (const layout::MeshDimension& m : layout.mesh) {
    mesh[m.name] = m.size;
    devices *= static_cast<int>(m.size);
  }
  for (std::size_t d = 0; d < network.dimensions.size(); ++d) {
    const layout::Dimension& dimension = network.dimensions[d];
    sizes[dimension.name] = dimension.size;
    for (std::size_t m = 0; m < layout.mesh.size(); ++m) {
      if ((layout.over[d] >> m & 1U) != 0) rules[dimension.name].push_back(layout.mesh[m].name);
    }
  }
  ExportedJob job;
  job.launch = torchrun(nodes_of(Plan{.pp = devices}, options)) + " dtensor.py";
  job.files.push_back(
      {"dtensor.py", filled(kScript, {{"NAME", python_text(network.name)},
                                      {"LAYOUT", python_text(layout.name)},
                                      {"LAUNCH", job.launch},
                                      {"DIMENSIONS", sizes.dump()},
                                      {"MESH", mesh.dump()},
                                      {"RULES", rules.dump()},
                                      {"PROGRAM", program_of(network).dump(1)},
                                      {"FUNCTIONS", std::string(torch_layout_script())},
                                      {"PLACEMENTS", placement_lines(network, layout)}})});
  job.not_carried.push_back(
      {"dtype", "a layout says no number format: the script computes in fp32"});
  job.not_carried.push_back({"data", "the script's inputs and targets are random"});
  if (layout.optimizer != 0)
    job.not_carried.push_back({"optimizer",
                               "a placement is a weight's: what the optimizer keeps "
                               "of it, the script divides as the weight is"});
  return job;
}

}  // namespace weir
