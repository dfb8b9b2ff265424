// Where the real files of other tools are: the folder that WEIR_SAMPLES names, or shared/samples
// beside the checkout. Tests skip where there is neither.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace weir {

inline std::optional<std::filesystem::path> sample_folder(const std::string& name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets the environment
  const char* named = std::getenv("WEIR_SAMPLES");
  const std::filesystem::path beside =
      std::filesystem::path(WEIR_SOURCE_DIR) / ".." / "shared" / "samples";
  const std::filesystem::path folder =
      (named != nullptr ? std::filesystem::path(named) : beside) / name;
  if (!std::filesystem::exists(folder)) return std::nullopt;
  return folder;
}

}  // namespace weir
