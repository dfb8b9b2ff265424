// Matrix products of the emulated device: sums in double, in the order of k, with every epilogue
// that the passes ask for, so that their fused ways are taken where the format has them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/matmul.hpp"

#include <cmath>
#include <stdexcept>

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {
namespace {

double gelu_slope(double x) {
  const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

template <class E>
E rounded(double value) {
  return static_cast<E>(static_cast<float>(value));
}
template <class E>
double at(const void* array, std::int64_t i) {
  return double{static_cast<float>(static_cast<const E*>(array)[i])};
}

template <class E, class C>
C finished(const Gemm& p, const Operands& o, double sum, std::int64_t place, std::int64_t column) {
  switch (p.epilogue) {
    case Epilogue::bias:
      return rounded<C>(sum + at<E>(o.bias, column));
    case Epilogue::bias_gelu:
      sum += at<E>(o.bias, column);
      static_cast<E*>(o.aux)[place] = rounded<E>(sum);
      return rounded<C>(gelu(sum));
    case Epilogue::gelu_gradient:
      return rounded<C>(sum * gelu_slope(at<E>(o.aux, place)));
    default:
      return rounded<C>(sum);
  }
}

template <class E, class C>
void multiply(const Gemm& p, const Operands& o) {
  auto* c = static_cast<C*>(o.c);
  for (std::int64_t i = 0; i < p.batch; ++i) {
    for (std::int64_t row = 0; row < p.m; ++row) {
      for (std::int64_t column = 0; column < p.n; ++column) {
        const std::int64_t place = i * p.c_step + row * p.c_row + column;
        double sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
          sum += at<E>(o.a, i * p.a_step + row * p.a_row + k * p.a_column) *
                 at<E>(o.b, i * p.b_step + k * p.b_row + column * p.b_column);
        }
        if (p.accumulate) sum += at<C>(o.added != nullptr ? o.added : o.c, place);
        c[place] = finished<E, C>(p, o, sum, place, column);
      }
    }
  }
  if (p.epilogue != Epilogue::row_sums_of_a) return;
  for (std::int64_t row = 0; row < p.m; ++row) {
    double sum = 0;
    for (std::int64_t k = 0; k < p.k; ++k) sum += at<E>(o.a, row * p.a_row + k * p.a_column);
    static_cast<float*>(o.bias)[row] = static_cast<float>(sum);
  }
}

}  // namespace

struct Matmul::Library {};
struct Matmul::Kernel {};

Matmul::Matmul(Dtype dtype, int multiprocessors, SumOverK sum, int share)
    : dtype_(dtype), multiprocessors_(multiprocessors), share_(share), sum_(sum) {}
Matmul::~Matmul() = default;

void Matmul::try_prepare(const Gemm& gemm) {
  if (may_carry(gemm)) kernels_.try_emplace(gemm, std::make_unique<Kernel>());
}

void Matmul::prepare(const Gemm& gemm) {
  try_prepare(gemm);
  if (!ready(gemm)) throw std::logic_error("no product may carry that");
}

void Matmul::run(const Gemm& gemm, const Operands& operands, void*, cudaStream_t) {
  if (!ready(gemm)) throw std::logic_error("a matrix product was not prepared");
  if (element() == Element::fp32) return multiply<float, float>(gemm, operands);
  if (gemm.fp32_result) return multiply<Bf16, float>(gemm, operands);
  multiply<Bf16, Bf16>(gemm, operands);
}

std::vector<GemmChoice> Matmul::choices() const {
  std::vector<GemmChoice> chosen;
  for (const auto& [gemm, kernel] : kernels_) chosen.push_back({.gemm = gemm});
  return chosen;
}

}  // namespace weir::cuda
