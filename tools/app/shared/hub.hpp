// Models as people name them: a file, the folder of a checkpoint, or a name at Hugging Face's hub
// that its cache on this machine has. Nothing is fetched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace weir::app {

// "Qwen/Qwen3-8B": who publishes it and its name, both of letters, digits, '-', '_' and '.'.
[[nodiscard]] bool is_hub_name(std::string_view name);

// The config.json of such a model as it was fetched last of its branch main; nullopt where the
// cache has none. Where the cache is and how it is laid out is huggingface_hub's: HF_HUB_CACHE,
// HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, and in it
// models--OWNER--NAME/snapshots/COMMIT/config.json, COMMIT as refs/main says.
[[nodiscard]] std::optional<std::filesystem::path> in_hub_cache(std::string_view name);

// The file to read of a model that is named so: of a folder its config.json, where it has one; of a
// hub's name that is no file here, the cache's. Throws InputError where the cache has it not.
[[nodiscard]] std::filesystem::path model_file(const std::filesystem::path& named);

}  // namespace weir::app
