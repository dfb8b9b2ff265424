// Gemms as descriptors of cuBLASLt.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/gemm_descriptor.hpp"

#include "plan/model/layer_tensors.hpp"

namespace weir::cuda {
namespace {

template <class T>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
         const T& value) {
  CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof(value)));
}
template <class T>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)));
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

cudaDataType_t cuda_type(Element element) {
  return element == Element::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

// Our c is cuBLASLt's transposed: its A is our b and its B our a, so the sums of a over k are
// gradients "of B".
cublasLtEpilogue_t cublas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::row_sums_of_a:
      return CUBLASLT_EPILOGUE_BGRADB;
    default:
      return CUBLASLT_EPILOGUE_DEFAULT;
  }
}
bool has_bias(Epilogue e) {
  return e == Epilogue::bias || e == Epilogue::bias_gelu || e == Epilogue::row_sums_of_a;
}
bool has_aux(Epilogue e) { return e == Epilogue::bias_gelu || e == Epilogue::gelu_gradient; }

CublasHandle<cublasLtMatmulDesc_t> make_operation(const Gemm& p, const ColumnMajorGemm& columns,
                                                  Dtype dtype) {
  const auto compute = dtype == Dtype::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t made = nullptr;
  CUBLAS_CHECK(cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F));
  CublasHandle<cublasLtMatmulDesc_t> owned(made);
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, columns.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, columns.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(p.epilogue));
  if (has_aux(p.epilogue)) set(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, columns.result.leading);
  return owned;
}

CublasHandle<cublasLtMatrixLayout_t> make_layout(const ColumnMajor& matrix, Element element,
                                                 std::int64_t batch, std::int64_t step) {
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(cublasLtMatrixLayoutCreate(
      &layout, cuda_type(element), static_cast<std::uint64_t>(matrix.rows),
      static_cast<std::uint64_t>(matrix.columns), matrix.leading));
  CublasHandle<cublasLtMatrixLayout_t> owned(layout);
  if (batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
  }
  return owned;
}

CublasHandle<cublasLtMatmulPreference_t> make_preference(const Gemm& p,
                                                         const ColumnMajorGemm& columns,
                                                         Element element, Element result,
                                                         SumOverK sum) {
  cublasLtMatmulPreference_t made = nullptr;
  CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
  CublasHandle<cublasLtMatmulPreference_t> owned(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(kGemmScratchBytes));
  // Parts of a sum that is cut are kept apart in scratch, in fp32, and added in a step of their
  // own: the order is fixed.
  const std::uint32_t reductions = sum == SumOverK::cut ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                        : CUBLASLT_REDUCTION_SCHEME_NONE;
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);  // none is always allowed
  const auto align = [made](cublasLtMatmulPreferenceAttributes_t attribute, int bytes) {
    set(made, attribute, static_cast<std::uint32_t>(bytes));
  };
  // Every matrix of a batch must keep the alignment, so the steps between them count as much as the
  // row's.
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        alignment_bytes(columns.first, p.b_step | p.begins, element));
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        alignment_bytes(columns.second, p.a_step | p.begins, element));
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        alignment_bytes(columns.result, p.c_step | p.begins, result));
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        alignment_bytes(columns.result, p.c_step | p.begins, result));
  return owned;
}

}  // namespace

GemmDescriptor::GemmDescriptor(const Gemm& p, Dtype dtype, int multiprocessors, SumOverK sum)
    : gemm(p) {
  const ColumnMajorGemm columns = column_major(p);
  const Element element = element_of(dtype), c = p.fp32_result ? Element::fp32 : element;
  operation = make_operation(p, columns, dtype);
  target(multiprocessors);
  first = make_layout(columns.first, element, p.batch, p.b_step);
  second = make_layout(columns.second, element, p.batch, p.a_step);
  result = make_layout(columns.result, c, p.batch, p.c_step);
  preference = make_preference(p, columns, element, c, sum);
  // The heuristic looks at these addresses only for how they are aligned: tensors begin on
  // kTensorAlignment bytes.
  point(reinterpret_cast<void*>(kTensorAlignment), reinterpret_cast<void*>(kTensorAlignment));
}

void GemmDescriptor::target(int multiprocessors) const {
  set(operation.get(), CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
      static_cast<std::int32_t>(multiprocessors));
}

void GemmDescriptor::point(void* bias, void* aux) const {
  if (has_bias(gemm.epilogue)) set(operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (has_aux(gemm.epilogue)) set(operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
}

}  // namespace weir::cuda
