// By the names that the plan keeps of what it leaves out.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/doubt.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/jobs/job/unmodelled.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {

std::vector<std::string> doubts_of(const SourceJob& job) {
  std::vector<std::string> doubts;
  const bool sizes = job.tool == "megatron" || job.tool == "nemo";
  for (const std::string& left_out : job.left_out) {
    if (is_of_adapters(left_out)) doubts.push_back(left_out);
    if (!sizes || is_of_adapters(left_out)) continue;
    // Of NeMo's tables the model's alone has sizes of a step.
    constexpr std::array<std::string_view, 4> kBeside{"exp_manager.", "trainer.", "run.",
                                                      "cluster."};
    if (std::ranges::any_of(kBeside, [&](auto table) { return left_out.starts_with(table); }))
      continue;
    std::string name = left_out.substr(left_out.rfind('.') + 1);
    std::ranges::replace(name, '_', '-');
    const bool rebuilds = name == "recompute-modules" || name == "activations-checkpoint-layers";
    const bool blocks = name == "spec";
    const bool size = names_a_size(name) && unread_argument(name).fate == Fate::unknown;
    if (rebuilds || blocks || size) doubts.push_back(left_out);
  }
  return doubts;
}

std::vector<std::string> leaner_than_planned(const SourceJob& job) {
  // Parts of names, as Megatron, NeMo, DeepSpeed and torchtitan have them.
  constexpr std::array<std::string_view, 17> kParts{"recompute",
                                                    "checkpoint-layers",
                                                    "offload",
                                                    "precision-aware",
                                                    "-dtype",
                                                    "fp8",
                                                    "fp4",
                                                    "paged-stash",
                                                    "loss-fusion",
                                                    "in-bf16",
                                                    "quantize",
                                                    "mixed-precision",
                                                    "saved-activations",
                                                    "partition-activations",
                                                    "checkpoint-in-cpu",
                                                    "cpu-checkpointing",
                                                    "capacity-factor"};
  std::vector<std::string> leaner;
  for (const std::string& left_out : job.left_out) {
    std::string name = left_out.substr(left_out.rfind('.') + 1);
    std::ranges::replace(name, '_', '-');
    const bool known = std::ranges::any_of(
        kParts, [&](std::string_view part) { return name.find(part) != std::string::npos; });
    if (known) leaner.push_back(left_out);
  }
  return leaner;
}

}  // namespace weir
