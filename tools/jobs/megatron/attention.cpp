// Which attention a Megatron job runs: what its arguments say, else what its Megatron takes.
//
// Megatron-Core leaves the choice to Transformer Engine ("auto"), which takes a fused kernel at 16
// bits: transformer_config.py:151 (attention_backend), :1314 (transformer_impl),
// language_module.py:145-148 @d98e8a64ddf3. Until April 2024 the layers were Megatron's own unless
// --use-mcore-models or --transformer-impl said otherwise (core_v0.5.0, arguments.py:510;
// pretrain_gpt.py:52), and those are unfused without --use-flash-attn. So are those of
// Megatron-DeepSpeed (megatron/arguments.py:433 and :516, transformer.py:528 @4efb479d5317) and of
// the forks for devices without Transformer Engine.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {

struct Fork {
  std::string_view name;
  std::string_view argument;  // that only it has
};
constexpr std::array<Fork, 23> kForks{{{"Megatron-DeepSpeed", "deepspeed"},
                                       {"Megatron-DeepSpeed", "deepspeed-config"},
                                       {"Megatron-DeepSpeed", "zero-stage"},
                                       {"Megatron-DeepSpeed", "no-pipeline-parallel"},
                                       {"Megatron-DeepSpeed", "ds-sequence-parallel-size"},
                                       {"Megatron-DeepSpeed", "use-flash-attn-builder"},
                                       {"Megatron-DeepSpeed", "enable-zbh1-pipeline"},
                                       {"Megatron-LM before 2024", "DDP-impl"},
                                       {"Megatron-LM before 2024", "checkpoint-activations"},
                                       {"Megatron-LM before 2024", "checkpoint-num-layers"},
                                       {"Megatron-LM before 2024", "activations-checkpoint-method"},
                                       {"Megatron-LM before 2024", "no-query-key-layer-scaling"},
                                       {"Megatron-LM before 2024", "fp32-allreduce"},
                                       {"MindSpeed", "use-mc2"},
                                       {"MindSpeed", "use-fused-rmsnorm"},
                                       {"MindSpeed", "use-fused-swiglu"},
                                       {"MindSpeed", "use-fused-rotary-pos-emb"},
                                       {"MindSpeed", "use-cp-send-recv-overlap"},
                                       {"MindSpeed", "reuse-fp32-param"},
                                       {"ModelLink", "multi-head-latent-attention"},
                                       {"ModelLink", "n-shared-experts"},
                                       {"ModelLink", "moe-intermediate-size"},
                                       {"ModelLink", "first-k-dense-replace"}}};

// Whose layers are their own, and not Transformer Engine's; empty: Megatron-Core's.
std::string_view own_layers(Arguments& a) {
  if (a.says("use-mcore-models") || a.says("attention-backend")) return {};
  if (a.text_or("transformer-impl", "") == "transformer_engine") return {};
  const auto fork = std::ranges::find_if(kForks, [&](const Fork& f) { return a.says(f.argument); });
  return fork == kForks.end() ? std::string_view() : fork->name;
}

bool asks_for_flash(Arguments& a) {
  bool asks = false;
  for (const char* name : {"use-flash-attn", "use-flash-attn-v1", "use-flash-attn-v2",
                           "use-flash-attn-triton", "use-flash-attn-builder"})
    asks = a.flag(name) || asks;
  return asks;
}

struct Taken {
  AttentionKind kind;
  std::string why;
};

// Where neither a backend nor flash attention is asked for.
Taken taken_by_default(Arguments& a, Dtype dtype) {
  if (dtype == Dtype::fp32)
    return {AttentionKind::unfused, "Transformer Engine's fused kernels are of 16 bits"};
  if (a.text_or("transformer-impl", "") == "local")
    return {AttentionKind::unfused, "transformer-impl is local"};
  if (const std::string_view own = own_layers(a); !own.empty()) {
    return {AttentionKind::unfused,
            fmt::format("{} has its own layers, which are fused by use-flash-attn alone", own)};
  }
  if (a.environment_of("NVTE_FLASH_ATTN") == "0" && a.environment_of("NVTE_FUSED_ATTN") == "0")
    return {AttentionKind::unfused, "NVTE_FLASH_ATTN and NVTE_FUSED_ATTN are 0"};
  return {AttentionKind::fused,
          "attention-backend is auto: Transformer Engine takes a fused kernel at 16 bits"};
}

}  // namespace

bool is_old_megatron(const std::vector<std::string>& lines) {
  if (lines.empty()) return false;
  Arguments a(job_text(lines), "the job");
  return !own_layers(a).empty();
}

// Megatron's flash (the flash-attn package) and fused (cuDNN) both keep the statistics alone.
void set_attention(Arguments& a, Job& job) {
  const bool flash = asks_for_flash(a);
  const std::string backend = a.text_or("attention-backend", flash ? "flash" : "auto");
  const std::string impl = a.text_or("transformer-impl", "");
  // The layers of Megatron-Core that are not Transformer Engine's have one attention.
  const bool local_core =
      impl == "local" && (a.says("attention-backend") || a.says("use-mcore-models"));
  AttentionKind& kind = job.plan.attention;
  if (backend == "flash" || backend == "fused") {
    kind = local_core ? AttentionKind::unfused : AttentionKind::fused;
    if (local_core) job.defaults.push_back({"attention", "unfused (transformer-impl is local)"});
  } else if (backend == "unfused" || backend == "local") {
    kind = AttentionKind::unfused;
  } else if (backend == "auto") {
    Taken taken = taken_by_default(a, job.plan.dtype);
    kind = taken.kind;
    job.defaults.push_back({"attention", fmt::format("{} ({})", to_string(kind), taken.why)});
  } else {
    a.fail("attention-backend", "expected flash, fused, unfused, local or auto");
  }
}

}  // namespace weir
