// The list of cases, and what their lines sum up to.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/reproduction.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/words/names.hpp"

namespace weir {

std::string_view to_string(Role role) {
  static constexpr Names<Role, 3> kNames{{{Role::formula, "formula"},
                                          {Role::calibrated, "calibrated"},
                                          {Role::predicted, "predicted"}}};
  return name_of(kNames, role);
}

double ReproductionLine::error() const {
  if (published == predicted) return 0;
  return predicted / published - 1;
}

void CaseResult::add(Role role, const ReproducedNumber& number) {
  const double predicted =
      role == Role::formula ? number.published.rounded(number.predicted) : number.predicted;
  lines.push_back(
      {number.row, number.quantity, number.published.value, predicted, role, number.device});
}

void CaseResult::add_anomaly(const ReproducedNumber& number, std::string reason) {
  anomalies.push_back(
      {number.row, number.quantity, number.published.value, number.predicted, std::move(reason)});
}

std::vector<ErrorSummary> summaries(const CaseResult& result) {
  std::vector<ErrorSummary> all;
  // In the order of trust: what a formula says, what was fitted, what was forecast.
  for (const Role role : {Role::formula, Role::calibrated, Role::predicted}) {
    std::vector<double> errors;
    for (const ReproductionLine& line : result.lines) {
      if (line.role == role) errors.push_back(std::abs(line.error()));
    }
    if (errors.empty()) continue;
    std::sort(errors.begin(), errors.end());
    const std::size_t half = errors.size() / 2;
    // An even number has two in the middle.
    const double median =
        errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
    all.push_back(
        {role, static_cast<int>(errors.size()), median,
         std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size()),
         errors.back()});
  }
  return all;
}

std::span<const ReproductionCase> reproduction_cases() {
  static constexpr std::array kCases{
      ReproductionCase{"gpipe-memory", "GPipe (Huang et al., NeurIPS 2019), Table 1",
                       reproduce_gpipe_memory},
      ReproductionCase{"gpipe-throughput",
                       "GPipe, Tables 2 and 3 (Transformer) and the breakdown of section 3.1",
                       reproduce_gpipe_throughput},
      ReproductionCase{"gpipe-amoebanet", "GPipe, Tables 2 and 3 (AmoebaNet-D), by built-in costs",
                       reproduce_gpipe_amoebanet},
      ReproductionCase{"torchgpipe",
                       "torchgpipe's benchmarks of AmoebaNet-D on P40s, by built-in costs",
                       reproduce_torchgpipe},
      ReproductionCase{"zero-bubble-rates",
                       "Zero Bubble (Qi et al., ICLR 2024), Table 5 from Table 9",
                       reproduce_zero_bubble_rates},
      ReproductionCase{"zero-bubble-throughput", "Zero Bubble, Table 4: measured throughput",
                       reproduce_zero_bubble_throughput},
      ReproductionCase{"zero-bubble-memory", "Zero Bubble, Table 4: measured memory",
                       reproduce_zero_bubble_memory},
      ReproductionCase{"schedule-formulas",
                       "DeepSeek-V3, DualPipe, Chimera and Megatron: bubbles, memory, weights",
                       reproduce_formulas},
      ReproductionCase{"megatron-2021", "Megatron-LM (Narayanan et al., SC 2021), Tables 1 and 2",
                       reproduce_megatron},
      ReproductionCase{"korthikanti-memory", "Korthikanti et al., 2022: memory of the first device",
                       reproduce_korthikanti_memory},
      ReproductionCase{"korthikanti-steps",
                       "Korthikanti et al., 2022, Tables 4 and 5: layer and step times",
                       reproduce_korthikanti_steps},
      ReproductionCase{
          "vtrain", "vTrain (Bang et al., MICRO 2024), measured iterations of Megatron-DeepSpeed",
          reproduce_vtrain},
      ReproductionCase{
          "builtin",
          "Measured steps of A100s in vTrain, Korthikanti, Megatron-LM and Zero Bubble by the "
          "built-in costs, nothing fitted",
          reproduce_builtin},
      ReproductionCase{"kernel-rates",
                       "products, fused attention and norms by shape, each group of rows by "
                       "constants that were fitted without it",
                       reproduce_kernel_rates},
      ReproductionCase{"link-rates",
                       "collectives and messages by size and node count, each group of rows by "
                       "constants that were fitted without it",
                       reproduce_link_rates},
      ReproductionCase{"playbook",
                       "The Ultra-Scale Playbook: 1B and 3B models by nanotron on H100s, built-in",
                       reproduce_playbook, true},
      ReproductionCase{"bloom", "BLOOM's search for a layout: Megatron-DeepSpeed on 384 A100s",
                       reproduce_bloom, true},
      ReproductionCase{"mlperf", "MLPerf: GPT-3 175B and Llama 3.1 405B on H100, H200 and GB200",
                       reproduce_mlperf, true},
      ReproductionCase{"primus", "Primus: six schedules on eight MI300X", reproduce_primus, true},
      ReproductionCase{"primus-timeline",
                       "Primus: every action of a pipeline of eight GPUs, by another iteration's "
                       "medians",
                       reproduce_primus_timeline, true},
      ReproductionCase{"torchtitan", "torchtitan: Llama 3.1 on H100 and H200", reproduce_torchtitan,
                       true},
      ReproductionCase{"llm-foundry", "llm-foundry: MPT, sharded, on A100 and H100",
                       reproduce_llm_foundry, true},
      ReproductionCase{"sailor", "Sailor: OPT and GPT-Neo with stated stages on GH200",
                       reproduce_sailor, true},
      ReproductionCase{"megatron-bridge", "Megatron-Bridge: Llama 3 on Hopper and Blackwell",
                       reproduce_megatron_bridge, true},
      ReproductionCase{"megatron-bridge-experts",
                       "Megatron-Bridge: mixtures of experts on Hopper and Blackwell",
                       reproduce_megatron_bridge_experts, true},
      ReproductionCase{"nemo", "NeMo 24.07 on DGX H100", reproduce_nemo, true},
      ReproductionCase{"dgx-cloud", "NVIDIA's cloud recipes on H100", reproduce_dgx_cloud, true},
  };
  return kCases;
}

}  // namespace weir
