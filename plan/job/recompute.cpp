// The words of re-materialisation.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/recompute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<RecomputeMode, 4> kModes{{{RecomputeMode::none, "none"},
                                          {RecomputeMode::selective, "selective"},
                                          {RecomputeMode::full, "full"},
                                          {RecomputeMode::stage, "stage"}}};

// As many as a model may have (plan/model/limits), so that one past the last still is an int.
constexpr int kHighestLayer = (1 << 24) - 1;

constexpr std::string_view kAtATime = "full:";  // and how many blocks

constexpr std::string_view kOfModules = "selective:";  // and which, with + between them

std::string modules_word(ModuleSet modules) {
  std::string word(kOfModules);
  for (const auto& [module, name] : kBlockModules) {
    if (!modules.meets(module)) continue;
    if (word.size() > kOfModules.size()) word += '+';
    word += name;
  }
  return word;
}

std::optional<ModuleSet> parse_modules(std::string_view text) {
  ModuleSet modules;
  // Up to the end and once more, so that a last + leaves an empty word, which is refused.
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t plus = std::min(text.find('+', from), text.size());
    const auto module = named(kBlockModules, text.substr(from, plus - from));
    if (!module) return std::nullopt;
    modules |= *module;
    from = plus + 1;
  }
  return modules;
}

std::optional<int> parse_layer(std::string_view text) {
  int layer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return layer >= 0 && layer <= kHighestLayer ? std::optional(layer) : std::nullopt;
}

// "40", "0-11".
std::optional<LayerRange> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_layer(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_layer(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return LayerRange{*first, *last + 1};
}

// Ascending, and those that touch or overlap as one.
std::vector<LayerRange> merged(std::vector<LayerRange> ranges) {
  std::ranges::sort(ranges, {}, &LayerRange::first);
  std::vector<LayerRange> apart;
  for (const LayerRange& range : ranges) {
    if (!apart.empty() && range.first <= apart.back().last) {
      apart.back().last = std::max(apart.back().last, range.last);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

}  // namespace

bool rebuilds(const Recompute& recompute, const LayerPart& part, int layer) {
  // `full` rebuilds within the backward, and frozen first layers have none.
  if (recompute.mode != RecomputeMode::full || !part.backward) return false;
  if (recompute.layers.empty()) return part.block;
  return std::ranges::any_of(recompute.layers,
                             [layer](const LayerRange& range) { return range.has(layer); });
}

bool rebuilds_every_block(const Recompute& recompute) {
  return recompute.mode == RecomputeMode::full && recompute.layers.empty() &&
         !recompute.except_last;
}

std::vector<std::size_t> chunk_starts(const Recompute& recompute,
                                      const std::vector<bool>& rebuilt) {
  const auto most = static_cast<std::size_t>(recompute.at_a_time);
  std::vector<std::size_t> starts;
  for (std::size_t l = 0; l < rebuilt.size(); ++l) {
    // A chunk goes on while layers are rebuilt and it is not full.
    const bool follows = l > 0 && rebuilt[l] && rebuilt[l - 1];
    starts.push_back(follows && l - starts.back() < most ? starts.back() : l);
  }
  return starts;
}

std::string_view to_string(RecomputeMode mode) { return name_of(kModes, mode); }

std::string layers_word(const std::vector<LayerRange>& layers) {
  std::string word;
  for (const auto& [first, last] : layers) {
    word += fmt::format("{}{}", word.empty() ? "" : ",", first);
    if (last > first + 1) word += fmt::format("-{}", last - 1);
  }
  return word;
}

std::optional<std::vector<LayerRange>> parse_layers(std::string_view word) {
  std::vector<LayerRange> layers;
  // As above: a last comma leaves an empty range.
  for (std::size_t from = 0; from <= word.size();) {
    const std::size_t comma = std::min(word.find(',', from), word.size());
    const auto range = parse_range(word.substr(from, comma - from));
    if (!range) return std::nullopt;
    layers.push_back(*range);
    from = comma + 1;
  }
  return merged(std::move(layers));
}

std::string recompute_word(const Recompute& recompute) {
  if (recompute.modules != BlockModule::core_attn && recompute.mode == RecomputeMode::selective)
    return modules_word(recompute.modules);
  if (recompute.at_a_time > 1) return fmt::format("{}{}", kAtATime, recompute.at_a_time);
  if (recompute.layers.empty()) return std::string(to_string(recompute.mode));
  return layers_word(recompute.layers);
}

std::optional<Recompute> parse_recompute_word(std::string_view word) {
  if (const auto mode = named(kModes, word)) return Recompute{.mode = *mode};
  if (word.starts_with(kOfModules)) {
    const auto modules = parse_modules(word.substr(kOfModules.size()));
    if (!modules) return std::nullopt;
    return Recompute{.mode = RecomputeMode::selective, .modules = *modules};
  }
  Recompute recompute{.mode = RecomputeMode::full};
  if (word.starts_with(kAtATime)) {
    const auto blocks = parse_layer(word.substr(kAtATime.size()));
    if (!blocks || *blocks == 0) return std::nullopt;
    recompute.at_a_time = *blocks;
    return recompute;
  }
  auto layers = parse_layers(word);
  if (!layers) return std::nullopt;
  recompute.layers = *std::move(layers);
  return recompute;
}

}  // namespace weir
