// What of its activations a Megatron job leaves with the host: layers, by
// --cpu-offloading-num-layers, or parts of all blocks, by --fine-grained-activation-offloading
// (NVIDIA/Megatron-LM@d98e8a64ddf3, megatron/core/transformer/transformer_config.py:1323-1361); or
// the inputs of rebuilt blocks, by Megatron-DeepSpeed's --checkpoint-in-cpu.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "plan/job/recompute.hpp"
#include "plan/model/block_modules.hpp"
#include "plan/model/limits.hpp"
#include "plan/text/words_of.hpp"
#include "tools/jobs/deepspeed/import.hpp"
#include "tools/jobs/job/offload_modules.hpp"
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/job/unmodelled.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {

constexpr const char* kOffloadedLayers = "cpu-offloading-num-layers";
constexpr const char* kFineGrained = "fine-grained-activation-offloading";
constexpr const char* kModules = "offload-modules";

// Layers are said of the first ones; a plan's share is every block's. Megatron refuses them in a
// pipeline and beside re-materialisation (transformer_config.py, __post_init__).
void offload_layers(Arguments& a, std::int64_t layers, Job& job) {
  if (job.plan.pp > 1) a.fail(kOffloadedLayers, "expected no pipeline beside it");
  if (job.plan.recompute.mode != RecomputeMode::none)
    a.fail(kOffloadedLayers, "expected no re-materialisation beside it");
  constexpr std::int64_t kOthers = 3;  // embedding, norm and head
  const std::int64_t blocks = static_cast<std::int64_t>(job.model.layers.size()) - kOthers;
  if (layers >= blocks) a.fail(kOffloadedLayers, fmt::format("expected fewer than {}", blocks));
  job.plan.offload_activations = static_cast<double>(layers) / static_cast<double>(blocks);
  job.remarks.push_back(
      {kOffloadedLayers, fmt::format("{}: in the plan as large a share of every block", layers)});
}

// What Megatron refuses (transformer_config.py:2148-2175).
void refuse_modules(Arguments& a, const std::set<std::string, std::less<>>& modules,
                    const Recompute& recompute) {
  if (modules.contains("attn_proj") && !modules.contains("core_attn"))
    a.fail(kModules, "attn_proj: needs core_attn beside it");
  const bool selective = recompute.mode == RecomputeMode::selective;
  if (recompute.mode != RecomputeMode::none && !selective) {
    a.fail(kFineGrained,
           "blocks that are rebuilt as a whole keep none of their parts: expected no "
           "re-materialisation, or a selective one");
  }
  if (!selective || !recompute.modules.meets(BlockModule::moe)) return;
  for (const char* module : {"expert_fc1", "moe_act"}) {
    if (modules.contains(module))
      a.fail(kModules, fmt::format("{}: excluded by moe of --recompute-modules", module));
  }
}

// A module that is named twice is one.
void offload_parts(Arguments& a, std::string list, double fraction, Job& job) {
  std::ranges::replace_if(
      list, [](char c) { return c == ',' || c == '[' || c == ']' || c == '\'' || c == '"'; }, ' ');
  std::set<std::string, std::less<>> modules;
  for (const std::string& module : words_of(list)) {
    if (!is_offload_module(module)) {
      a.fail(kModules, fmt::format("{}: expected attn_norm, qkv_linear, core_attn, attn_proj, "
                                   "mlp_norm, expert_fc1 or moe_act",
                                   module.substr(0, 40)));
    }
    modules.insert(module);
  }
  refuse_modules(a, modules, job.plan.recompute);
  const double share = offloaded_share(modules, job.model, job.plan.recompute);
  if (share == 0)
    a.fail(kModules, fmt::format("names no part of a block, beside --{}", kFineGrained));
  job.plan.offload_activations = share * fraction;
}

// Megatron-DeepSpeed's, of DeepSpeed's checkpoints (megatron/initialize.py,
// setup_deepspeed_random_and_activation_checkpointing).
void offload_checkpoints(Arguments& a, Job& job) {
  constexpr const char* kCheckpoints = "checkpoint-in-cpu";
  if (!a.flag(kCheckpoints)) return;
  if (a.flag("deepspeed-activation-checkpointing")) {
    keep_checkpoints_with_host(kCheckpoints, a.flag("partition-activations"), job);
  } else {
    job.remarks.push_back(
        {kCheckpoints, "without effect, where --deepspeed-activation-checkpointing is not said"});
  }
}

}  // namespace

void set_offload(Arguments& a, Job& job) {
  const std::int64_t layers = a.integer_or(kOffloadedLayers, 0, 0, kMostLayers);
  const bool whole = a.flag("cpu-offloading"), parts = a.flag(kFineGrained);
  const double fraction = a.number_or("activation-offload-fraction", 1, 0, 1);
  const std::string list = a.values(kModules);
  // How copies are buffered, and the list, which is read above.
  for (const char* name : {"cpu-offloading-activations", "cpu-offloading-double-buffering",
                           kModules, "fine-grained-offloading-max-inflight-offloads"})
    static_cast<void>(a.flag(name));
  constexpr std::int64_t kItsDefault = 1 << 20;  // elements, below every part of a block
  const std::int64_t least =
      a.integer_or("min-offloaded-tensor-size", kItsDefault, 0, std::int64_t{1} << 53);
  if (parts && least > kItsDefault) {
    job.remarks.push_back(
        {"min-offloaded-tensor-size",
         fmt::format("{}: not modelled: smaller tensors stay on the device there", least)});
  }
  if (a.flag("cpu-offloading-weights")) a.fail("cpu-offloading-weights", kOffloadNotModelled);
  if (whole && layers == 0) a.fail(kOffloadedLayers, "is missing beside --cpu-offloading");
  if (layers > 0 && parts) a.fail(kFineGrained, fmt::format("excludes --{}", kOffloadedLayers));
  const bool weights_alone = says_false(a.values("cpu-offloading-activations"));
  if (layers > 0 && !weights_alone) offload_layers(a, layers, job);
  if (parts) offload_parts(a, list, fraction, job);
  offload_checkpoints(a, job);
}

}  // namespace weir
