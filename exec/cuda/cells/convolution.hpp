// A convolution on CUDA: products of its windows, unfolded in scratch memory, with its weights; for
// the input's gradient a product that is folded again (plan/model/unfolding).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/convolution.hpp"
#include "exec/cuda/layers.hpp"
#include "plan/model/cell_shape.hpp"
#include "plan/model/unfolding.hpp"

namespace weir::cuda {

class Convolution {
 public:
  Convolution(const FeatureMap& input, const CellOperation& operation, std::int64_t batch,
              const UnfoldingLimits& limits = {});

  // Makes all products ready; returns the scratch memory that they need.
  ScratchNeeds prepare(Matmul& matmul) const;

  // y = x * w + bias (null: none); E is the format that `on` computes in.
  template <class E>
  void forward(const Workbench& on, const E* x, const E* w, const E* bias, E* y) const;
  template <class E>
  void input_gradient(const Workbench& on, const E* w, const E* dy, E* dx) const;
  // dw (+)= of the weights; that of a bias is dy's column sum.
  template <class E>
  void weight_gradient(const Workbench& on, const E* x, const E* dy, Beta beta, float* dw) const;

 private:
  // Of one group.
  [[nodiscard]] Gemm forward_product(std::int64_t rows) const;
  [[nodiscard]] Gemm input_product(std::int64_t rows) const;
  [[nodiscard]] Gemm weight_product(std::int64_t rows, bool accumulate) const;
  [[nodiscard]] Gemm weight_parts(const RowParts& parts) const;  // one gradient beside the other
  // Where nothing is divided, a gradient's numbers.
  [[nodiscard]] std::int64_t numbers() const { return rows_.outputs * rows_.group_row; }
  // to (+)= a run's, of undivided weights.
  template <class E>
  void sum_in_parts(const Workbench& on, const RowParts& parts, const E* rows, const E* dy,
                    Beta beta, float* to) const;
  [[nodiscard]] std::int64_t begins() const;
  // The ordered weights, or `w` where they are that.
  template <class E>
  [[nodiscard]] const E* ordered(const Workbench& on, const E* w) const;
  // The run's windows, or the map itself.
  template <class E>
  [[nodiscard]] const E* unfolded(const Workbench& on, const E* x, const PlaceRun& run) const;

  Unfolding rows_;
  Filter filter_;
  bool bias_;
};

}  // namespace weir::cuda
