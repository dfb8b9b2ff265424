// Looked for by name.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/named_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "plan/words/error.hpp"

namespace weir::app {

const layout::NetworkLayout& named_layout(const layout::LayoutFile& loaded, const std::string& name,
                                          const std::filesystem::path& file) {
  const auto& all = loaded.network_layouts;
  if (all.empty()) throw InputError(file.string(), "layouts", "expected one at least");
  if (name.empty()) return all.front();
  const auto found = std::ranges::find(all, name, &layout::NetworkLayout::name);
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const layout::NetworkLayout& one : all) names.push_back(one.name);
    throw UsageError(
        fmt::format("--layout-name {}: {} has {}", name, file.string(), fmt::join(names, ", ")));
  }
  return *found;
}

}  // namespace weir::app
