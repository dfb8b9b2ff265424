// Keys that switch on what is not modelled, by the end of their path.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/unmodelled.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace weir {
namespace {

bool is_path_end(std::string_view path, std::string_view end) {
  if (!path.ends_with(end)) return false;
  return path.size() == end.size() || path[path.size() - end.size() - 1] == '.';
}

bool says_off(std::string_view value) {
  constexpr std::array<std::string_view, 11> kOff{"",    "false", "False", "no",   "off",     "0",
                                                  "0.0", "none",  "None",  "null", "no_shard"};
  return std::ranges::find(kOff, value) != kOff.end();
}

// Of so many devices or copies: one, or DeepSpeed's -1, is the same as not at all.
bool is_at_most_one(std::string_view value) {
  return says_off(value) || value == "1" || value == "-1";
}

// The parts of a name between '-' and '_'.
std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("-_."), name.size());
    parts.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return parts;
}

constexpr std::array<std::string_view, 6> kAdapters{"lora",   "peft",    "freeze",
                                                    "frozen", "adapter", "adapters"};

bool is_adapters(std::string_view part) {
  return std::ranges::find(kAdapters, part) != kAdapters.end();
}

// The sections that a key stands in, from the outermost: "a" and "a.b" of "a.b.c".
std::vector<std::string_view> sections_of(std::string_view path) {
  std::vector<std::string_view> sections;
  for (std::size_t end = path.find('.'); end != path.npos; end = path.find('.', end + 1))
    sections.push_back(path.substr(0, end));
  return sections;
}

bool is_adapters_section(std::string_view section) {
  const std::vector<std::string_view> parts = parts_of(section.substr(section.rfind('.') + 1));
  return !parts.empty() && is_adapters(parts.front());
}

}  // namespace

bool names_adapters(std::string_view name) {
  const std::vector<std::string_view> parts = parts_of(name.substr(name.rfind('.') + 1));
  if (parts.empty()) return false;
  const auto are = [&](std::string_view first, std::string_view second) {
    return parts.size() == 2 && parts[0] == first && parts[1] == second;
  };
  // Of DeepSpeed's OneBitAdam, from which on its variance stays.
  if (are("freeze", "step")) return false;
  return are("target", "modules") || is_adapters(parts.front());
}

bool is_of_adapters(std::string_view path) {
  const std::vector<std::string_view> parts = parts_of(path.substr(path.rfind('.') + 1));
  constexpr std::array<std::string_view, 3> kSwitches{"use", "enable", "with"};
  const bool switched = parts.size() > 1 && is_adapters(parts[1]) &&
                        std::ranges::find(kSwitches, parts[0]) != kSwitches.end();
  return switched || std::ranges::any_of(sections_of(path), is_adapters_section);
}

bool is_off_with_section(std::string_view path,
                         const std::function<std::string(const std::string&)>& text) {
  for (const std::string_view section : sections_of(path)) {
    if (!is_adapters_section(section)) continue;
    for (const char* word : {"enable", "enabled"}) {
      const std::string said = text(std::string(section) + "." + word);
      if (!said.empty() && says_off(said)) return true;
    }
  }
  return false;
}

bool names_a_size(std::string_view name) {
  constexpr std::array<std::string_view, 16> kSizes{
      "size",   "sizes",    "dim",   "dims",   "rank",   "heads", "layers",  "experts",
      "hidden", "channels", "width", "groups", "blocks", "head",  "replace", "intermediate"};
  const std::vector<std::string_view> parts = parts_of(name.substr(name.rfind('.') + 1));
  if (parts.empty()) return false;
  return std::ranges::find(kSizes, parts.back()) != kSizes.end();
}

std::optional<std::string> unmodelled(std::string_view path, std::string_view value) {
  constexpr std::array<std::pair<std::string_view, const char*>, 18> kSwitches{
      {{"offload_optimizer.device", kOffloadNotModelled},
       {"offload_param.device", kWeightsNotWithHost},
       {"cpu_offload", kOffloadNotModelled},
       {"cpu_offload_params", kWeightsNotWithHost},
       {"fsdp_cpu_offload", kWeightsNotWithHost},
       {"cpu_checkpointing", kOffloadNotModelled},
       {"cpu_offloading", kOffloadNotModelled},
       {"cpu_offloading_num_layers", kOffloadNotModelled},
       {"optimizer_cpu_offload", kOffloadNotModelled},
       {"offload_optimizer_states", kOffloadNotModelled},
       {"fine_grained_activation_offloading", kOffloadNotModelled},
       {"enable_cpu_offload", kWeightsNotWithHost},
       {"enable_activation_offload", kOffloadNotModelled},
       {"mtp_num_layers", kPredictionNotModelled},
       {"num_nextn_predict_layers", kPredictionNotModelled},
       {"num_mtp_layers", kPredictionNotModelled},
       {"num_mtp_modules", kPredictionNotModelled},
       {"outer_dp_sharding_strategy", kHybridNotModelled}}};
  for (const auto& [end, message] : kSwitches) {
    if (is_path_end(path, end) && !says_off(value)) return message;
  }
  if (names_adapters(path) && !says_off(value)) return kAdaptersNotModelled;
  for (const std::string_view end :
       {"zero_hpz_partition_size", "mics_shard_size", "num_distributed_optimizer_instances"}) {
    if (is_path_end(path, end) && !is_at_most_one(value)) return kHybridNotModelled;
  }
  if (is_path_end(path, "sharding_strategy") || is_path_end(path, "fsdp_sharding_strategy")) {
    if (value.starts_with("hybrid") || value.starts_with("HYBRID")) return kHybridNotModelled;
  }
  return std::nullopt;
}

bool some_reader_reads(std::string_view path) {
  constexpr std::array<std::string_view, 7> kRead{
      "offload_optimizer.device", "cpu_offload",     "cpu_checkpointing",
      "zero_hpz_partition_size",  "mics_shard_size", "cpu_offloading",
      "cpu_offloading_num_layers"};
  const auto ends = [path](std::string_view end) { return is_path_end(path, end); };
  return names_adapters(path) || std::ranges::any_of(kRead, ends);
}

}  // namespace weir
