// Loops over named dimensions.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/kernels/network_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

// c[j] += a b over the fastest dimension of c.
void add_row(std::int64_t n, const float* a, std::int64_t a_step, const float* b,
             std::int64_t b_step, float* c) {
  if (a_step == 0 && b_step == 1) {
    const float factor = *a;
    for (std::int64_t j = 0; j < n; ++j) c[j] += factor * b[j];
  } else if (a_step == 1 && b_step == 0) {
    const float factor = *b;
    for (std::int64_t j = 0; j < n; ++j) c[j] += a[j] * factor;
  } else {
    for (std::int64_t j = 0; j < n; ++j) c[j] += a[j * a_step] * b[j * b_step];
  }
}

template <class Function>
void each(const NamedBlock& in, const NamedBlock& out, const Function& function) {
  walk<2>(out.shape->dimensions, {in.shape, out.shape}, [&](const std::array<std::int64_t, 2>& at) {
    out.numbers[at[1]] = function(in.numbers[at[0]]);
  });
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Of gelu by tanh: its argument, and the argument's derivative.
constexpr float kCubic = 0.044715F;
const float kScale = std::sqrt(2 / std::numbers::pi_v<float>);

float value_of(std::string_view function, float x) {
  if (function == "relu") return std::max(x, 0.0F);
  if (function == "tanh") return std::tanh(x);
  if (function == "sigmoid") return sigmoid(x);
  if (function == "silu") return x * sigmoid(x);
  if (function == "gelu_tanh") return x / 2 * (1 + std::tanh(kScale * (x + kCubic * x * x * x)));
  return x / 2 * (1 + std::erf(x / std::numbers::sqrt2_v<float>));  // gelu
}

float slope_of(std::string_view function, float x) {
  if (function == "relu") return x > 0 ? 1.0F : 0.0F;
  if (function == "tanh") return 1 - std::tanh(x) * std::tanh(x);
  if (function == "sigmoid") return sigmoid(x) * (1 - sigmoid(x));
  if (function == "silu") return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
  if (function == "gelu_tanh") {
    const float t = std::tanh(kScale * (x + kCubic * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * kScale * (1 + 3 * kCubic * x * x);
  }
  const float density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<float>);
  return (1 + std::erf(x / std::numbers::sqrt2_v<float>)) / 2 + x * density;
}

}  // namespace

bool is_packed(const BlockShape& factor, const BlockShape& c) {
  return c.dimensions.empty() || factor.stride(c.dimensions.back()) <= 1;
}

NamedBlock packed(const NamedBlock& factor, const BlockShape& c, PackingRoom& room) {
  if (is_packed(*factor.shape, c)) return factor;
  std::vector<int> order = factor.shape->dimensions;
  const int last = c.dimensions.back();
  std::erase(order, last);
  order.push_back(last);
  std::vector<std::int64_t> sizes;
  for (const int d : order) sizes.push_back(factor.shape->size(d));
  room.shape = BlockShape(order, std::move(sizes));
  room.numbers.resize(static_cast<std::size_t>(room.shape.elements));
  walk<2>(order, {factor.shape, &room.shape}, [&](const std::array<std::int64_t, 2>& at) {
    room.numbers[static_cast<std::size_t>(at[1])] = factor.numbers[at[0]];
  });
  return {&room.shape, room.numbers.data()};
}

void add_product(const NamedBlock& a, const NamedBlock& b, const NamedBlock& c) {
  // Outer to inner: c's dimensions, what is summed, and c's fastest dimension, along which rows are
  // added up.
  std::vector<int> loops = c.shape->dimensions;
  const int fastest = loops.empty() ? -1 : loops.back();
  if (!loops.empty()) loops.pop_back();
  for (const NamedBlock* factor : {&a, &b}) {
    for (const int d : factor->shape->dimensions) {
      if (d != fastest && !layout::has_dimension(loops, d)) loops.push_back(d);
    }
  }
  const std::int64_t n =
      std::max({c.shape->size(fastest), a.shape->size(fastest), b.shape->size(fastest)});
  walk<3>(loops, {a.shape, b.shape, c.shape}, [&](const std::array<std::int64_t, 3>& at) {
    add_row(n, a.numbers + at[0], a.shape->stride(fastest), b.numbers + at[1],
            b.shape->stride(fastest), c.numbers + at[2]);
  });
}

void add_to(const NamedBlock& a, const NamedBlock& c) {
  std::vector<int> loops = c.shape->dimensions;
  for (const int d : a.shape->dimensions) {
    if (!layout::has_dimension(loops, d)) loops.push_back(d);
  }
  walk<2>(loops, {a.shape, c.shape},
          [&](const std::array<std::int64_t, 2>& at) { c.numbers[at[1]] += a.numbers[at[0]]; });
}

void apply(std::string_view function, const NamedBlock& in, const NamedBlock& out) {
  each(in, out, [function](float x) { return value_of(function, x); });
}

void add_apply_gradient(std::string_view function, const NamedBlock& in,
                        const NamedBlock& gradient_out, const NamedBlock& gradient_in) {
  walk<3>(in.shape->dimensions, {in.shape, gradient_out.shape, gradient_in.shape},
          [&](const std::array<std::int64_t, 3>& at) {
            gradient_in.numbers[at[2]] +=
                gradient_out.numbers[at[1]] * slope_of(function, in.numbers[at[0]]);
          });
}

void glu(int over, const NamedBlock& in, const NamedBlock& out) {
  const std::int64_t other = in.shape->stride(over);
  const BlockShape rows = in.shape->without(over);
  walk<2>(out.shape->dimensions, {&rows, out.shape}, [&](const std::array<std::int64_t, 2>& at) {
    const float gate = in.numbers[at[0] + other];
    out.numbers[at[1]] = in.numbers[at[0]] * value_of("silu", gate);
  });
}

void add_glu_gradient(int over, const NamedBlock& in, const NamedBlock& gradient_out,
                      const NamedBlock& gradient_in) {
  const std::int64_t other = in.shape->stride(over);
  const BlockShape rows = in.shape->without(over);
  walk<2>(gradient_out.shape->dimensions, {&rows, gradient_out.shape},
          [&](const std::array<std::int64_t, 2>& at) {
            const float x = in.numbers[at[0]], gate = in.numbers[at[0] + other];
            const float gradient = gradient_out.numbers[at[1]];
            gradient_in.numbers[at[0]] += gradient * value_of("silu", gate);
            gradient_in.numbers[at[0] + other] += gradient * x * slope_of("silu", gate);
          });
}

namespace {

// visit(offset in what is chosen from, offset in what is chosen).
template <class Visit>
void each_choice(int over, const BlockShape& from, const std::vector<std::int64_t>& picks,
                 const BlockShape& out, const Visit& visit) {
  const BlockShape rows = from.without(over);
  std::size_t number = 0;
  walk<2>(out.dimensions, {&rows, &out}, [&](const std::array<std::int64_t, 2>& at) {
    visit(at[0] + picks[number++] * from.stride(over), at[1]);
  });
}

}  // namespace

void choose(int over, const NamedBlock& in, const std::vector<std::int64_t>& picks,
            const NamedBlock& out) {
  each_choice(over, *in.shape, picks, *out.shape,
              [&](std::int64_t from, std::int64_t to) { out.numbers[to] = in.numbers[from]; });
}

void add_choose_gradient(int over, const std::vector<std::int64_t>& picks,
                         const NamedBlock& gradient_out, const NamedBlock& gradient_in) {
  each_choice(over, *gradient_in.shape, picks, *gradient_out.shape,
              [&](std::int64_t to, std::int64_t from) {
                gradient_in.numbers[to] += gradient_out.numbers[from];
              });
}

}  // namespace weir::cpu
