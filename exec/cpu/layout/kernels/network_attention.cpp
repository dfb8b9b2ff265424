// Loops over rows.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/kernels/network_attention.hpp"

#include <cmath>
#include <vector>

#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

struct Angle {
  float cosine = 1, sine = 0;
};

// Of one position, by pair.
void set_angles(const HeadTurn& turn, Turning way, std::int64_t position,
                std::vector<Angle>& angles) {
  constexpr double kBase = 10000;
  for (std::size_t i = 0; i < angles.size(); ++i) {
    const auto pair = static_cast<double>(turn.first_pair) + static_cast<double>(i);
    const double rate = std::pow(kBase, -2 * pair / static_cast<double>(turn.width));
    const double angle = static_cast<double>(position) * rate;
    const double sine = way == Turning::forwards ? std::sin(angle) : -std::sin(angle);
    angles[i] = {static_cast<float>(std::cos(angle)), static_cast<float>(sine)};
  }
}

}  // namespace

void softmax_gradient_in_place(int over, const NamedBlock& shares, const NamedBlock& gradient) {
  const std::int64_t n = shares.shape->size(over), step = shares.shape->stride(over),
                     gradient_step = gradient.shape->stride(over);
  const BlockShape rows = shares.shape->without(over);
  walk<2>(rows.dimensions, {&rows, gradient.shape}, [&](const std::array<std::int64_t, 2>& at) {
    const float* share = shares.numbers + at[0];
    float* g = gradient.numbers + at[1];
    float sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += share[i * step] * g[i * gradient_step];
    for (std::int64_t i = 0; i < n; ++i)
      g[i * gradient_step] = share[i * step] * (g[i * gradient_step] - sum);
  });
}

void add_turned(const HeadTurn& turn, Turning way, const NamedBlock& from, const NamedBlock& to) {
  const BlockShape positions({turn.positions}, {from.shape->size(turn.positions)});
  std::vector<int> rows = from.shape->without(turn.pairs).dimensions;
  // Positions outermost: each one's angles are made once.
  std::erase(rows, turn.positions);
  rows.insert(rows.begin(), turn.positions);
  std::vector<Angle> angles(at(from.shape->size(turn.pairs) / 2));
  const std::int64_t step = from.shape->stride(turn.pairs), to_step = to.shape->stride(turn.pairs);
  const BlockShape a = from.shape->without(turn.pairs), b = to.shape->without(turn.pairs);
  std::int64_t known = -1;
  walk<3>(rows, {&a, &b, &positions}, [&](const std::array<std::int64_t, 3>& at) {
    if (at[2] != known) set_angles(turn, way, turn.position + at[2], angles);
    known = at[2];
    const float* x = from.numbers + at[0];
    float* y = to.numbers + at[1];
    for (const Angle& angle : angles) {
      const float first = x[0], second = x[step];
      y[0] += first * angle.cosine - second * angle.sine;
      y[to_step] += first * angle.sine + second * angle.cosine;
      x += 2 * step;
      y += 2 * to_step;
    }
  });
}

}  // namespace weir::cpu
