// Which of a layout file's layouts is meant.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "plan/layout/read.hpp"

namespace weir::app {

// The one of the name, or the first where there is none. Throws UsageError where the file has none
// of the name, InputError where it has none at all.
[[nodiscard]] const layout::NetworkLayout& named_layout(const layout::LayoutFile& loaded,
                                                        const std::string& name,
                                                        const std::filesystem::path& file);

}  // namespace weir::app
