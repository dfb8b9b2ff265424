// SPDX-License-Identifier: Apache-2.0
#include "plan/export/script.hpp"

#include <fmt/format.h>

namespace weir {

std::string filled(std::string_view text,
                   const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string result(text);
  for (const auto& [name, value] : values) {
    const std::string mark = fmt::format("@{}@", name);
    for (auto at = result.find(mark); at != std::string::npos;
         at = result.find(mark, at + value.size())) {
      result.replace(at, mark.size(), value);
    }
  }
  return result;
}

std::string layer_lines(const Model& model) {
  std::string text;
  for (std::size_t first = 0, next = 0; first < model.layers.size(); first = next) {
    const std::string kind = kind_name(model.layers[first]);
    const std::int64_t parameters = parameter_count(model.layers[first]);
    for (next = first + 1; next < model.layers.size(); ++next) {
      if (kind_name(model.layers[next]) != kind ||
          parameter_count(model.layers[next]) != parameters)
        break;
    }
    const std::string range =
        next - first > 1 ? fmt::format("{}-{}", first, next - 1) : fmt::format("{}", first);
    text += fmt::format("{}  {:<9} {}, {} parameters{}", first == 0 ? "" : "\n", range, kind,
                        parameters, next - first > 1 ? " each" : "");
  }
  return text;
}

std::vector<int> bounds_of(const LoadedPlan& loaded) {
  std::vector<int> bounds{0};
  bounds.insert(bounds.end(), loaded.plan.boundaries.begin(), loaded.plan.boundaries.end());
  bounds.push_back(static_cast<int>(loaded.model.layers.size()));
  return bounds;
}

std::string torch_dtype(Dtype dtype) {
  return dtype == Dtype::bf16 ? "bfloat16" : dtype == Dtype::fp16 ? "float16" : "float32";
}

}  // namespace weir
