// A gemm as cuBLASLt's descriptors say it. Making them needs no device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/blas/gemm.hpp"
#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/driver/unique_handle.hpp"
#include "plan/words/dtype.hpp"

namespace weir::cuda {

inline void release(cublasLtHandle_t handle) noexcept {
  static_cast<void>(cublasLtDestroy(handle));
}
inline void release(cublasLtMatmulDesc_t descriptor) noexcept {
  static_cast<void>(cublasLtMatmulDescDestroy(descriptor));
}
inline void release(cublasLtMatrixLayout_t layout) noexcept {
  static_cast<void>(cublasLtMatrixLayoutDestroy(layout));
}
inline void release(cublasLtMatmulPreference_t preference) noexcept {
  static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
}
template <class Handle>
using CublasHandle = UniqueHandle<Handle, release>;

[[nodiscard]] constexpr Element element_of(Dtype dtype) {
  return dtype == Dtype::bf16 ? Element::bf16 : Element::fp32;
}

// The scratch memory that an algorithm may ask for; the same on every device, since the choice may
// depend on it.
inline constexpr std::int64_t kGemmScratchBytes = std::int64_t{32} << 20;

// Whether the sum over k may be cut (split-K): the parts' sums, fp32, lie in the scratch memory and
// are added in one order. A gradient of a weight is a small result of a long sum: uncut, GPT-2's
// 768 x 768 are 36 tiles of 128 x 128 for 132 multiprocessors.
enum class SumOverK : std::uint8_t { whole, cut };

struct GemmDescriptor {
  // For so many multiprocessors; 0: what the device or its current context has.
  GemmDescriptor(const Gemm& gemm, Dtype dtype, int multiprocessors,
                 SumOverK sum = SumOverK::whole);

  // How many multiprocessors it is for from now on.
  void target(int multiprocessors) const;
  // Where the bias and the matrix beside the result lie; ignored where the epilogue has none.
  void point(void* bias, void* aux) const;

  Gemm gemm;
  CublasHandle<cublasLtMatmulDesc_t> operation;
  CublasHandle<cublasLtMatrixLayout_t> first, second, result;
  CublasHandle<cublasLtMatmulPreference_t>
      preference;  // aligned as the shape keeps it, wherever tensors lie
};

}  // namespace weir::cuda
