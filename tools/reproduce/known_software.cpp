// Reads the compiled stacks.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/known_software.hpp"

#include "plan/job/left_out.hpp"
#include "plan/text/schema.hpp"
#include "tools/reproduce/published.hpp"

namespace weir {

std::string whose_abilities(const std::string& stack) {
  return stack == kDefaultStack ? "megatron-core" : stack;
}

std::vector<Stack> known_software(Dtype dtype, const std::string& without) {
  constexpr std::string_view kSchema = "weir.stack/1", kFp32 = "-fp32";
  std::vector<Stack> stacks;
  for (const auto& [file, text] : compiled_tables()) {
    if (!file.ends_with(".json")) continue;
    const Json json = parse_json(text, file);
    if (!has_schema(json, kSchema)) continue;
    Stack stack = parse_stack(without_source(json, without).dump(), file);
    const bool own = stack.name == Stack{}.name;
    const bool in_fp32 = stack.name.ends_with(kFp32);
    if (!own && (!in_fp32 || bytes_per_element(dtype) == bytes_per_element(Dtype::fp32)))
      stacks.push_back(std::move(stack));
  }
  return stacks;
}

}  // namespace weir
