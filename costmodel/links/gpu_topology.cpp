// The matrix of `nvidia-smi topo -m`, and what its worst neighbouring pair says of a node's links.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/gpu_topology.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <sstream>

#include "plan/text/words_of.hpp"
#include "plan/words/error.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<Wire, 7> kWires{{{Wire::self, "X"},
                                 {Wire::nvlink, "NV"},  // and a number, in the matrix
                                 {Wire::pix, "PIX"},
                                 {Wire::pxb, "PXB"},
                                 {Wire::phb, "PHB"},
                                 {Wire::node, "NODE"},
                                 {Wire::sys, "SYS"}}};

// One NVLink, one direction: 20 GB/s in the first generation, 25 GB/s in the second to fourth, 50
// GB/s in the fifth (NVIDIA's whitepapers of P100, V100, A100, H100 and Blackwell).
struct Generation {
  std::string_view device;
  double bytes_per_second;
};
constexpr std::array<Generation, 8> kNvlinks{{{"P100", 20e9},
                                              {"V100", 25e9},
                                              {"A100", 25e9},
                                              {"H100", 25e9},
                                              {"H200", 25e9},
                                              {"B100", 50e9},
                                              {"B200", 50e9},
                                              {"B300", 50e9}}};

// Without terminal escapes: ESC [ ... letter.
std::string plain(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~');) ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "GPU12" -> 12
std::optional<std::size_t> gpu_number(const std::string& word) {
  if (!word.starts_with("GPU") || word.size() < 4 || word.size() > 7) return std::nullopt;
  if (word.find_first_not_of("0123456789", 3) != std::string::npos) return std::nullopt;
  return static_cast<std::size_t>(std::stoi(word.substr(3)));
}

GpuWire wire_of(const std::string& word, const std::string& file, const std::string& where) {
  if (word.starts_with("NV") && word.size() > 2 && word.size() < 5 &&
      word.find_first_not_of("0123456789", 2) == std::string::npos) {
    return {Wire::nvlink, std::stoi(word.substr(2))};
  }
  if (const auto wire = named(kWires, word); wire && wire != Wire::nvlink) return {*wire, 0};
  throw InputError(
      file, where,
      fmt::format("\"{}\": expected X, NV and a number, PIX, PXB, PHB, NODE or SYS", word));
}

}  // namespace

std::string_view to_string(Wire wire) { return name_of(kWires, wire); }

GpuWire GpuTopology::worst_neighbours() const {
  GpuWire worst;
  for (std::size_t g = 0; g + 1 < between.size(); ++g) {
    const GpuWire wire = between[g][g + 1];
    // Wires are declared from best to worst; of two NVLink pairs the one with fewer links is worse.
    if (wire.wire > worst.wire || (wire.wire == worst.wire && wire.nvlinks < worst.nvlinks))
      worst = wire;
  }
  return worst;
}

GpuTopology read_gpu_topology(const std::string& text, const std::string& file) {
  std::istringstream in(plain(text));
  GpuTopology topology;
  std::vector<std::size_t> columns;  // of the matrix that are GPUs
  for (std::string line; std::getline(in, line);) {
    const auto words = words_of(line);
    // Legend, network cards and blank lines do not begin with a GPU. The first line that does is
    // the header: its GPUs are columns 0, 1, ... of the matrix, whatever stands between them.
    if (words.empty() || !gpu_number(words.front())) continue;
    if (columns.empty()) {
      for (std::size_t c = 0; c < words.size(); ++c) {
        const auto number = gpu_number(words[c]);
        if (number && *number == columns.size()) columns.push_back(c);
      }
      continue;
    }
    const std::string& where = words.front();
    if (*gpu_number(where) != topology.between.size())
      throw InputError(file, where, "rows are out of order");
    if (words.size() < columns.back() + 2)
      throw InputError(file, where, "has fewer columns than the header");
    std::vector<GpuWire>& row = topology.between.emplace_back();
    // A row has its own name in front, the header has none: one word further.
    for (const std::size_t c : columns) row.push_back(wire_of(words[c + 1], file, where));
  }
  if (columns.empty()) throw InputError(file, "", "holds no matrix of nvidia-smi topo -m");
  if (topology.between.size() != columns.size()) {
    throw InputError(file, "",
                     fmt::format("{} rows for {} GPUs", topology.between.size(), columns.size()));
  }
  for (std::size_t a = 0; a < columns.size(); ++a) {
    for (std::size_t b = 0; b < columns.size(); ++b) {
      if ((topology.between[a][b].wire == Wire::self) != (a == b)) {
        throw InputError(file, fmt::format("GPU{}", a), "expected X just where a GPU meets itself");
      }
    }
  }
  return topology;
}

std::string apply_topology(const GpuTopology& topology, const std::string& file, Cluster& cluster) {
  cluster.devices_per_node = topology.gpus();
  const GpuWire worst = topology.worst_neighbours();
  if (topology.gpus() < 2) return fmt::format("{}: one GPU a node, no link", file);
  if (worst.wire != Wire::nvlink) {
    return fmt::format(
        "{}: neighbours meet over {}, which has no rate of its own: intra stays as it was; "
        "nccl-tests measure it",
        file, to_string(worst.wire));
  }
  for (const Generation& generation : kNvlinks) {
    if (cluster.device.name.find(generation.device) == std::string::npos) continue;
    cluster.intra.bandwidth =
        BytesPerSecond(generation.bytes_per_second * worst.nvlinks * cluster.intra.efficiency);
    // Ranges of sizes that were measured on other wires say nothing of these.
    cluster.intra.regimes.clear();
    return fmt::format(
        "intra.bandwidth: {} NVLinks between neighbours ({}), {:g} GB/s each and direction",
        worst.nvlinks, file, generation.bytes_per_second / 1e9);
  }
  throw InputError("cluster", "device.name",
                   fmt::format("{}: the rate of its NVLinks is not known", cluster.device.name));
}

}  // namespace weir
