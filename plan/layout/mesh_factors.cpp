// One factor after the other.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/mesh_factors.hpp"

#include <algorithm>

namespace weir::layout {
namespace {

void append_factors(std::int64_t left, std::size_t count, std::vector<std::int64_t>& so_far,
                    std::vector<std::vector<std::int64_t>>& all) {
  if (so_far.size() == count) {
    if (left == 1) all.push_back(so_far);
    return;
  }
  // The last takes what is left.
  for (std::int64_t factor = so_far.size() + 1 == count ? left : 1; factor <= left; ++factor) {
    if (left % factor != 0) continue;
    so_far.push_back(factor);
    append_factors(left / factor, count, so_far, all);
    so_far.pop_back();
  }
}

}  // namespace

std::vector<std::vector<std::int64_t>> ordered_factors(std::int64_t product, std::size_t count) {
  std::vector<std::vector<std::int64_t>> all;
  std::vector<std::int64_t> so_far;
  append_factors(product, count, so_far, all);
  return all;
}

NetworkLayout on_mesh(const NetworkLayout& layout, const std::vector<MeshDimension>& mesh) {
  NetworkLayout made{layout.name, {}, std::vector<Axes>(layout.over.size(), 0)};
  for (const MeshDimension& m : mesh) {
    if (m.size == 1) continue;
    const auto from = static_cast<std::size_t>(
        std::ranges::find(layout.mesh, m.name, &MeshDimension::name) - layout.mesh.begin());
    for (std::size_t d = 0; d < layout.over.size(); ++d) {
      if ((layout.over[d] >> from & 1U) != 0) made.over[d] |= Axes{1} << made.mesh.size();
    }
    if ((layout.optimizer >> from & 1U) != 0) made.optimizer |= Axes{1} << made.mesh.size();
    if ((layout.gradients >> from & 1U) != 0) made.gradients |= Axes{1} << made.mesh.size();
    made.mesh.push_back(m);
  }
  return made;
}

}  // namespace weir::layout
