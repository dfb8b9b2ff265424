// Hugging Face's cache, as huggingface_hub lays it out ("Understand caching" of its documentation).
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

using Path = std::filesystem::path;

// Empty where it is not set.
std::string_view environment_of(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets it here
  return value == nullptr ? std::string_view() : value;
}

std::optional<Path> folder_of(const char* variable) {
  const std::string_view folder = environment_of(variable), home = environment_of("HOME");
  if (folder.empty()) return std::nullopt;
  // As huggingface_hub does, for a shell leaves it in quotes.
  if (folder.starts_with("~/") && !home.empty()) return Path(home) / folder.substr(2);
  return folder;
}

// HUGGINGFACE_HUB_CACHE is HF_HUB_CACHE's older name. Empty where there is no home.
Path hub_cache() {
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto folder = folder_of(variable)) return *folder;
  }
  if (const auto home = folder_of("HF_HOME")) return *home / "hub";
  if (const auto cache = folder_of("XDG_CACHE_HOME")) return *cache / "huggingface/hub";
  if (const auto home = folder_of("HOME")) return *home / ".cache/huggingface/hub";
  return {};
}

// No more than a name: no "..", which would lead out of the cache.
bool is_part_of_name(std::string_view part) {
  constexpr std::size_t kLongest = 96;
  return !part.empty() && part.size() <= kLongest && part.front() != '.' &&
         part.find("..") == part.npos && std::ranges::all_of(part, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

// A file of ours that is not there is not looked for at the hub.
bool ends_as_a_file(std::string_view name) {
  constexpr std::array kEndings{".json", ".csv", ".txt", ".py", ".toml", ".yaml", ".yml", ".sh"};
  return std::ranges::any_of(kEndings, [&](const char* end) { return name.ends_with(end); });
}

}  // namespace

bool is_hub_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash != name.npos && is_part_of_name(name.substr(0, slash)) &&
         is_part_of_name(name.substr(slash + 1)) && !ends_as_a_file(name);
}

std::optional<Path> in_hub_cache(std::string_view name) {
  const Path cache = hub_cache();
  if (cache.empty() || !is_hub_name(name)) return std::nullopt;
  const std::size_t slash = name.find('/');
  const Path model =
      cache / fmt::format("models--{}--{}", name.substr(0, slash), name.substr(slash + 1));
  std::error_code none;  // what cannot be looked at is not there
  const Path main = model / "refs/main";
  if (!std::filesystem::is_regular_file(main, none)) return std::nullopt;
  std::string commit = read_text_file(main);
  while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0)
    commit.pop_back();
  if (!is_part_of_name(commit)) return std::nullopt;
  Path config = model / "snapshots" / commit / "config.json";
  if (!std::filesystem::is_regular_file(config, none)) return std::nullopt;
  return config;
}

Path model_file(const Path& named) {
  std::error_code none;
  if (std::filesystem::is_directory(named, none)) {
    Path config = named / "config.json";
    return std::filesystem::is_regular_file(config, none) ? config : named;
  }
  if (std::filesystem::exists(named, none) || !is_hub_name(named.string())) return named;
  if (auto cached = in_hub_cache(named.string())) return *std::move(cached);
  throw InputError(
      named.string(), "",
      fmt::format("is no file, and no model that Hugging Face's cache has{}: `hf download {} "
                  "config.json` fetches its sizes",
                  hub_cache().empty() ? "" : fmt::format(" ({})", hub_cache().string()),
                  named.string()));
}

}  // namespace weir::app
