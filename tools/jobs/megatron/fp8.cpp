// Products in 8 bits (transformer_config.py: fp8, fp8_recipe; arguments.py: --fp8-param-gather).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tools/jobs/megatron/import.hpp"

namespace weir {

// Whose scales are `delayed` where nothing is said. Which of the two formats gradients have changes
// neither time nor memory.
void set_fp8(Arguments& a, Job& job) {
  const bool before_2023 = a.flag("fp8-hybrid") || a.flag("fp8-e4m3");
  const std::string format = a.text_or("fp8-format", "");
  const std::string recipe = a.text_or("fp8-recipe", "delayed");
  const bool parameters = a.flag("fp8-param-gather");
  if (format.empty() && !before_2023) return;
  if (bytes_per_element(job.plan.dtype) != 2) {
    job.remarks.push_back(
        {"fp8-format", "products in 8 bits beside fp32 are not in the plan: its format is fp32"});
    return;
  }
  const auto known = parse_fp8_recipe(recipe);
  job.plan.fp8 = known.value_or(Fp8Recipe::delayed);
  if (!known || *known == Fp8Recipe::none) {
    job.plan.fp8 = Fp8Recipe::delayed;
    job.remarks.push_back({"fp8-recipe", fmt::format("{}: delayed in the plan", recipe)});
  }
  job.plan.fp8_parameters = parameters;
  set_treatment(job.model, job.plan);
}

}  // namespace weir
