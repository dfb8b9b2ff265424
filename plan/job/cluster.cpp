// Reads and writes weir.cluster/1.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

Bytes bytes_of(JsonObject& object, std::string_view key) {
  const auto value = parse_bytes(object.text(key));
  if (!value) object.fail(key, "expected an amount with its unit, as \"80 GiB\"");
  return *value;
}

constexpr std::string_view kClusterSchema = "weir.cluster/1";

constexpr std::string_view kUnlimited =
    "unlimited";  // of a regime whose times do not grow with the size

Seconds latency_of(JsonObject& object) {
  const auto latency = parse_duration(object.text("latency"));
  if (!latency) object.fail("latency", "expected a duration with its unit, as \"5 us\"");
  return *latency;
}

BytesPerSecond bandwidth_of(JsonObject& object) {
  const auto bandwidth = parse_rate(object.text("bandwidth"));
  if (!bandwidth || bandwidth->count() <= 0)
    object.fail("bandwidth", "expected a rate with its unit, as \"300 GB/s\"");
  return *bandwidth;
}

// A share of something, above 0.
double share_of(JsonObject& object, std::string_view key, double high = 1) {
  const double value = object.number(key, 0, high);
  if (value == 0) object.fail(key, "expected a share above 0");
  return value;
}

Seconds duration_of(JsonObject& object, std::string_view key) {
  const auto value = parse_duration(object.text(key));
  if (!value) object.fail(key, "expected a duration with its unit, as \"4 us\"");
  return *value;
}

SwitchReduction switch_reduction_of(JsonObject object) {
  SwitchReduction reduction;
  reduction.members = static_cast<int>(object.integer("members", 2, 4096));
  reduction.latency = latency_of(object);
  reduction.bandwidth = bandwidth_of(object);
  object.finish();
  return reduction;
}

Link link_of(JsonObject object) {
  Link link{.latency = latency_of(object), .bandwidth = bandwidth_of(object)};
  if (object.has("efficiency")) {
    link.efficiency = share_of(object, "efficiency");
    link.bandwidth = BytesPerSecond(link.bandwidth.count() * link.efficiency);
  }
  if (object.has("tree")) link.tree = duration_of(object, "tree");
  if (object.has("switch_reduction"))
    link.switch_reduction = switch_reduction_of(object.object("switch_reduction"));
  if (object.has("regimes")) {
    for (JsonObject& regime : object.objects("regimes")) {
      const Bytes up_to = bytes_of(regime, "up_to");
      if (!link.regimes.empty() && up_to <= link.regimes.back().up_to)
        regime.fail("up_to", "expected ascending sizes");
      const bool unlimited = regime.text("bandwidth") == kUnlimited;
      link.regimes.push_back(
          {up_to, latency_of(regime), unlimited ? BytesPerSecond(0) : bandwidth_of(regime)});
      regime.finish();
    }
  }
  object.finish();
  return link;
}

ProductRates products_of(JsonObject& object) {
  ProductRates rates;
  rates.efficiency = share_of(object, "matrix_efficiency");
  if (object.has("half_tile_efficiency"))
    rates.half_tile = share_of(object, "half_tile_efficiency", 2);
  rates.exposed_output = object.number_or("exposed_output", 0, 0, 4);
  if (object.has("unaligned_efficiency"))
    rates.unaligned = share_of(object, "unaligned_efficiency");
  return rates;
}

AttentionRates attention_of(JsonObject object) {
  AttentionRates rates;
  rates.forward = share_of(object, "forward", 2);
  rates.backward = share_of(object, "backward", 2);
  rates.keys = object.number("keys", 0, 1e5);
  rates.head = object.number("head", 0, 1e5);
  object.finish();
  return rates;
}

