// The devices to train on: how many, what each can do by its datasheet, and what connects them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/job/origins.hpp"
#include "plan/job/stack.hpp"
#include "plan/words/attention_library.hpp"
#include "plan/words/price.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Who hands out a device's memory, and so in what steps: our own arena, or PyTorch's caching
// allocator.
enum class Allocator : std::uint8_t { arena, pytorch };

// How well products use the matrix units (costmodel/layers/kernel_rates).
struct ProductRates {
  double efficiency = 0;      // of the peak, at any depth, while all multiprocessors are at work
  double half_tile = 0;       // of `efficiency`, with tiles of half the area; 0: there are none
  double exposed_output = 0;  // of the time that writing the product takes: not hidden behind it
  double unaligned = 1;       // of `efficiency`, of heads whose rows do not fill words of 16 bytes
};

// Of fused attention at head size d over n keys that a row sees: efficiency x d / (d + head) x
// n / (n + keys) of the peak.
struct AttentionRates {
  double forward = 0, backward = 0;  // efficiency
  double keys = 0;                   // keys whose time a tile of rows takes to start and to end
  double head = 0;                   // the softmax's time, as numbers of head size
};

// How well kernels use a GPU's rates, for built-in costs. From the cluster file, with its origin.
struct KernelModel {
  int tile_rows = 0,
      tile_columns = 0;  // of a product's output that one multiprocessor computes at a time
  ProductRates products;
  std::optional<ProductRates> fp8;  // none: as the others
  std::map<AttentionLibrary, AttentionRates> attention;
  double bandwidth_efficiency = 0;  // of the memory's
  Seconds start{0};                 // of a kernel that streams, before its bytes flow
  Seconds floor{0};                 // shortest kernel on the device
  Seconds launch{0};                // host time to launch one
};

struct Device {
  std::string name;             // "H100-SXM5-80GB", "cpu-core"
  Bytes memory{0};              // usable by one rank
  FlopsPerSecond peak_fp32{0};  // 0: the device has no such unit
  FlopsPerSecond peak_tf32{0};
  FlopsPerSecond peak_bf16{0};
  FlopsPerSecond peak_fp16{0};  // where it is not that of bf16
  FlopsPerSecond peak_fp8{0};   // of products whose factors are rounded to 8 bits
  bool fp8_any_layout = false;  // their units take factors by rows and by columns alike
  BytesPerSecond memory_bandwidth{0};
  int multiprocessors = 0;  // GPUs: for wave quantisation; 0: not applicable
  Allocator allocator = Allocator::arena;
  std::optional<KernelModel> kernels;
  Bytes process_overhead{0};  // device memory that a process takes before its first tensor
};

// A message of S bytes takes latency + S / bandwidth.
struct LinkRegime {
  Bytes up_to{0};  // the largest message it holds for
  Seconds latency{0};
  BytesPerSecond bandwidth{0};  // 0: the time does not grow with the size
};

// All-reduces that a node's switch adds up itself (NVLink SHARP): latency + 2 (p - 1) / p n /
// bandwidth among p devices, which may exceed the link's own rate.
struct SwitchReduction {
  int members = 0;  // the fewest it is used for
  Seconds latency{0};
  BytesPerSecond bandwidth{0};
};

// Of a group that has several members in each of several nodes: what it finds within a node, and
// what each member has to the others.
struct NodeLevel {
  int members = 0;  // in a node
  Seconds latency{0};
  BytesPerSecond bandwidth{0};
  Seconds across_latency{0};
  BytesPerSecond across_bandwidth{0};
  Seconds across_tree{0};  // Link::tree of what crosses
};

struct Link {
  Seconds latency{0};
  BytesPerSecond bandwidth{0};      // one direction, what large messages reach
  std::vector<LinkRegime> regimes;  // of smaller messages, where they were measured; ascending
  double efficiency = 1;            // `bandwidth` as a share of the wire's rate
  Seconds tree{
      0};  // between nodes: of a level of NCCL's trees; 0: not measured, no trees are taken
  std::optional<SwitchReduction> switch_reduction;
  std::optional<NodeLevel> node;  // of a group's link (costmodel/links/parallel); not in the file

  // Latency and bandwidth for messages of this size.
  [[nodiscard]] LinkRegime at(Bytes size) const {
    for (const LinkRegime& regime : regimes) {
      if (size <= regime.up_to) return regime;
    }
    return {size, latency, bandwidth};
  }
};

// The host of a node, for what is kept and updated there.
struct Host {
  Link link;                    // of one device to it and back, one direction
  Bytes memory{0};              // of a node
  BytesPerSecond bandwidth{0};  // of that memory, all of a node's processors together
};

// Nodes of equal devices: `intra` between two devices of a node, `inter` between nodes. Ranks fill
// nodes in order. Or pools of such nodes, each a cluster of one kind; the fields before `pools` are
// then those of the first.
struct Cluster {
  // Of a kind: the devices of four kinds, 4096 a node, are still an int.
  static constexpr int kMostNodes = (1 << 17) - 1;

  std::string name;
  Device device;
  int devices_per_node = 1;
  int nodes = 1;
  Link intra;
  Link inter;
  BytesPerSecond node_bandwidth{
      0};  // all ranks of a node together, to other nodes, each direction; 0: no such limit
  std::optional<Host> host;  // none: nothing is known of it
  double slowdown = 1;       // how many times longer its devices compute than these constants say
  std::optional<Price> price_per_gpu_hour;  // what one of its devices costs; none: nobody said
  std::vector<Cluster> pools;  // of several kinds of nodes: two or more, none with pools of its own
  std::map<std::int32_t, double>
      stragglers;                   // rank -> how many times slower it computes; not in the file
  Stack stack;                      // the software on it; a file of its own
  std::vector<std::string> origin;  // where constants come from, one line each
  Origins origins;                  // the same by constant; empty: lines alone say it

  [[nodiscard]] int devices() const {
    if (pools.empty()) return devices_per_node * nodes;
    int all = 0;
    for (const Cluster& pool : pools) all += pool.devices();
    return all;
  }
  [[nodiscard]] int kinds() const { return pools.empty() ? 1 : static_cast<int>(pools.size()); }
  // Its nodes of one kind alone.
  [[nodiscard]] const Cluster& kind(int index) const {
    return pools.empty() ? *this : pools[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] Bytes largest_memory() const {
    Bytes largest = device.memory;
    for (const Cluster& pool : pools) largest = std::max(largest, pool.device.memory);
    return largest;
  }
  // Between devices of one kind.
  [[nodiscard]] const Link& link(Rank from, Rank to) const {
    return from.value / devices_per_node == to.value / devices_per_node ? intra : inter;
  }
};

// Pools as one cluster. Throws InputError, of `name`, where two have one name, where a pool has
// pools, where devices get their memory from different allocators, or where prices are in several
// currencies.
[[nodiscard]] Cluster pooled(std::string name, std::vector<Cluster> pools);
// The software on all of its nodes.
void set_stack(Cluster& cluster, const Stack& stack);
// What carries messages between nodes of two pools: each is held to its own adapters.
[[nodiscard]] Link slower(const Link& a, const Link& b);

// Schema weir.cluster/1; quantities are texts with units ("80 GiB", "900 GB/s", "5 us"). Throws
// InputError.
[[nodiscard]] Cluster load_cluster(const std::filesystem::path& file);
[[nodiscard]] Cluster parse_cluster(const std::string& text, const std::string& file);

// The file's text, quantities to six digits.
[[nodiscard]] std::string to_json(const Cluster& cluster);

}  // namespace weir
