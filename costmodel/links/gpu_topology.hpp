// `nvidia-smi topo -m`: how the GPUs of a node are wired to each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/job/cluster.hpp"

namespace weir {

// From near to far; the names are nvidia-smi's.
enum class Wire : std::uint8_t { self, nvlink, pix, pxb, phb, node, sys };
[[nodiscard]] std::string_view to_string(Wire wire);

struct GpuWire {
  Wire wire = Wire::self;
  int nvlinks = 0;  // bonded links, where they are NVLinks
};

struct GpuTopology {
  std::vector<std::vector<GpuWire>> between;  // square, GPU by GPU

  [[nodiscard]] int gpus() const { return static_cast<int>(between.size()); }
  // The worst wire between neighbours in the order of ranks, which is what a pipeline's messages
  // pass.
  [[nodiscard]] GpuWire worst_neighbours() const;
};

// Columns by their names; escape sequences, NICs and the affinities are passed over. Throws
// InputError.
[[nodiscard]] GpuTopology read_gpu_topology(const std::string& text, const std::string& file);

// What the matrix says of a cluster: devices a node, and the rate of neighbours joined by NVLink
// (links times the rate of one, by the device's generation). Other wires have no rate of their own:
// then the link stays as it was. The returned line says which. Throws InputError for NVLinks of a
// device whose generation is not known.
[[nodiscard]] std::string apply_topology(const GpuTopology& topology, const std::string& file,
                                         Cluster& cluster);

}  // namespace weir