KernelModel kernels_of(JsonObject object) {
  KernelModel kernels;
  const auto tile = object.integers("tile", 1, 4096);
  if (tile.size() != 2) object.fail("tile", "expected rows and columns, as [128, 256]");
  kernels.tile_rows = static_cast<int>(tile[0]);
  kernels.tile_columns = static_cast<int>(tile[1]);
  kernels.products = products_of(object);
  if (object.has("fp8")) {
    JsonObject fp8 = object.object("fp8");
    kernels.fp8 = products_of(fp8);
    fp8.finish();
  }
  if (object.has("attention")) {
    JsonObject libraries = object.object("attention");
    for (const auto& [library, name] : kAttentionLibraryNames) {
      if (libraries.has(name)) kernels.attention[library] = attention_of(libraries.object(name));
    }
    libraries.finish();
  }
  kernels.bandwidth_efficiency = share_of(object, "bandwidth_efficiency");
  if (object.has("start")) kernels.start = duration_of(object, "start");
  kernels.floor = duration_of(object, "floor");
  kernels.launch = duration_of(object, "launch");
  object.finish();
  return kernels;
}

Device device_of(JsonObject object) {
  Device device;
  device.name = object.text("name");
  device.memory = bytes_of(object, "memory");
  device.peak_fp32 = FlopsPerSecond(object.number_or("peak_fp32_tflops", 0) * 1e12);
  device.peak_tf32 = FlopsPerSecond(object.number_or("peak_tf32_tflops", 0) * 1e12);
  device.peak_bf16 = FlopsPerSecond(object.number_or("peak_bf16_tflops", 0) * 1e12);
  device.peak_fp16 = FlopsPerSecond(object.number_or("peak_fp16_tflops", 0) * 1e12);
  device.peak_fp8 = FlopsPerSecond(object.number_or("peak_fp8_tflops", 0) * 1e12);
  const auto bandwidth = parse_rate(object.text("memory_bandwidth"));
  if (!bandwidth || bandwidth->count() <= 0)
    object.fail("memory_bandwidth", "expected a rate, as \"3.35 TB/s\"");
  device.memory_bandwidth = *bandwidth;
  device.multiprocessors = static_cast<int>(object.integer_or("multiprocessors", 0, 0, 100'000));
  if (object.has("kernels")) {
    if (device.multiprocessors == 0) object.fail("kernels", "needs multiprocessors beside it");
    device.kernels = kernels_of(object.object("kernels"));
  }
  if (object.has("allocator")) {
    const std::string allocator = object.text("allocator");
    if (allocator != "arena" && allocator != "pytorch")
      object.fail("allocator", "expected arena or pytorch");
    device.allocator = allocator == "pytorch" ? Allocator::pytorch : Allocator::arena;
  }
  if (object.has("process_overhead"))
    device.process_overhead = bytes_of(object, "process_overhead");
  object.finish();
  return device;
}

// The largest unit that leaves whole numbers: what was "80 GB" is so again.
std::string bytes_text(Bytes value) {
  constexpr std::pair<const char*, std::int64_t> kUnits[] = {
      {"GB", 1'000'000'000}, {"GiB", std::int64_t{1} << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}};
  for (const auto& [name, unit] : kUnits) {
    if (value.count() % unit == 0) return fmt::format("{} {}", value.count() / unit, name);
  }
  return fmt::format("{} B", value.count());
}

std::string rate_text(BytesPerSecond rate) {
  return rate.count() > 0 ? fmt::format("{:.6g} GB/s", rate.count() / 1e9)
                          : std::string(kUnlimited);
}

std::string latency_text(Seconds latency) {
  return fmt::format("{:.6g} us", latency.count() * 1e6);
}

Json link_json(const Link& link) {
  const BytesPerSecond wire(link.bandwidth.count() / link.efficiency);
  Json json{{"latency", latency_text(link.latency)}, {"bandwidth", rate_text(wire)}};
  if (link.efficiency != 1) json["efficiency"] = link.efficiency;
  if (link.tree.count() > 0) json["tree"] = latency_text(link.tree);
  if (const auto& reduction = link.switch_reduction) {
    json["switch_reduction"] = {{"members", reduction->members},
                                {"latency", latency_text(reduction->latency)},
                                {"bandwidth", rate_text(reduction->bandwidth)}};
  }
  for (const LinkRegime& regime : link.regimes) {
    json["regimes"].push_back({{"up_to", bytes_text(regime.up_to)},
                               {"latency", latency_text(regime.latency)},
                               {"bandwidth", rate_text(regime.bandwidth)}});
  }
  return json;
}

void products_json(const ProductRates& rates, Json& json) {
  json["matrix_efficiency"] = rates.efficiency;
  if (rates.half_tile > 0) json["half_tile_efficiency"] = rates.half_tile;
  if (rates.exposed_output > 0) json["exposed_output"] = rates.exposed_output;
  if (rates.unaligned < 1) json["unaligned_efficiency"] = rates.unaligned;
}

Json kernels_json(const KernelModel& kernels) {
  Json json{{"tile", {kernels.tile_rows, kernels.tile_columns}}};
  products_json(kernels.products, json);
  if (kernels.fp8) products_json(*kernels.fp8, json["fp8"]);
  for (const auto& [library, rates] : kernels.attention) {
    json["attention"][std::string(name_of(kAttentionLibraryNames, library))] = {
        {"forward", rates.forward},
        {"backward", rates.backward},
        {"keys", rates.keys},
        {"head", rates.head}};
  }
  json["bandwidth_efficiency"] = kernels.bandwidth_efficiency;
  if (kernels.start.count() > 0) json["start"] = latency_text(kernels.start);
  json["floor"] = latency_text(kernels.floor);
  json["launch"] = latency_text(kernels.launch);
  return json;
}

Json device_json(const Device& d) {
  Json device{{"name", d.name}, {"memory", bytes_text(d.memory)}};
  const auto peak = [&device](const char* key, FlopsPerSecond rate) {
    if (rate.count() > 0) device[key] = std::round(rate.count() / 1e6) / 1e6;
  };
  peak("peak_fp32_tflops", d.peak_fp32);
  peak("peak_tf32_tflops", d.peak_tf32);
  peak("peak_bf16_tflops", d.peak_bf16);
  peak("peak_fp16_tflops", d.peak_fp16);
  peak("peak_fp8_tflops", d.peak_fp8);
  device["memory_bandwidth"] = rate_text(d.memory_bandwidth);
  if (d.multiprocessors > 0) device["multiprocessors"] = d.multiprocessors;
  if (d.kernels) device["kernels"] = kernels_json(*d.kernels);
  if (d.allocator == Allocator::pytorch) device["allocator"] = "pytorch";
  if (d.process_overhead.count() > 0) device["process_overhead"] = bytes_text(d.process_overhead);
  return device;
}

// Of nodes of one kind: a file, or a pool of one.
Json nodes_json(const Cluster& cluster) {
  Json json{
      {"schema", kClusterSchema}, {"name", cluster.name}, {"device", device_json(cluster.device)}};
  json["devices_per_node"] = cluster.devices_per_node;
  json["nodes"] = cluster.nodes;
  if (cluster.slowdown != 1) json["slowdown"] = cluster.slowdown;
  json["intra"] = link_json(cluster.intra);
  json["inter"] = link_json(cluster.inter);
  if (cluster.node_bandwidth.count() > 0)
    json["node_bandwidth"] = rate_text(cluster.node_bandwidth);
  if (!cluster.origin.empty() || cluster.origins.empty()) json["origin"] = cluster.origin;
  if (!cluster.origins.empty()) json["origins"] = to_json(cluster.origins);
  return json;
}

// `json`: the object's own.
Cluster nodes_of(JsonObject& top, const Json& json, const std::string& file) {
  top.expect_schema(kClusterSchema);
  Cluster cluster;
  cluster.name = top.text("name");
  cluster.device = device_of(top.object("device"));
  cluster.devices_per_node = static_cast<int>(top.integer("devices_per_node", 1, 4096));
  cluster.nodes = static_cast<int>(top.integer("nodes", 1, 100'000));
  if (top.has("slowdown")) {
    cluster.slowdown = top.number("slowdown", 0.01, 100);
    if (cluster.slowdown == 1) top.fail("slowdown", "expected other than 1 (left out where it is)");
  }
  cluster.intra = link_of(top.object("intra"));
  cluster.inter =
      cluster.nodes > 1 || top.has("inter") ? link_of(top.object("inter")) : cluster.intra;
  if (top.has("node_bandwidth")) {
    const auto rate = parse_rate(top.text("node_bandwidth"));
    if (!rate || rate->count() <= 0)
      top.fail("node_bandwidth", "expected a rate with its unit, as \"50 GB/s\"");
    cluster.node_bandwidth = *rate;
  }
  // Where constants come from: each by its key, or as files before 0.2 said it, in lines.
  if (top.has("origins")) cluster.origins = read_origins(top.object("origins"));
  if (top.has("origin")) cluster.origin = top.texts("origin");
  // A user's own file need not say so.
  if (!top.has("origin") && !top.has("origins")) cluster.origin = {"all: the user's"};
  top.finish();
  if (!cluster.origins.empty()) {
    check_origins(json, cluster.origins, file);
    // The one node's links stand for those to others too, from where they come.
    if (!json.contains("inter"))
      replace_origin(cluster.origins, "inter",
                     origin_of(cluster.origins, "intra.bandwidth")->source);
  }
  return cluster;
}

// `where`: the file, or the words that name the pools.
Cluster joined(std::string name, std::vector<Cluster> pools, const std::string& where) {
  constexpr std::size_t kMostKinds = 4;
  if (pools.size() < 2 || pools.size() > kMostKinds)
    throw InputError(where, "pools", "expected two to four kinds of nodes");
  std::vector<std::string> names;
  for (const Cluster& pool : pools) {
    const auto fail = [&](const std::string& reason) {
      throw InputError(where, "pools", fmt::format("{}: {}", pool.name, reason));
    };
    if (!pool.pools.empty()) fail("has pools itself; expected nodes of one kind");
    if (std::ranges::find(names, pool.name) != names.end()) fail("is there twice");
    if (pool.device.allocator != pools.front().device.allocator)
      fail("its devices get their memory from another allocator than the first pool's");
    names.push_back(pool.name);
  }
  // What stands before the pools is the first one's, for all that looks at one kind.
  Cluster all = pools.front();
  all.name = std::move(name);
  all.slowdown = 1;
  all.origin.clear();
  all.origins.clear();
  all.pools = std::move(pools);
  return all;
}

Cluster pools_of(JsonObject& top, const Json& json, const std::string& file) {
  top.expect_schema(kClusterSchema);
  const std::string name = top.text("name");
  std::vector<Cluster> pools;
  std::vector<JsonObject> objects = top.objects("pools");
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (!objects[i].has("inter")) objects[i].fail("inter", "is missing: what leads to other pools");
    pools.push_back(nodes_of(objects[i], json["pools"][i], file));
  }
  top.finish();
  return joined(name, std::move(pools), file);
}

}  // namespace

Cluster pooled(std::string name, std::vector<Cluster> pools) {
  const std::string where = name;
  return joined(std::move(name), std::move(pools), where);
}

void set_stack(Cluster& cluster, const Stack& stack) {
  cluster.stack = stack;
  for (Cluster& pool : cluster.pools) pool.stack = stack;
}

Link slower(const Link& a, const Link& b) {
  Link link = a.bandwidth < b.bandwidth ? a : b;
  link.latency = std::max(a.latency, b.latency);
  return link;
}

std::string to_json(const Cluster& cluster) {
  if (cluster.pools.empty()) return nodes_json(cluster).dump(2) + "\n";
  Json json{{"schema", kClusterSchema}, {"name", cluster.name}};
  for (const Cluster& pool : cluster.pools) json["pools"].push_back(nodes_json(pool));
  return json.dump(2) + "\n";
}

Cluster load_cluster(const std::filesystem::path& file) {
  return parse_cluster(read_text_file(file), file.string());
}

Cluster parse_cluster(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  return top.has("pools") ? pools_of(top, json, file) : nodes_of(top, json, file);
}

}  // namespace weir
