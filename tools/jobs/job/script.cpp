// Fills a plan's numbers and words into scripts; what a user named is quoted on its way.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/script.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weir {

std::string filled(std::string_view text,
                   const std::vector<std::pair<std::string_view, std::string>>& values) {
  // One pass, so that a mark inside a value stays what it is.
  std::string result;
  while (!text.empty()) {
    const std::size_t open = std::min(text.find('@'), text.size());
    result += text.substr(0, open);
    text.remove_prefix(open);
    const auto marked = std::ranges::find_if(values, [text](const auto& value) {
      return text.starts_with(fmt::format("@{}@", value.first));
    });
    if (marked != values.end()) {
      result += marked->second;
      text.remove_prefix(marked->first.size() + 2);
    } else if (!text.empty()) {
      result += '@';
      text.remove_prefix(1);
    }
  }
  return result;
}

std::string python_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\\' || c == '"') {
      escaped += {'\\', c};
    } else if (code < 0x20 || code == 0x7f) {
      escaped += fmt::format("\\x{:02x}", code);
    } else {
      escaped += c;
    }
  }
  return escaped;
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
    text += fmt::format("{}  {:<9} {}, {} parameters{}", first == 0 ? "" : "\n", range,
                        python_text(kind), parameters, next - first > 1 ? " each" : "");
  }
  return text;
}

std::vector<int> bounds_of(const ResolvedPlan& loaded) {
  std::vector<int> bounds{0};
  bounds.insert(bounds.end(), loaded.plan.boundaries.begin(), loaded.plan.boundaries.end());
  bounds.push_back(static_cast<int>(loaded.model.layers.size()));
  return bounds;
}

std::string torch_dtype(Dtype dtype) {
  return dtype == Dtype::bf16 ? "bfloat16" : dtype == Dtype::fp16 ? "float16" : "float32";
}

}  // namespace weir
