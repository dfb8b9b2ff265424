// GELU and its slope, and gradients of biases: fused to a product, or behind it.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/epilogues.hpp"

#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/kernels/activation.hpp"
#include "exec/cuda/kernels/sums.hpp"

namespace weir::cuda {
namespace {

using Place = LaunchTimer::Place;

struct Contest {
  Matmul& matmul;
  LaunchTimer& timer;
  FixedChoices& fixed;

  // `pass` is launched behind `plain` where `fused` is not taken.
  template <class Pass>
  void between(const Gemm& fused, const Gemm& plain, Pass pass) {
    if (!matmul.ready(fused)) return;
    const auto [wins, fresh] = fixed.epilogue_wins.try_emplace(matmul.key(fused));
    if (fresh) wins->second = matmul.time(fused) < matmul.time(plain) + timer.time(pass);
    if (!wins->second) matmul.forget(fused);
  }
};

template <class E>
void contest(const TransformerShape& block, std::int64_t rows, Contest c) {
  const std::int64_t elements = rows * block.ffn;
  const auto [qkv, out, up, down] = block_products(block, rows);
  const auto bytes = static_cast<std::int64_t>(sizeof(E));
  const auto* x = static_cast<const E*>(c.timer.memory(Place::a, elements * bytes));
  auto* y = static_cast<E*>(c.timer.memory(Place::c, elements * bytes));
  // Each contest: the product with its epilogue, against the plain one and a kernel behind it.
  c.between(up.forward(Epilogue::bias_gelu), up.forward(),
            [&] { activate<E>(Curve::gelu_tanh, x, elements, y, c.timer.stream()); });
  c.between(down.input(Epilogue::gelu_gradient), down.input(Epilogue::none),
            [&] { activate_gradient<E>(Curve::gelu_tanh, x, elements, y, c.timer.stream()); });
  for (const Linear& linear : {qkv, out, up, down}) {
    if (!linear.bias) continue;
    const auto* dy = static_cast<const E*>(c.timer.memory(Place::a, rows * linear.out * bytes));
    auto* partials =
        static_cast<float*>(c.timer.memory(Place::c, linear.out * partials_of(rows) * 4));
    auto* sums = static_cast<float*>(c.timer.memory(Place::bias, linear.out * 4));
    // The gradient's first micro-batch overwrites and the others add: those are different products.
    for (const bool accumulate : {false, true}) {
      c.between(linear.weight(accumulate, Epilogue::row_sums_of_a),
                linear.weight(accumulate, Epilogue::none), [&, &of = linear] {
                  column_sum<E>(dy, {rows, of.out}, accumulate ? Beta::one : Beta::zero, partials,
                                sums, c.timer.stream());
                });
    }
  }
}

}  // namespace

void offer_gelu_gradient(const TransformerShape& block, std::int64_t batch, std::int64_t seq_length,
                         Matmul& matmul) {
  if (!block_epilogues(block, matmul.element()).gelu) return;
  const Linear down = block_products(block, batch * seq_length).down;
  matmul.try_prepare(down.input(Epilogue::gelu_gradient));
}

void keep_faster_epilogues(const TransformerShape& block, std::int64_t batch,
                           std::int64_t seq_length, Matmul& matmul, LaunchTimer& timer,
                           FixedChoices& fixed) {
  const Contest c{matmul, timer, fixed};
  if (matmul.element() == Element::bf16) {
    contest<Bf16>(block, batch * seq_length, c);
  } else {
    contest<float>(block, batch * seq_length, c);
  }
}

}  // namespace weir::cuda
