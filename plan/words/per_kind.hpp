// One value for each kind of compute action: what a stage's F, I, W, B and R of a micro-batch take
// (or hold, or scatter by), and its optimizer.
//
//   PerKind<Seconds> time{.f = ..., .b = ...};
//   for (const ActionKind kind : kComputeKinds) time[kind] *= factor;
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cassert>

#include "plan/words/action.hpp"

namespace weir {

// What a stage computes for a micro-batch, and all that it computes.
inline constexpr std::array kPassKinds{ActionKind::F, ActionKind::B, ActionKind::I, ActionKind::W,
                                       ActionKind::R};
inline constexpr std::array kComputeKinds{ActionKind::F, ActionKind::B, ActionKind::I,
                                          ActionKind::W, ActionKind::R, ActionKind::OPTIMIZER};

template <class T>
struct PerKind {
  T f{}, i{}, w{}, b{}, r{}, optimizer{};

  // Precondition: is_compute(kind).
  [[nodiscard]] constexpr T& operator[](ActionKind kind) { return this->*member(kind); }
  [[nodiscard]] constexpr const T& operator[](ActionKind kind) const { return this->*member(kind); }

  constexpr PerKind& operator+=(const PerKind& other) {
    for (const ActionKind kind : kComputeKinds) (*this)[kind] += other[kind];
    return *this;
  }
  bool operator==(const PerKind&) const = default;

 private:
  static constexpr T PerKind::*member(ActionKind kind) {
    switch (kind) {
      case ActionKind::F:
        return &PerKind::f;
      case ActionKind::I:
        return &PerKind::i;
      case ActionKind::W:
        return &PerKind::w;
      case ActionKind::B:
        return &PerKind::b;
      case ActionKind::R:
        return &PerKind::r;
      default:
        assert(kind == ActionKind::OPTIMIZER && "messages and reductions are not computed");
        return &PerKind::optimizer;
    }
  }
};

}  // namespace weir
