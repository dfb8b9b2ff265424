// Files as those of a folder name them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace weir {

// `file` from `folder`. A link keeps its own name: in Hugging Face's cache what it leads to has
// none.
[[nodiscard]] std::filesystem::path seen_from(const std::filesystem::path& folder,
                                              const std::filesystem::path& file);

}  // namespace weir
