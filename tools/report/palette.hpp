// The colours of actions: each palette has its own on a light page and on a dark one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "plan/words/per_kind.hpp"
#include "tools/report/vector.hpp"

namespace weir {

// standard; safe for colour-blind readers (Okabe & Ito, Color Universal Design, 2008); greys for
// print.
enum class Palette : std::uint8_t { standard, colour_blind, grey };

// Standard: F blue, B green, I teal, W light green, R orange, optimizer grey.
[[nodiscard]] const PerKind<Paint>& colours(Palette palette);

// What is written on a box: white on dark ones, ink on light ones.
[[nodiscard]] Paint label_on(const Paint& fill);
// Of the same hue, and farther from what is written on it.
[[nodiscard]] Paint shade_of(const Paint& fill);

// "F forward", as a legend has it.
[[nodiscard]] std::string_view legend_of(ActionKind kind);

// Of line `i` of `count` (ranks, say): from blue to orange.
[[nodiscard]] Paint graded(int i, int count);

}  // namespace weir
