// Models from files: a Hugging Face `config.json`, our own layer list (weir.layers/1), the sizes of
// a convolutional network (weir.cnn/1), a `layers.csv` with times, or PipeDream's `graph.txt`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "plan/model/model.hpp"

namespace weir {

// Tells them apart by name and content. Throws InputError with file and key.
[[nodiscard]] Model load_model(const std::filesystem::path& file);
// Of a file that has been read.
[[nodiscard]] Model parse_model(const std::string& text, const std::filesystem::path& file);

}  // namespace weir
