// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/matmul.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "exec/cuda/unique_handle.hpp"
#include "plan/error.hpp"

namespace weir::cuda {
namespace {

void release(cublasLtHandle_t handle) noexcept { static_cast<void>(cublasLtDestroy(handle)); }
void release(cublasLtMatmulDesc_t descriptor) noexcept { static_cast<void>(cublasLtMatmulDescDestroy(descriptor)); }
void release(cublasLtMatrixLayout_t layout) noexcept { static_cast<void>(cublasLtMatrixLayoutDestroy(layout)); }
void release(cublasLtMatmulPreference_t preference) noexcept {
  static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
}

template <class Handle>
using Owned = UniqueHandle<Handle, release>;

template <class T>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof(value)));
}
template <class T>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)));
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

// rows x columns with these strides, as columns stored one after the other.
ColumnMajor transpose_of(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  if (column == 1) return {columns, rows, row, false};
  if (row == 1) return {rows, columns, column, true};
  throw std::logic_error("a matrix operand with neither stride 1");
}

Owned<cublasLtMatrixLayout_t> make_layout(const ColumnMajor& matrix, std::int64_t batch, std::int64_t step) {
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, static_cast<std::uint64_t>(matrix.rows),
                                          static_cast<std::uint64_t>(matrix.columns), matrix.leading));
  Owned<cublasLtMatrixLayout_t> owned(layout);
  if (batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
  }
  return owned;
}

}  // namespace

ColumnMajorProduct column_major(const Product& p) {
  return {transpose_of(p.k, p.n, p.b_row, p.b_column), transpose_of(p.m, p.k, p.a_row, p.a_column),
          ColumnMajor{p.n, p.m, p.c_row, false}};
}

struct Matmul::Library {
  Owned<cublasLtHandle_t> handle;
  Library() {
    cublasLtHandle_t made = nullptr;
    CUBLAS_CHECK(cublasLtCreate(&made));
    handle = Owned<cublasLtHandle_t>(made);
  }
};

struct Matmul::Kernel {
  Owned<cublasLtMatmulDesc_t> descriptor;
  Owned<cublasLtMatrixLayout_t> first, second, result;
  cublasLtMatmulAlgo_t algorithm{};

  Kernel(const Product& p, bool tf32) {
    cublasLtMatmulDesc_t made = nullptr;
    CUBLAS_CHECK(cublasLtMatmulDescCreate(&made, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    descriptor = Owned<cublasLtMatmulDesc_t>(made);
    const ColumnMajorProduct columns = column_major(p);
    set(made, CUBLASLT_MATMUL_DESC_TRANSA, columns.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(made, CUBLASLT_MATMUL_DESC_TRANSB, columns.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (p.bias) set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    first = make_layout(columns.first, p.batch, p.b_step);
    second = make_layout(columns.second, p.batch, p.a_step);
    result = make_layout(columns.result, p.batch, p.c_step);
  }

  void choose(cublasLtHandle_t handle, const Product& p) {
    cublasLtMatmulPreference_t made = nullptr;
    CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
    const Owned<cublasLtMatmulPreference_t> preference(made);
    set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kScratchBytes));
    const std::uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;  // no split-K: one order of summation
    set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, no_reduction);
    // The choice must not depend on where a tensor lies: 16 bytes where every row and every step keeps them, else 4.
    const bool packs = (p.m | p.n | p.k | p.a_step | p.b_step | p.c_step) % 4 == 0;
    const std::uint32_t alignment = packs ? 16 : 4;
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, descriptor.get(), first.get(), second.get(),
                                                                 result.get(), result.get(), made, 1, &found, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
      throw RunFailed(fmt::format("cuBLASLt has no algorithm without split-K for a product of {} x {} x {} ({})", p.m,
                                  p.n, p.k, cublasLtGetStatusString(status)));
    }
    algorithm = found.algo;
  }
};

Matmul::Matmul(bool tf32) : tf32_(tf32), library_(std::make_unique<Library>()) {}
Matmul::~Matmul() = default;

void Matmul::prepare(const Product& product) {
  std::unique_ptr<Kernel>& kernel = kernels_[product];
  if (kernel) return;
  auto made = std::make_unique<Kernel>(product, tf32_);
  made->choose(library_->handle.get(), product);
  kernel = std::move(made);
}

void Matmul::run(const Product& product, const float* a, const float* b, const float* bias, float* c, void* scratch,
                 cudaStream_t stream) {
  const auto found = kernels_.find(product);
  if (found == kernels_.end()) throw std::logic_error("a matrix product was not prepared");
  const Kernel& kernel = *found->second;
  if (product.bias) set(kernel.descriptor.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1;
  const float kept = product.accumulate ? 1.0F : 0.0F;
  CUBLAS_CHECK(cublasLtMatmul(library_->handle.get(), kernel.descriptor.get(), &one, b, kernel.first.get(), a,
                              kernel.second.get(), &kept, c, kernel.result.get(), c, kernel.result.get(),
                              &kernel.algorithm, scratch, static_cast<std::size_t>(kScratchBytes), stream));
}

}  // namespace weir::cuda
