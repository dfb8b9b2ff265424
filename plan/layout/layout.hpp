// A layout maps some tensor dimensions onto the dimensions of a mesh of processors
// (Mesh-TensorFlow, Shazeer et al., NeurIPS 2018). A tensor dimension on a mesh dimension is split
// over it, evenly; a tensor is replicated over the mesh dimensions that none of its own is on.
// Every processor runs each einsum on its blocks; where a summed dimension is split, the partial
// results are all-reduced over the mesh dimension it is split on. Nothing else is ever exchanged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/layout/polynomial.hpp"
#include "plan/layout/program.hpp"

namespace weir::layout {

struct MeshDimension {
  std::string name;
  std::string symbol;  // in formulas
  std::int64_t size = 1;
};

struct Layout {
  std::string name;
  std::vector<MeshDimension>
      mesh;  // processors are numbered row-major: the last mesh dimension varies fastest
  std::vector<int>
      split_over;  // by the program's dimension: the mesh dimension it is on, -1 for none
};

// Why a layout cannot be, naming tensor and dimension: two dimensions of one tensor (or of one
// einsum) on one mesh dimension, or a size that its mesh dimension does not divide. Nothing where
// it is legal.
[[nodiscard]] std::optional<std::string> illegal(const Program& program, const Layout& layout);

[[nodiscard]] std::int64_t processors(const Layout& layout);
// A processor's position along each mesh dimension.
[[nodiscard]] std::vector<std::int64_t> coordinates(const Layout& layout, std::int64_t processor);

// The mesh dimensions an einsum's partial results are all-reduced over, ascending: those its summed
// dimensions are on.
[[nodiscard]] std::vector<int> reduced_mesh_dimensions(const Program& program, const Layout& layout,
                                                       const Einsum& einsum);

// Of a processor's block, by the tensor's dimensions.
[[nodiscard]] std::vector<std::int64_t> local_shape(const Program& program, const Layout& layout,
                                                    const NamedTensor& tensor);

// Formulas are over the program's dimensions, then the mesh's.
[[nodiscard]] Symbols symbols(const Program& program, const Layout& layout);
[[nodiscard]] Powers local_size(const Program& program, const Layout& layout,
                                const std::vector<int>& dimensions);

// "batch:rows, hidden:cols", "none"; "rows=2, cols=1".
[[nodiscard]] std::string rules_text(const Program& program, const Layout& layout);
[[nodiscard]] std::string mesh_text(const Layout& layout);

}  // namespace weir::layout
