// Names and widths of number formats.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/dtype.hpp"

#include "plan/words/names.hpp"

namespace weir {
namespace {
constexpr Names<Dtype, 4> kNames{
    {{Dtype::fp32, "fp32"}, {Dtype::tf32, "tf32"}, {Dtype::bf16, "bf16"}, {Dtype::fp16, "fp16"}}};
}

std::string_view to_string(Dtype dtype) { return name_of(kNames, dtype); }

std::optional<Dtype> parse_dtype(std::string_view text) { return named(kNames, text); }

}  // namespace weir
