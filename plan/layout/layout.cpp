// Legality, shares and groups of a layout, all from one table: the mesh dimension each dimension is
// on.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "plan/words/indexed.hpp"

namespace weir::layout {
namespace {

// Two of these dimensions on one mesh dimension, said in words.
std::optional<std::string> clash(const Program& program, const Layout& layout,
                                 const std::vector<int>& dimensions) {
  std::vector<int> taken_by(layout.mesh.size(), -1);
  for (const int d : dimensions) {
    const int on = layout.split_over[d];
    if (on < 0) continue;
    if (taken_by[on] >= 0) {
      return fmt::format("dimensions {} and {} are both on mesh dimension {}",
                         program.dimensions[taken_by[on]].name, program.dimensions[d].name,
                         layout.mesh[on].name);
    }
    taken_by[on] = d;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> illegal(const Program& program, const Layout& layout) {
  for (const NamedTensor& tensor : program.tensors) {
    if (const auto why = clash(program, layout, tensor.dimensions)) {
      return fmt::format("tensor {}: {}", to_text(program, tensor), *why);
    }
    for (const int d : tensor.dimensions) {
      const int on = layout.split_over[d];
      const Dimension& dimension = program.dimensions[d];
      if (on >= 0 && dimension.size % layout.mesh[on].size != 0) {
        return fmt::format(
            "tensor {}: dimension {} of size {} does not divide by the {} of mesh dimension {}",
            to_text(program, tensor), dimension.name, dimension.size, layout.mesh[on].size,
            layout.mesh[on].name);
      }
    }
  }
  // Three inputs can meet in an einsum without any two of their dimensions ever sharing a tensor; a
  // processor would then see only the blocks on the diagonal.
  for (const Einsum& einsum : program.einsums) {
    if (const auto why = clash(program, layout, all_dimensions(program, einsum))) {
      return fmt::format("einsum {}: {}", to_text(program, einsum), *why);
    }
  }
  return std::nullopt;
}

std::int64_t processors(const Layout& layout) {
  std::int64_t count = 1;
  for (const MeshDimension& dimension : layout.mesh) count *= dimension.size;
  return count;
}

std::vector<std::int64_t> coordinates(const Layout& layout, std::int64_t processor) {
  std::vector<std::int64_t> position(layout.mesh.size());
  for (std::size_t m = layout.mesh.size(); m-- > 0;) {  // row-major: the last varies fastest
    position[m] = processor % layout.mesh[m].size;
    processor /= layout.mesh[m].size;
  }
  return position;
}

std::vector<int> reduced_mesh_dimensions(const Program& program, const Layout& layout,
                                         const Einsum& einsum) {
  std::set<int> reduced;
  for (const int d : reduced_dimensions(program, einsum)) {
    if (layout.split_over[d] >= 0) reduced.insert(layout.split_over[d]);
  }
  return {reduced.begin(), reduced.end()};
}

std::vector<std::int64_t> local_shape(const Program& program, const Layout& layout,
                                      const NamedTensor& tensor) {
  std::vector<std::int64_t> shape;
  for (const int d : tensor.dimensions) {
    const int on = layout.split_over[d];
    shape.push_back(program.dimensions[d].size / (on < 0 ? 1 : layout.mesh[on].size));
  }
  return shape;
}

Symbols symbols(const Program& program, const Layout& layout) {
  Symbols all;
  for (const Dimension& dimension : program.dimensions) {
    all.names.push_back(dimension.symbol);
    all.values.push_back(dimension.size);
  }
  for (const MeshDimension& dimension : layout.mesh) {
    all.names.push_back(dimension.symbol);
    all.values.push_back(dimension.size);
  }
  return all;
}

Powers local_size(const Program& program, const Layout& layout,
                  const std::vector<int>& dimensions) {
  Powers powers(program.dimensions.size() + layout.mesh.size(), 0);
  for (const int d : dimensions) {
    ++powers[d];
    // A split dimension is divided by the size of its mesh dimension.
    if (layout.split_over[d] >= 0) --powers[program.dimensions.size() + layout.split_over[d]];
  }
  return powers;
}

std::string rules_text(const Program& program, const Layout& layout) {
  std::vector<std::string> rules;
  for (std::size_t d = 0; d < program.dimensions.size(); ++d) {
    if (layout.split_over[d] < 0) continue;
    rules.push_back(
        fmt::format("{}:{}", program.dimensions[d].name, layout.mesh[layout.split_over[d]].name));
  }
  return rules.empty() ? "none" : fmt::format("{}", fmt::join(rules, ", "));
}

std::string mesh_text(const Layout& layout) {
  std::vector<std::string> sizes;
  for (const MeshDimension& dimension : layout.mesh) {
    sizes.push_back(fmt::format("{}={}", dimension.name, dimension.size));
  }
  return fmt::format("{}", fmt::join(sizes, ", "));
}

}  // namespace weir::layout
