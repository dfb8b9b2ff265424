// What cuBLASLt is told about a gemm, read back from its own descriptors: no device needed.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/gemm_descriptor.hpp"

#include <gtest/gtest.h>

#include "exec/cuda/blas/linear.hpp"

namespace weir::cuda::gemm_descriptor_test {
namespace {

template <class T>
T read(const GemmDescriptor& d, cublasLtMatmulDescAttributes_t attribute) {
  T value{};
  CUBLAS_CHECK(
      cublasLtMatmulDescGetAttribute(d.operation.get(), attribute, &value, sizeof(value), nullptr));
  return value;
}
template <class T>
T read(const GemmDescriptor& d, cublasLtMatmulPreferenceAttributes_t attribute) {
  T value{};
  CUBLAS_CHECK(cublasLtMatmulPreferenceGetAttribute(d.preference.get(), attribute, &value,
                                                    sizeof(value), nullptr));
  return value;
}

struct Layout {
  std::uint32_t type = 0;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
  std::int32_t batch = 0;
  std::int64_t step = 0;
  auto operator<=>(const Layout&) const = default;
};
Layout read(const CublasHandle<cublasLtMatrixLayout_t>& handle) {
  Layout layout;
  const auto get = [&](cublasLtMatrixLayoutAttribute_t attribute, auto& value) {
    CUBLAS_CHECK(
        cublasLtMatrixLayoutGetAttribute(handle.get(), attribute, &value, sizeof(value), nullptr));
  };
  get(CUBLASLT_MATRIX_LAYOUT_TYPE, layout.type);
  get(CUBLASLT_MATRIX_LAYOUT_ROWS, layout.rows);
  get(CUBLASLT_MATRIX_LAYOUT_COLS, layout.columns);
  get(CUBLASLT_MATRIX_LAYOUT_LD, layout.leading);
  get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout.batch);
  get(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout.step);
  return layout;
}

// 5 rows, 16 numbers to 24, bf16: A is the weight [24, 16] as it lies, 16 x 24 and transposed; B
// the input; the result and the matrix beside it have columns of 24. fp32 in between.
TEST(GemmDescriptors, GeluAndTheMatrixBesideIt) {
  const GemmDescriptor d(Linear{5, 16, 24}.forward(Epilogue::bias_gelu), Dtype::bf16, 0);
  EXPECT_EQ(read<std::uint32_t>(d, CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  EXPECT_EQ(read<std::int64_t>(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), 24);
  EXPECT_EQ(read<std::int32_t>(d, CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_T);
  EXPECT_EQ(read<std::int32_t>(d, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
  EXPECT_EQ(read<std::int32_t>(d, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(read<std::int32_t>(d, CUBLASLT_MATMUL_DESC_SCALE_TYPE), CUDA_R_32F);
  EXPECT_EQ(read(d.first), (Layout{CUDA_R_16BF, 16, 24, 16, 1, 0}));
  EXPECT_EQ(read(d.second), (Layout{CUDA_R_16BF, 16, 5, 16, 1, 0}));
  EXPECT_EQ(read(d.result), (Layout{CUDA_R_16BF, 24, 5, 24, 1, 0}));
}

TEST(GemmDescriptors, PointersAreThoseOfTheCall) {
  float bias = 0, aux = 0;
  const GemmDescriptor d(Linear{5, 16, 24}.forward(Epilogue::bias_gelu), Dtype::bf16, 0);
  EXPECT_EQ(read<std::uintptr_t>(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER) % 64, 0U);
  EXPECT_EQ(read<std::uintptr_t>(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) % 64, 0U);
  d.point(&bias, &aux);
  EXPECT_EQ(read<void*>(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER), &bias);
  EXPECT_EQ(read<void*>(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER), &aux);
  const GemmDescriptor plain(Linear{5, 16, 24}.input(Epilogue::none), Dtype::bf16, 0);
  plain.point(&bias, &aux);
  EXPECT_EQ(read<void*>(plain, CUBLASLT_MATMUL_DESC_BIAS_POINTER), nullptr);
}

// The weight's gradient of a bf16 layer is fp32, and so is the bias' beside it.
TEST(GemmDescriptors, WeightGradientsAreFp32) {
  const GemmDescriptor d(Linear{5, 16, 24}.weight(true, Epilogue::row_sums_of_a), Dtype::bf16, 0);
  EXPECT_EQ(read<std::uint32_t>(d, CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_BGRADB);
  EXPECT_EQ(read<std::int32_t>(d, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_T);
  EXPECT_EQ(read(d.first), (Layout{CUDA_R_16BF, 16, 5, 16, 1, 0}));
  EXPECT_EQ(read(d.second), (Layout{CUDA_R_16BF, 24, 5, 24, 1, 0}));
  EXPECT_EQ(read(d.result), (Layout{CUDA_R_32F, 16, 24, 16, 1, 0}));
}

// Of one output, whose weights' gradient is over a single column; of one input, whose rows are one
// number.
TEST(GemmDescriptors, ASingleColumnLeadsByItsLength) {
  const GemmDescriptor output(Linear{5, 16, 1}.weight(false, Epilogue::none), Dtype::bf16, 0);
  EXPECT_EQ(read<std::int32_t>(output, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
  EXPECT_EQ(read(output.second), (Layout{CUDA_R_16BF, 5, 1, 5, 1, 0}));
  EXPECT_EQ(read(output.result), (Layout{CUDA_R_32F, 16, 1, 16, 1, 0}));
  const GemmDescriptor input(Linear{5, 1, 24}.weight(false, Epilogue::none), Dtype::bf16, 0);
  EXPECT_EQ(read(input.first), (Layout{CUDA_R_16BF, 1, 5, 1, 1, 0}));
  EXPECT_EQ(read(input.second), (Layout{CUDA_R_16BF, 24, 5, 24, 1, 0}));
  EXPECT_EQ(read(input.result), (Layout{CUDA_R_32F, 1, 24, 1, 1, 0}));
}

TEST(GemmDescriptors, ABatchHasSteps) {
  const Gemm p{.m = 8,
               .n = 8,
               .k = 4,
               .a_row = 4,
               .b_row = 8,
               .c_row = 8,
               .batch = 3,
               .a_step = 32,
               .b_step = 40,
               .c_step = 64};
  const GemmDescriptor d(p, Dtype::fp32, 0);
  EXPECT_EQ(read(d.first), (Layout{CUDA_R_32F, 8, 4, 8, 3, 40}));
  EXPECT_EQ(read(d.second), (Layout{CUDA_R_32F, 4, 8, 4, 3, 32}));
  EXPECT_EQ(read(d.result), (Layout{CUDA_R_32F, 8, 8, 8, 3, 64}));
}

// tf32 only where it is asked for; the smallest group's multiprocessors where there are groups;
// split-K only where asked.
TEST(GemmDescriptors, HowItIsChosen) {
  const Gemm p = Linear{5, 16, 24}.input(Epilogue::none);
  const GemmDescriptor tf32(p, Dtype::tf32, 16), fp32(p, Dtype::fp32, 0);
  EXPECT_EQ(read<std::int32_t>(tf32, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE),
            CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(read<std::int32_t>(fp32, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(read<std::int32_t>(tf32, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET), 16);
  EXPECT_EQ(read<std::int32_t>(fp32, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET), 0);
  fp32.target(64);
  EXPECT_EQ(read<std::int32_t>(fp32, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET), 64);
  EXPECT_EQ(read<std::uint32_t>(fp32, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
            CUBLASLT_REDUCTION_SCHEME_NONE);
  const GemmDescriptor cut(p, Dtype::fp32, 0, SumOverK::cut);
  EXPECT_EQ(read<std::uint32_t>(cut, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
            CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  EXPECT_EQ(read<std::uint64_t>(fp32, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
            std::uint64_t{32} << 20);
}

// Operands of 7 numbers a row in bf16 begin on 2 bytes, a result of 7 fp32 on 4.
TEST(GemmDescriptors, AlignmentsAreTheShapes) {
  Gemm p{.m = 5, .n = 7, .k = 16, .a_row = 16, .b_row = 7, .c_row = 7};
  p.fp32_result = true;
  const GemmDescriptor d(p, Dtype::bf16, 0);
  EXPECT_EQ(read<std::uint32_t>(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), 2U);
  EXPECT_EQ(read<std::uint32_t>(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES), 16U);
  EXPECT_EQ(read<std::uint32_t>(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES), 4U);
  EXPECT_EQ(read<std::uint32_t>(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES), 4U);
}

}  // namespace
}  // namespace weir::cuda::gemm_descriptor_test
