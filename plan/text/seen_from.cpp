// Links on the way are followed, so that ".." leads where the system's does; the last is not.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/seen_from.hpp"

namespace weir {

std::filesystem::path seen_from(const std::filesystem::path& folder,
                                const std::filesystem::path& file) {
  const auto whole = std::filesystem::absolute(file);
  return (std::filesystem::weakly_canonical(whole.parent_path()) / whole.filename())
      .lexically_proximate(std::filesystem::weakly_canonical(std::filesystem::absolute(folder)));
}

}  // namespace weir
