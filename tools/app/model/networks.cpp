// Networks under layouts, and the best of these.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/networks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "costmodel/layers/kernel_rates.hpp"
#include "costmodel/table/device_kind.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/layout/network_json.hpp"
#include "plan/layout/network_text.hpp"
#include "plan/layout/read.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/indexed.hpp"
#include "tools/app/machine/machine.hpp"

namespace weir::app {
namespace {

constexpr std::int64_t kMostDevices = 1 << 16;

std::optional<Cluster> cluster_of(const NetworksRequest& r) {
  if (r.measured) return r.measured;
  if (!r.cluster) return std::nullopt;
  Cluster cluster = load_cluster_or_name(*r.cluster);
  if (!cluster.pools.empty())
    throw UsageError("a layout is priced on one kind of nodes, not on several pools");
  return cluster;
}

// Where a device multiplies, it has a rate for the format.
void require_rate(const Cluster& cluster, Dtype dtype) {
  if (!(peak_rate(cluster.device, dtype).count() > 0)) {
    throw UsageError(
        fmt::format("{} has no rate for products in {}", cluster.device.name, to_string(dtype)));
  }
}

layout::NetworkLayout asked_layout(const NetworksRequest& r) {
  layout::NetworkLayout layout;
  layout.name = "asked";
  try {
    layout.mesh = layout::parse_mesh(r.mesh);
  } catch (const std::invalid_argument& why) {
    throw UsageError(fmt::format("--mesh: {}", why.what()));
  }
  return layout;
}

// The processors of the mesh that a dimension is on, read before there is a network: how far its
// size is padded, and whether experts are apart.
std::int64_t processors_of(const NetworksRequest& r, const layout::NetworkLayout& layout,
                           const std::string& dimension) {
  // A network of this one dimension: the rules are only read, not judged.
  const layout::Network one{"", {{dimension, dimension, 1}}, {}};
  std::int64_t parts = 1;
  std::string rules = r.rules;
  for (std::size_t from = 0; from <= rules.size();) {
    const std::size_t comma = std::min(rules.find(',', from), rules.size());
    std::string rule = rules.substr(from, comma - from);
    std::erase(rule, ' ');
    from = comma + 1;
    // Rules of other dimensions do not matter here.
    if (!rule.starts_with(dimension + ":")) continue;
    try {
      layout::NetworkLayout only = layout;
      set_network_rules(rule, one, only);
      parts *= members(layout, only.over.front());
    } catch (const std::invalid_argument& why) {
      throw UsageError(fmt::format("--rules: {}", why.what()));
    }
  }
  return parts;
}

// In formulas a mesh dimension goes by its name, where no dimension of the network does.
void set_symbols(const layout::Network& network, layout::NetworkLayout& layout) {
  for (layout::MeshDimension& m : layout.mesh) {
    while (std::ranges::find(network.dimensions, m.symbol, &layout::Dimension::symbol) !=
           network.dimensions.end())
      m.symbol = "n_" + m.symbol;
  }
}

void set_rules(const NetworksRequest& r, const layout::Network& network,
               layout::NetworkLayout& layout) {
  set_symbols(network, layout);
  try {
    set_network_rules(r.rules, network, layout);
  } catch (const std::invalid_argument& why) {
    throw UsageError(fmt::format("--rules: {}", why.what()));
  }
  // Well-formed rules may still split a dimension that does not divide evenly.
  if (const auto why = illegal(network, layout)) throw UsageError(fmt::format("--rules: {}", *why));
}

// The same rules on every shape of so many devices.
void set_shapes(const NetworksRequest& r, NetworksResult& result) {
  try {
    result.shapes =
        on_every_shape(result.network, r.rules, *r.devices, result.job, *result.cluster);
  } catch (const std::invalid_argument& why) {
    throw UsageError(fmt::format("--rules: {}", why.what()));
  }
  for (const ShapedLayout& one : *result.shapes) {
    if (!one.why) result.layouts.push_back(one.layout);
  }
}

// Beside each of them other tensors live, which every placing is bounded by.
void require_few_operations(const layout::Network& network) {
  constexpr std::size_t kMost = 10'000;
  std::size_t operations = 0;
  for (const layout::NetworkLayer& layer : network.layers) operations += layer.operations.size();
  if (operations <= kMost) return;
  throw UsageError(
      fmt::format("--least-live: {} has {} operations, each repeated layer's once: "
                  "expected {} at most",
                  network.name, operations, kMost));
}

// K and the layouts inside stages together.
void search_staged(const NetworksRequest& r, NetworksResult& result) {
  if (!r.rules.empty() || r.least_live)
    throw UsageError("--stages with --devices searches layouts: drop --rules and --least-live");
  result.staged = staged_front(result.network, *r.devices, r.pipeline, result.job, *result.cluster);
  for (StagedRow& row : result.staged) {
    row.layout.name = fmt::format("found {}", result.layouts.size() + 1);
    result.layouts.push_back(row.layout);
  }
}

// Of the layouts that were asked for, or that a file has.
void add_stages(const NetworksRequest& r, NetworksResult& result) {
  if (r.pipeline.stages.empty() || !result.staged.empty()) return;
  if (!result.cluster)
    throw UsageError("--stages needs --cluster: its links carry messages between stages");
  result.staged =
      staged_rows(result.network, result.layouts, r.pipeline, result.job, *result.cluster);
}

// Of every rule; Mesh-TensorFlow's measure is of networks that keep weights as they are read.
bool searches_rules(const NetworksRequest& r) {
  return r.devices && r.rules.empty() && !r.least_live;
}

layout::Network network_of(const Model& model, const layout::NetworkOf& of,
                           const std::filesystem::path& file) {
  try {
    return layout::model_network(model, of);
  } catch (const std::invalid_argument& why) {
    throw InputError(file.string(), "layers", why.what());
  }
}

// With ZeRO's third stage among the rules, where every layer has words for it.
layout::Network network_to_search(const Model& model, layout::NetworkOf of,
                                  const std::filesystem::path& file, const Session& session) {
  of.shards = true;
  try {
    return layout::model_network(model, of);
  } catch (const std::invalid_argument& why) {
    of.shards = false;
    layout::Network whole = network_of(model, of, file);
    session.note(fmt::format("rules for shard (ZeRO 3) are not compared: {}", why.what()));
    return whole;
  }
}

void search(const NetworksRequest& r, NetworksResult& result, const Session& session) {
  if (!result.cluster) throw UsageError("--devices needs --cluster: its links price the layouts");
  if (const auto note = take_devices(*result.cluster, *r.devices)) session.note(*note);
  require_rate(*result.cluster, result.job.dtype);
  if (!r.pipeline.stages.empty()) return search_staged(r, result);
  if (!r.rules.empty()) return set_shapes(r, result);
  if (r.least_live) {
    require_few_operations(result.network);
    result.least_live =
        least_live(result.network, result.job.dtype, {*r.devices}, session.part("least live"));
  }
  result.found = search_layouts(result.network, result.job, *result.cluster, {*r.devices});
  for (const FoundLayout& one : result.found->front) result.layouts.push_back(one.layout);
}

void take_mesh(const NetworksRequest& r, const layout::NetworkLayout& layout,
               NetworksResult& result, const Session& session) {
  if (!result.cluster) return;
  std::int64_t devices = 1;
  for (const layout::MeshDimension& m : layout.mesh) devices *= m.size;
  // A pipeline has as many on each of its stages.
  if (!r.pipeline.stages.empty()) devices *= std::ranges::max(r.pipeline.stages);
  // Such a product of a mesh's and of stages would wrap to a number that a cluster may have.
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (devices > kMost)
    throw UsageError(fmt::format("{} devices in all: expected {} at most", devices, kMost));
  if (const auto note = take_devices(*result.cluster, static_cast<int>(devices)))
    session.note(*note);
  require_rate(*result.cluster, result.job.dtype);
}

void write_program(const NetworksRequest& r, const NetworksResult& result, const Session& session) {
  if (r.out)
    write_file_atomically(session.output(*r.out), layout::to_json(result.network, result.layouts));
}

void refuse_both(const NetworksRequest& r) {
  if (r.devices && !r.mesh.empty())
    throw UsageError("--devices tries every mesh: give it or --mesh");
  if (r.least_live && (!r.devices || !r.rules.empty()))
    throw UsageError("--least-live is of --devices, which tries every rule");
  if (r.pipeline.stages.empty() && (r.pipeline.microbatches != 1 || r.pipeline.schedule != "1f1b"))
    throw UsageError("--microbatches and --schedule are of --stages");
}

}  // namespace

Fields fields(NetworksRequest& r) {
  Fields all{
      {"--mesh", &r.mesh,
       "With --rules: mesh dimensions, the last with neighbouring devices: d=4,m=8"},
      {"--rules", &r.rules,
       "What each device sends, computes and keeps where dimensions are split: "
       "batch:d,heads:m,ffn:m,vocab:m"},
      {"--devices",
       &r.devices,
       "With --cluster: the best layouts on so many devices, over all meshes and rules; with "
       "--rules: what these cost on every mesh of so many",
       {.range = Range{1, kMostDevices}}},
      {"--least-live", &r.least_live,
       "With --devices: also the layout under which the fewest bytes of tensors live at once, "
       "Mesh-TensorFlow's own measure (auto_mtf)"},
      {"--cluster", &r.cluster, "Whose links and memory price layouts: a file or dgx-h100"},
      {"--program",
       &r.out,
       "Write the network and these layouts, a layout file",
       {.writes = Writes::file}}};
  append(all, fields(r.pipeline));
  return all;
}

NetworksResult networks(const NetworksRequest& r, PlanOptions options, const Model& model,
                        int batch, std::uint64_t seed, const Session& session) {
  refuse_both(r);
  NetworksResult result;
  result.cluster = cluster_of(r);
  if (result.cluster) {
    if (const auto note = complete_precision(options, *result.cluster, session))
      session.note(*note);
  }
  const Plan plan = base_plan(options, seed, model, session, SampleLength::needed);
  Model attending = model;
  set_attention(attending, plan.attention);
  result.job = {plan.dtype, plan.optimizer, 1};
  layout::NetworkLayout layout = asked_layout(r);
  // Vocabularies are padded to what devices divide and products like.
  const std::int64_t vocab =
      r.devices ? std::lcm(layout::padded_to(plan.dtype, 1), std::int64_t{*r.devices})
                : layout::padded_to(plan.dtype, processors_of(r, layout, "vocab"));
  const bool apart = !r.devices        ? processors_of(r, layout, "experts") > 1
                     : r.rules.empty() ? has_experts(model)
                                       : r.rules.find("experts:") != std::string::npos;
  layout::NetworkOf of{plan.seq_length, batch, vocab, apart, false};
  if (searches_rules(r)) {
    result.network = network_to_search(attending, of, options.model, session);
  } else {
    of.shards = r.devices ? r.rules.find("shard:") != std::string::npos
                          : processors_of(r, layout, "shard") > 1;
    result.network = network_of(attending, of, options.model);
  }
  if (r.devices) {
    search(r, result, session);
  } else {
    set_rules(r, result.network, layout);
    take_mesh(r, layout, result, session);
    result.layouts.push_back(std::move(layout));
  }
  add_stages(r, result);
  write_program(r, result, session);
  return result;
}

NetworksResult networks(const NetworksRequest& r, const layout::Network& network,
                        const std::vector<layout::NetworkLayout>& layouts,
                        std::optional<Dtype> dtype, const Session& session) {
  refuse_both(r);
  NetworksResult result{network, layouts, {}, cluster_of(r), {}, {}, {}, {}, {}};
  // A layout file says no number format: the one that its device trains in.
  const bool gpu = result.cluster && is_gpu(result.cluster->device);
  result.job.dtype = dtype.value_or(gpu ? Dtype::bf16 : Dtype::fp32);
  if (r.devices) {
    result.layouts.clear();
    search(r, result, session);
  } else if (!r.mesh.empty() || !r.rules.empty()) {
    layout::NetworkLayout layout = asked_layout(r);
    set_rules(r, network, layout);
    take_mesh(r, layout, result, session);
    result.layouts = {std::move(layout)};
  } else {
    for (const layout::NetworkLayout& layout : layouts) take_mesh(r, layout, result, session);
  }
  add_stages(r, result);
  write_program(r, result, session);
  return result;
}

}  // namespace weir::app
