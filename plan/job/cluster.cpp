// Reads and writes weir.cluster/1, key by key.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/format/keys.hpp"
#include "plan/job/formats.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace format {
namespace {

// What is slower than these trains nothing: a step would be longer than times can be.
constexpr double kLeastShare = 1e-3;
constexpr double kLeastPeakTflops = 1e-3;
constexpr Range kShare{kLeastShare, 1}, kShareOfPeak{kLeastShare, 2}, kWork{0, 1e5};
constexpr Range kRate{.low = 1e3};  // bytes/s
constexpr Range kWait{0, 3600};     // s
constexpr const char* kLatency = "expected a duration with its unit, as \"5 us\"";

constexpr Key<SwitchReduction> kReduction[] = {
    key<&SwitchReduction::members>("members", "devices | always | the fewest it is used for",
                                   {2, 4096}),
    key<&SwitchReduction::latency, WithUnit>("latency", "s | always |", kWait).expect(kLatency),
    key<&SwitchReduction::bandwidth, WithUnit>(
        "bandwidth", "bytes/s | always | as nccl-tests counts it (busbw)", kRate),
};
constexpr Key<LinkRegime> kMessages[] = {
    key<&LinkRegime::up_to, WithUnit>("up_to", "bytes | always | the largest message it holds for"),
    key<&LinkRegime::latency, WithUnit>("latency", "s | always |", kWait).expect(kLatency),
    key<&LinkRegime::bandwidth, RateOrNone>(
        "bandwidth", "bytes/s | always | `unlimited`: the time does not grow with the size", kRate),
};
constexpr auto kLarger = [](JsonObject& regime, const std::vector<LinkRegime>& before) {
  const auto up_to = parse_bytes(regime.text("up_to"));
  if (up_to && !before.empty() && *up_to <= before.back().up_to)
    regime.fail("up_to", "expected ascending sizes");
};
constexpr Key<Link> kConnection[] = {
    key<&Link::latency, WithUnit>("latency", "s | always |", kWait).expect(kLatency),
    key<&Link::bandwidth, WithUnit>(
        "bandwidth",
        "bytes/s | always | one direction; what collectives reach, and messages larger than all "
        "`regimes`",
        kRate),
    maybe<&Link::efficiency, Portion>(
        "efficiency",
        "share | may be left out: 1 | of `bandwidth` that large messages and rings reach", kShare),
    maybe<&Link::tree, WithUnit>(
        "tree",
        "s | between nodes, where it was measured | of a level of NCCL's trees, which are then "
        "taken where they are faster than rings",
        kWait),
    maybe<&Link::switch_reduction, Object<kReduction>>(
        "switch_reduction", "| where the switch adds up all-reduces | NVLink SHARP"),
    maybe<&Link::regimes, Objects<kMessages, kUnchecked, kLarger>>(
        "regimes",
        "| where messages were measured apart | ascending; collectives do not take them"),
};
// The file has the wire's rate, of which a link has what large messages reach.
struct OfWire {
  static constexpr const char* kType = "object";
  static void read(const Spec& key, JsonObject& object, Link& link) {
    Object<kConnection>::read(key, object, link);
    link.bandwidth = link.bandwidth * link.efficiency;
  }
  static Json write(const Spec&, Link link) {
    link.bandwidth = BytesPerSecond(link.bandwidth.count() / link.efficiency);
    return written(link, kConnection);
  }
};

constexpr Key<ProductRates> kProducts[] = {
    key<&ProductRates::efficiency, Portion>(
        "matrix_efficiency",
        "share of the peak | always | of products, all multiprocessors at work", kShare),
    maybe<&ProductRates::half_tile, Portion>(
        "half_tile_efficiency",
        "share of `matrix_efficiency` | may be left out: there are none | with tiles of half the "
        "columns",
        kShareOfPeak),
    or_null<&ProductRates::exposed_output>(
        "exposed_output",
        "share | may be left out: 0 | of the time to write a product, what its own work does not "
        "hide",
        {0, 4}),
    maybe<&ProductRates::unaligned, Portion>(
        "unaligned_efficiency",
        "share of `matrix_efficiency` | may be left out: 1 | of heads whose rows do not fill words "
        "of 16 bytes",
        kShare),
};
constexpr Key<AttentionRates> kAttention[] = {
    key<&AttentionRates::forward, Portion>("forward", "share of the peak | always |", kShareOfPeak),
    key<&AttentionRates::backward, Portion>("backward", "share of the peak | always |",
                                            kShareOfPeak),
    key<&AttentionRates::keys>("keys", "keys | always | what a tile of rows takes to start and end",
                               kWork),
    key<&AttentionRates::head>("head", "numbers | always | what the softmax takes", kWork),
};
struct ByLibrary {
  static constexpr const char* kType = "object";
  using Rates = std::map<AttentionLibrary, AttentionRates>;
  static void read(const Spec& key, JsonObject& object, Rates& rates) {
    JsonObject libraries = object.object(key.name);
    for (const auto& [library, name] : kAttentionLibraryNames) {
      if (libraries.has(name)) Object<kAttention>::read({name.data()}, libraries, rates[library]);
    }
    libraries.finish();
  }
  static Json write(const Spec&, const Rates& all) {
    Json json;
    for (const auto& [library, rates] : all)
      json[std::string(name_of(kAttentionLibraryNames, library))] = written(rates, kAttention);
    return json;
  }
  static void describe(const std::string& path, Rows& rows) {
    rows.push_back({path + ".*", "object",
                    "| | rates over d numbers a head and n keys a row sees: efficiency x d / (d + "
                    "`head`) x n / (n + `keys`)"});
    format::describe(kAttention, path + ".*.", rows);
  }
};
constexpr Key<KernelModel> kKernels[] = {
    key<kWhole, Pair<&KernelModel::tile_rows, &KernelModel::tile_columns>>(
        "tile", "rows and columns of a product that a multiprocessor computes at a time", {1, 4096})
        .expect("expected rows and columns, as [128, 256]"),
    inlined<&KernelModel::products, kProducts>,
    maybe<&KernelModel::fp8, Object<kProducts>>(
        "fp8", "| may be left out: as the others | the rates above of products of 8-bit factors"),
    maybe<&KernelModel::attention, ByLibrary>(
        "attention",
        "| may be left out: as products | fused attention by library: `flash1`, `flash2`, "
        "`flash3`, `cudnn`"),
    key<&KernelModel::bandwidth_efficiency, Portion>(
        "bandwidth_efficiency", "share | always | of the memory's bandwidth", kShare),
    maybe<&KernelModel::start, WithUnit>(
        "start", "s | may be left out: 0 | of a kernel that streams, before its bytes flow", kWait),
    key<&KernelModel::floor, WithUnit>("floor", "s | always | the shortest kernel", kWait),
    key<&KernelModel::launch, WithUnit>("launch", "s | always | host time to launch one kernel",
                                        kWait),
};

struct Tflops {
  static constexpr const char* kType = "number";
  static void read(const Spec& key, JsonObject& object, FlopsPerSecond& rate) {
    const double tflops = object.number(key.name);
    // 0: the device has no such unit.
    if (tflops > 0 && tflops < kLeastPeakTflops)
      object.fail(key.name, fmt::format("expected a number of at least {}", kLeastPeakTflops));
    rate = FlopsPerSecond(tflops * 1e12);
  }
  static Json write(const Spec&, FlopsPerSecond rate) {
    return std::round(rate.count() / 1e6) / 1e6;
  }
};
constexpr const char* kPeak = "TFLOP/s | where the device has such a unit | dense peak";
constexpr Names<Allocator, 2> kAllocators{
    {{Allocator::arena, "arena"}, {Allocator::pytorch, "pytorch"}}};
constexpr Key<Device> kDevice[] = {
    key<&Device::name>("name"),
    key<&Device::memory, WithUnit>("memory", "bytes | always | what one rank may use"),
    or_null<&Device::peak_fp32, Tflops>("peak_fp32_tflops", kPeak),
    or_null<&Device::peak_tf32, Tflops>("peak_tf32_tflops", kPeak),
    or_null<&Device::peak_bf16, Tflops>("peak_bf16_tflops", kPeak),
    or_null<&Device::peak_fp16, Tflops>("peak_fp16_tflops",
                                        "TFLOP/s | where it is not that of bf16 | dense peak"),
    or_null<&Device::peak_fp8, Tflops>(
        "peak_fp8_tflops",
        "TFLOP/s | where the device has such a unit | dense peak of products of 8-bit factors"),
    maybe<&Device::fp8_any_layout>(
        "fp8_any_layout",
        "| may be left out: false | those units take factors by rows and by columns alike, so that "
        "a tensor whose scale is one needs one copy in 8 bits, not two"),
    key<&Device::memory_bandwidth, WithUnit>("memory_bandwidth", "bytes/s | always |", kRate)
        .expect("expected a rate, as \"3.35 TB/s\""),
    or_null<&Device::multiprocessors>("multiprocessors",
                                      "| GPUs | for waves of tiles ([theory.md](theory.md) 5.3)",
                                      {0, 100'000}),
    maybe<&Device::kernels, Object<kKernels>>(
        "kernels", "| where built-in costs go kernel by kernel; needs `multiprocessors` |"),
    maybe<&Device::allocator, Named<kAllocators>>(
        "allocator",
        "| may be left out: `arena` | `arena` or `pytorch`: in what steps memory is handed out")
        .expect("expected arena or pytorch"),
    maybe<&Device::process_overhead, WithUnit>(
        "process_overhead",
        "bytes | may be left out: 0 | taken on the device before the first tensor"),
};
constexpr auto kHasMultiprocessors = [](JsonObject& object, const Device& device) {
  if (device.kernels && device.multiprocessors == 0)
    object.fail("kernels", "needs multiprocessors beside it");
};

constexpr Key<Host> kHost[] = {
    key<&Host::link, OfWire>("link",
                             "| always | of one device to the host's memory and back, each "
                             "direction")
        .in("cluster link"),
    key<&Host::memory, WithUnit>("memory", "bytes | always | of a node"),
    key<&Host::bandwidth, WithUnit>(
        "bandwidth",
        "bytes/s | always | that one device's process reaches when it updates weights there, its "
        "neighbours beside it",
        kRate)
        .expect("expected a rate with its unit, as \"20 GB/s\""),
};

// Nodes of one kind: a file, or a pool of one.
constexpr Key<Cluster> kNodes[] = {
    key<kWhole, Schema>("schema").expect("weir.cluster/1"),
    key<&Cluster::name>("name"),
    key<&Cluster::device, Object<kDevice, kHasMultiprocessors>>("device", "| without `pools` |"),
    key<&Cluster::devices_per_node>("devices_per_node", "| without `pools` |", {1, 4096}),
    key<&Cluster::nodes>("nodes", "| without `pools` |", {1, Cluster::kMostNodes}),
    maybe<&Cluster::slowdown>(
        "slowdown",
        "ratio | where it is not 1 | how many times longer its devices compute than these "
        "constants say: nodes of another speed",
        {0.01, 100})
        .refuse("expected other than 1 (left out where it is)"),
    key<&Cluster::intra, OfWire>("intra",
                                 "| without `pools` | between two devices of a node, one direction")
        .in("cluster link"),
    maybe<&Cluster::inter, OfWire>(
        "inter", "| where there are several nodes | between nodes, a device's share")
        .kept()
        .in("cluster link"),
    maybe<&Cluster::node_bandwidth, WithUnit>(
        "node_bandwidth",
        "bytes/s | where a node's cards limit all its ranks together | each direction", kRate)
        .expect("expected a rate with its unit, as \"50 GB/s\""),
    maybe<&Cluster::host, Object<kHost>>(
        "host", "| where a plan keeps the optimizer's state in the host's memory |"),
    maybe<&Cluster::price_per_gpu_hour, Word<parse_price>>(
        "price_per_gpu_hour",
        "money | may be left out: no money is printed | of one device, whatever its kind; the "
        "currency by its three letters. It needs no origin")
        .expect("expected an amount with its currency, as \"2.50 USD\""),
    // Where constants come from: each by its key, or as files before 0.2 said it, in lines.
    maybe<&Cluster::origin>(
        "origin",
        "| may be left out | where constants come from; a file without it and without `origins` is "
        "its user's, which is what is then said"),
    maybe<&Cluster::origins, ByPath>(
        "origins",
        "| may be left out where there is `origin` | by the constant's path "
        "(`device.kernels.floor`) or that of an object around it; then every constant has one"),
};
constexpr auto kSettled = [](JsonObject& top, Cluster& cluster) {
  if (!top.has("inter")) {
    if (cluster.nodes > 1) static_cast<void>(top.at("inter"));  // is missing
    cluster.inter = cluster.intra;
  }
  // A user's own file need not say so.
  if (!top.has("origin") && !top.has("origins")) cluster.origin = {"all: the user's"};
};

Json nodes_json(const Cluster& cluster) {
  Json json = written(cluster, kNodes);
  // Left out, it would be read as the user's own.
  if (cluster.origin.empty() && cluster.origins.empty()) json["origin"] = Json::array();
  return json;
}
struct Pools {
  static constexpr const char* kType = "list";
  static void read(const Spec& key, JsonObject& object, std::vector<Cluster>& pools) {
    for (JsonObject& pool : object.objects(key.name)) {
      if (!pool.has("inter")) pool.fail("inter", "is missing: what leads to other pools");
      pools.push_back(format::read(pool, kNodes, kSettled));
    }
  }
  static Json write(const Spec&, const std::vector<Cluster>& pools) {
    Json json;
    for (const Cluster& pool : pools) json.push_back(nodes_json(pool));
    return json;
  }
};
constexpr Key<Cluster> kPools[] = {
    key<kWhole, Schema>("schema").expect("weir.cluster/1"),
    key<&Cluster::name>("name"),
    key<&Cluster::pools, Pools>(
        "pools",
        "| where nodes are of two to four kinds; then no key below stands here | each has a name "
        "of its own and says `inter`, which leads to the others too; all devices have the same "
        "`allocator`. Ranks fill nodes in the order of the pools, or as a plan's `placement` says")
        .in("weir.cluster/1"),
};

}  // namespace
}  // namespace format

namespace {

// `json`: the object that the nodes were read from.
void hold_to_origins(Cluster& nodes, const Json& json, const std::string& file) {
  if (nodes.origins.empty()) return;
  check_origins(json, nodes.origins, file);
  // The one node's links stand for those to others too, from where they come.
  if (!json.contains("inter"))
    replace_origin(nodes.origins, "inter", origin_of(nodes.origins, "intra.bandwidth")->source);
}

// `where`: the file, or the words that name the pools.
Cluster joined(std::string name, std::vector<Cluster> pools, const std::string& where) {
  constexpr std::size_t kMostKinds = 4;
  if (pools.size() < 2 || pools.size() > kMostKinds)
    throw InputError(where, "pools", "expected two to four kinds of nodes");
  std::vector<std::string> names;
  std::string currency;  // of the first pool that has a price
  for (const Cluster& pool : pools) {
    const auto fail = [&](const std::string& reason) {
      throw InputError(where, "pools", fmt::format("{}: {}", pool.name, reason));
    };
    if (!pool.pools.empty()) fail("has pools itself; expected nodes of one kind");
    if (std::ranges::find(names, pool.name) != names.end()) fail("is there twice");
    if (pool.device.allocator != pools.front().device.allocator)
      fail("its devices get their memory from another allocator than the first pool's");
    if (const auto& price = pool.price_per_gpu_hour) {
      if (currency.empty()) currency = price->currency;
      // Their sum would be no amount of either.
      if (price->currency != currency)
        fail(fmt::format("its price is in {}, another pool's in {}", price->currency, currency));
    }
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
  // A message is as fast as the narrower of both, and meets the longer latency on its way.
  Link link = a.bandwidth < b.bandwidth ? a : b;
  link.latency = std::max(a.latency, b.latency);
  return link;
}

std::string to_json(const Cluster& cluster) {
  const Json json = cluster.pools.empty() ? format::nodes_json(cluster)
                                          : format::written(cluster, format::kPools);
  return json.dump(2) + "\n";
}

Cluster load_cluster(const std::filesystem::path& file) {
  return parse_cluster(read_text_file(file), file.string());
}

Cluster parse_cluster(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  if (!top.has("pools")) {
    Cluster nodes = format::read(top, format::kNodes, format::kSettled);
    hold_to_origins(nodes, json, file);
    return nodes;
  }
  Cluster all = format::read(top, format::kPools);
  for (std::size_t i = 0; i < all.pools.size(); ++i)
    hold_to_origins(all.pools[i], json["pools"][i], file);
  return joined(all.name, std::move(all.pools), file);
}

std::vector<format::Section> cluster_sections() {
  format::Section cluster = format::described("weir.cluster/1", format::kPools);
  // Schema and name are those of nodes, too.
  const format::Section nodes = format::described("", format::kNodes);
  cluster.rows.insert(cluster.rows.end(), nodes.rows.begin() + 2, nodes.rows.end());
  return {cluster, format::described("cluster link", format::kConnection)};
}

}  // namespace weir
