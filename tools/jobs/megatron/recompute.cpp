// What a Megatron job makes again in its backward passes.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {

// Method block: the first `layers` blocks of each stage (Megatron-Core 0.12,
// transformer/transformer_block.py, _checkpointed_forward).
Recompute first_blocks(const std::vector<int>& of_stages, std::int64_t layers) {
  std::vector<bool> rebuilt;
  for (const int blocks : of_stages) {
    for (int b = 0; b < blocks; ++b) rebuilt.push_back(b < layers);
  }
  return rebuilt_blocks(rebuilt);
}

// Selective: the modules of a list, the attention core where there is none
// (transformer_config.py:560-582 and :1940 @d98e8a64ddf3). Those of other blocks than a plan has
// have no word in it.
Recompute selected(Arguments& a, std::vector<Remark>& remarks) {
  std::string list = a.values("recompute-modules");
  std::ranges::replace_if(
      list, [](char c) { return c == ',' || c == '[' || c == ']'; }, ' ');
  std::istringstream words(list);
  ModuleSet modules;
  if (list.empty()) modules = BlockModule::core_attn;
  std::string others;
  for (std::string word; words >> word;) {
    std::erase_if(word, [](char c) { return c == '\'' || c == '"'; });
    const auto module = named(kBlockModules, word);
    if (module) modules |= *module;
    if (!module && !word.empty()) others += (others.empty() ? "" : " ") + word;
  }
  Recompute recompute;
  if (!modules.empty()) recompute = {.mode = RecomputeMode::selective, .modules = modules};
  if (!others.empty()) {
    remarks.push_back({"recompute-modules",
                       fmt::format("{}: the plan rebuilds {}: memory is less than forecast, time "
                                   "more",
                                   others, modules.empty() ? "nothing" : "the others alone")});
  }
  return recompute;
}

}  // namespace

void set_recompute(Arguments& a, const std::vector<int>& of_stages, Job& job) {
  Recompute& recompute = job.plan.recompute;
  const auto granularity = a.text("recompute-granularity");
  const std::string method =
      a.text_or("recompute-method", a.text_or("activations-checkpoint-method", ""));
  const auto layers = a.integer_or(
      "recompute-num-layers", a.integer_or("checkpoint-num-layers", 1, 0, 1 << 20), 0, 1 << 20);
  const bool old = a.flag("checkpoint-activations");  // Megatron of 2020, and Megatron-DeepSpeed
  static_cast<void>(a.flag("deepspeed-activation-checkpointing"));
  static_cast<void>(a.flag("recompute-modules"));
  if (granularity && *granularity != "full" && *granularity != "selective") {
    a.fail("recompute-granularity", "expected full or selective");
  }
  if (a.flag("recompute-activations") || (granularity && *granularity == "selective")) {
    recompute = selected(a, job.remarks);
  } else if (!old && !granularity && method.empty()) {
    job.defaults.push_back({kRecomputeDefault, "none"});
  } else if (method == "block") {
    recompute = first_blocks(of_stages, layers);
  } else {
    recompute = {.mode = RecomputeMode::full, .at_a_time = std::max(1, static_cast<int>(layers))};
  }
}

}  // namespace weir
