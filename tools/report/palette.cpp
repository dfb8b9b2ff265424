// Colours of actions and of lines.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/palette.hpp"

#include <algorithm>

#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr PerKind<Paint> kStandard{.f = {{86, 141, 208}, {74, 130, 200}},
                                   .i = {{70, 160, 160}, {50, 138, 142}},
                                   .w = {{160, 205, 130}, {128, 174, 98}},
                                   .b = {{88, 165, 100}, {62, 138, 78}},
                                   .r = {{235, 160, 70}, {206, 132, 44}},
                                   .optimizer = {{150, 150, 150}, {112, 116, 122}}};
constexpr PerKind<Paint> kColourBlind{.f = {{0, 114, 178}, {30, 136, 200}},
                                      .i = {{86, 180, 233}, {110, 195, 240}},
                                      .w = {{240, 228, 66}, {222, 210, 60}},
                                      .b = {{0, 158, 115}, {0, 146, 106}},
                                      .r = {{213, 94, 0}, {220, 104, 16}},
                                      .optimizer = {{150, 150, 150}, {112, 116, 122}}};
// On a dark page what is dark on paper is light.
constexpr PerKind<Paint> kGrey{.f = {{70, 70, 70}, {205, 205, 205}},
                               .i = {{120, 120, 120}, {165, 165, 165}},
                               .w = {{205, 205, 205}, {85, 85, 85}},
                               .b = {{150, 150, 150}, {130, 130, 130}},
                               .r = {{180, 180, 180}, {105, 105, 105}},
                               .optimizer = {{225, 225, 225}, {65, 65, 65}}};

Colour written_on(const Colour& fill) {
  const double brightness = 0.299 * fill.red + 0.587 * fill.green + 0.114 * fill.blue;
  return brightness < 165 ? Colour{255, 255, 255} : kInk.light;
}

Colour between(const Colour& a, const Colour& b, double share) {
  const auto mixed = [share](std::uint8_t from, std::uint8_t to) {
    return static_cast<std::uint8_t>(from + share * (to - from));
  };
  return {mixed(a.red, b.red), mixed(a.green, b.green), mixed(a.blue, b.blue)};
}

}  // namespace

const PerKind<Paint>& colours(Palette palette) {
  switch (palette) {
    case Palette::colour_blind:
      return kColourBlind;
    case Palette::grey:
      return kGrey;
    default:
      return kStandard;
  }
}

Paint label_on(const Paint& fill) { return {written_on(fill.light), written_on(fill.dark)}; }

Paint shade_of(const Paint& fill) {
  const auto shaded = [](const Colour& colour) {
    const bool on_dark = written_on(colour) == Colour{255, 255, 255};
    return between(colour, on_dark ? Colour{0, 0, 0} : Colour{255, 255, 255}, 0.35);
  };
  return {shaded(fill.light), shaded(fill.dark)};
}

std::string_view legend_of(ActionKind kind) {
  static constexpr Names<ActionKind, 6> kLegend{{{ActionKind::F, "F forward"},
                                                 {ActionKind::B, "B backward"},
                                                 {ActionKind::I, "I backward for input"},
                                                 {ActionKind::W, "W backward for weights"},
                                                 {ActionKind::R, "R re-materialise"},
                                                 {ActionKind::OPTIMIZER, "optimizer"}}};
  return name_of(kLegend, kind);
}

Paint graded(int i, int count) {
  const double share = count > 1 ? static_cast<double>(i) / (count - 1) : 0;
  return {between({30, 90, 190}, {225, 120, 20}, share),
          between({90, 160, 255}, {250, 165, 70}, share)};
}

}  // namespace weir
