// Layout files, "weir.layout/1": a program of einsums and the layouts to compare.
//
//   {"schema": "weir.layout/1", "name": "one-layer", "note": "free text, may be absent",
//    "dimensions": [{"name": "batch", "symbol": "b", "size": 512}, ...],
//    "tensors": ["x[batch, io]", ...],
//    "einsums": ["h = relu(x w)", "y = h v"],
//    "layouts": [{"name": "data", "mesh": [{"name": "all", "symbol": "n", "size": 2}],
//                 "rules": "batch:all"}, ...]}
//
// A symbol defaults to the name; tensors lie in memory in the order given, the last dimension
// fastest; einsums are the forward's, gradients are derived. Mesh dimensions have 2 processors at
// least and a mesh 2^20 at most; a tensor has at most 2^53 elements (so far counts are whole in
// double), an einsum 2^62 multiply-adds. Strict: what is not declared, not used, given twice or
// illegal is refused with its key. With "layers" in place of tensors and einsums the file has a
// network (plan/layout/network_json).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/layout/layout.hpp"
#include "plan/layout/network.hpp"
#include "plan/layout/program.hpp"

namespace weir::layout {

struct LayoutFile {
  std::string name;
  Program program;  // forward and backward
  std::vector<Layout> layouts;
  std::optional<Network> network;  // of a file that has "layers"; then the two above are empty
  std::vector<NetworkLayout> network_layouts;
};

// Throws InputError.
[[nodiscard]] LayoutFile load_layouts(const std::filesystem::path& file);
[[nodiscard]] LayoutFile parse_layouts(const std::string& text, const std::string& file);

// "batch:rows,hidden:cols" for a layout whose mesh is set; spaces are free. Throws
// std::invalid_argument, in words.
[[nodiscard]] std::vector<int> parse_rules(std::string_view rules, const Program& program,
                                           const Layout& layout);

// "d=4,m=2" as a mesh, outermost first; "" has none. Throws std::invalid_argument, in words.
[[nodiscard]] std::vector<MeshDimension> parse_mesh(std::string_view mesh);

}  // namespace weir::layout
