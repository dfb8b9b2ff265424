// The passes' names.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/layer_share.hpp"

#include "plan/words/names.hpp"

namespace weir::layout {
namespace {

constexpr Names<Pass, 4> kPassNames{
    {{Pass::F, "F"}, {Pass::I, "I"}, {Pass::W, "W"}, {Pass::step, "step"}}};

}  // namespace

std::string_view to_string(Pass pass) { return name_of(kPassNames, pass); }

}  // namespace weir::layout
