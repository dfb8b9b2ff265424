// What of its activations a Megatron job leaves with the host: layers, by
// --cpu-offloading-num-layers, or parts of all blocks, by --fine-grained-activation-offloading
// (NVIDIA/Megatron-LM@d98e8a64ddf3, megatron/core/transformer/transformer_config.py:1323-1361).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "plan/model/limits.hpp"
#include "plan/text/words_of.hpp"
#include "tools/jobs/job/offload_modules.hpp"
#include "tools/jobs/job/unmodelled.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {

constexpr const char* kOffloadedLayers = "cpu-offloading-num-layers";
constexpr const char* kFineGrained = "fine-grained-activation-offloading";

// Layers are said of the first ones; a plan's share is every block's.
void offload_layers(Arguments& a, std::int64_t layers, Job& job) {
  constexpr std::int64_t kOthers = 3;  // embedding, norm and head
  const std::int64_t blocks = static_cast<std::int64_t>(job.model.layers.size()) - kOthers;
  if (layers >= blocks) a.fail(kOffloadedLayers, fmt::format("expected fewer than {}", blocks));
  job.plan.offload_activations = static_cast<double>(layers) / static_cast<double>(blocks);
  job.remarks.push_back(
      {kOffloadedLayers, fmt::format("{}: in the plan as large a share of every block", layers)});
}

void offload_parts(Arguments& a, std::string list, double fraction, Job& job) {
  std::ranges::replace_if(
      list, [](char c) { return c == ',' || c == '[' || c == ']' || c == '\'' || c == '"'; }, ' ');
  double share = 0;
  for (const std::string& module : words_of(list)) {
    const auto its = offloaded_share(module, job.model);
    if (!its) {
      a.fail("offload-modules", fmt::format("{}: expected attn_norm, qkv_linear, core_attn, "
                                            "attn_proj, mlp_norm, expert_fc1 or moe_act",
                                            module.substr(0, 40)));
    }
    share += *its;
  }
  if (share == 0)
    a.fail("offload-modules", fmt::format("names no part of a block, beside --{}", kFineGrained));
  job.plan.offload_activations = share * fraction;
}

}  // namespace

void set_offload(Arguments& a, Job& job) {
  const std::int64_t layers = a.integer_or(kOffloadedLayers, 0, 0, kMostLayers);
  const bool whole = a.flag("cpu-offloading"), parts = a.flag(kFineGrained);
  const double fraction = a.number_or("activation-offload-fraction", 1, 0, 1);
  const std::string list = a.values("offload-modules");
  // How copies are buffered, and the list, which is read above.
  for (const char* name : {"cpu-offloading-activations", "cpu-offloading-double-buffering",
                           "offload-modules", "min-offloaded-tensor-size"})
    static_cast<void>(a.flag(name));
  if (a.flag("cpu-offloading-weights")) a.fail("cpu-offloading-weights", kOffloadNotModelled);
  if (whole && layers == 0) a.fail(kOffloadedLayers, "is missing beside --cpu-offloading");
  if (layers > 0 && parts) a.fail(kFineGrained, fmt::format("excludes --{}", kOffloadedLayers));
  if (layers > 0) offload_layers(a, layers, job);
  if (parts) offload_parts(a, list, fraction, job);
}

}  // namespace weir
