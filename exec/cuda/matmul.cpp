// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/matmul.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <stdexcept>

#include "exec/cuda/unique_handle.hpp"
#include "plan/error.hpp"
#include "plan/layer_tensors.hpp"

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
template <class T>
T config_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  CUBLAS_CHECK(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), nullptr));
  return value;
}

cudaDataType_t cuda_type(Element element) { return element == Element::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

// Our c is cuBLASLt's transposed: its A is our b and its B our a, so the sums of a over k are gradients "of B".
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
bool has_bias(Epilogue e) { return e == Epilogue::bias || e == Epilogue::bias_gelu || e == Epilogue::row_sums_of_a; }
bool has_aux(Epilogue e) { return e == Epilogue::bias_gelu || e == Epilogue::gelu_gradient; }

Owned<cublasLtMatrixLayout_t> make_layout(const ColumnMajor& matrix, Element element, std::int64_t batch,
                                          std::int64_t step) {
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, cuda_type(element), static_cast<std::uint64_t>(matrix.rows),
                                          static_cast<std::uint64_t>(matrix.columns), matrix.leading));
  Owned<cublasLtMatrixLayout_t> owned(layout);
  if (batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
  }
  return owned;
}

}  // namespace

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
  ProductChoice choice;

  Kernel(const Product& p, Dtype dtype, Element element, int multiprocessors) {
    const auto compute = dtype == Dtype::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasLtMatmulDesc_t made = nullptr;
    CUBLAS_CHECK(cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F));
    descriptor = Owned<cublasLtMatmulDesc_t>(made);
    const ColumnMajorProduct columns = column_major(p);
    set(made, CUBLASLT_MATMUL_DESC_TRANSA, columns.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(made, CUBLASLT_MATMUL_DESC_TRANSB, columns.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(p.epilogue));
    if (has_aux(p.epilogue)) set(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, columns.result.leading);
    point(p, reinterpret_cast<void*>(kTensorAlignment), reinterpret_cast<void*>(kTensorAlignment));
    if (multiprocessors > 0) {
      set(made, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<std::int32_t>(multiprocessors));
    }
    first = make_layout(columns.first, element, p.batch, p.b_step);
    second = make_layout(columns.second, element, p.batch, p.a_step);
    result = make_layout(columns.result, result_of(p, element), p.batch, p.c_step);
  }

  static Element result_of(const Product& p, Element element) { return p.fp32_result ? Element::fp32 : element; }

  // The heuristic looks at these addresses only for how they are aligned: tensors begin on kTensorAlignment bytes.
  void point(const Product& p, void* bias, void* aux) const {
    if (has_bias(p.epilogue)) set(descriptor.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (has_aux(p.epilogue)) set(descriptor.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
  }

  // The choice must not depend on where a tensor lies, only on the shape.
  static Owned<cublasLtMatmulPreference_t> preference_of(const Product& p, Element element) {
    cublasLtMatmulPreference_t made = nullptr;
    CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
    Owned<cublasLtMatmulPreference_t> preference(made);
    set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kScratchBytes));
    const std::uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;  // no split-K: one order of summation
    set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, no_reduction);
    const ColumnMajorProduct columns = column_major(p);
    const auto c = static_cast<std::uint32_t>(alignment_bytes(columns.result, p.c_step, result_of(p, element)));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        static_cast<std::uint32_t>(alignment_bytes(columns.first, p.b_step, element)));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        static_cast<std::uint32_t>(alignment_bytes(columns.second, p.a_step, element)));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c);
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c);
    return preference;
  }

  // The best of the heuristic's that does not split K; false where there is none.
  [[nodiscard]] bool choose(cublasLtHandle_t handle, const Product& p, Element element) {
    const auto preference = preference_of(p, element);
    std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, descriptor.get(), first.get(), second.get(), result.get(), result.get(),
                                       preference.get(), static_cast<int>(found.size()), found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
    CUBLAS_CHECK(status);
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& candidate = found[static_cast<std::size_t>(i)];
      const cublasLtMatmulAlgo_t& algo = candidate.algo;
      if (candidate.state != CUBLAS_STATUS_SUCCESS) continue;
      if (config_of<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1) continue;
      if (config_of<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) != CUBLASLT_REDUCTION_SCHEME_NONE) {
        continue;
      }
      algorithm = algo;
      choice = {p,
                config_of<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID),
                static_cast<int>(config_of<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID)),
                static_cast<int>(config_of<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID)),
                static_cast<std::int64_t>(candidate.workspaceSize),
                candidate.wavesCount};
      return true;
    }
    return false;
  }
};

Matmul::Matmul(Dtype dtype, int multiprocessors)
    : dtype_(dtype), multiprocessors_(multiprocessors), library_(std::make_unique<Library>()) {}
Matmul::~Matmul() = default;

void Matmul::try_prepare(const Product& product) {
  if (ready(product) || !may_carry(product)) return;
  auto made = std::make_unique<Kernel>(product, dtype_, element(), multiprocessors_);
  if (made->choose(library_->handle.get(), product, element())) kernels_[product] = std::move(made);
}

void Matmul::prepare(const Product& product) {
  try_prepare(product);
  if (ready(product)) return;
  throw RunFailed(fmt::format("cuBLASLt has no algorithm without split-K for a {} product of {} x {} x {} ({})",
                              to_string(dtype_), product.m, product.n, product.k, to_string(product.epilogue)));
}

void Matmul::run(const Product& product, const Operands& operands, void* scratch, cudaStream_t stream) {
  const auto found = kernels_.find(product);
  if (found == kernels_.end()) throw std::logic_error("a matrix product was not prepared");
  const Kernel& kernel = *found->second;
  kernel.point(product, operands.bias, operands.aux);
  const float one = 1;
  const float kept = product.accumulate ? 1.0F : 0.0F;
  CUBLAS_CHECK(cublasLtMatmul(library_->handle.get(), kernel.descriptor.get(), &one, operands.b, kernel.first.get(),
                              operands.a, kernel.second.get(), &kept, operands.c, kernel.result.get(), operands.c,
                              kernel.result.get(), &kernel.algorithm, scratch, static_cast<std::size_t>(kScratchBytes),
                              stream));
}

std::vector<ProductChoice> Matmul::choices() const {
  std::vector<ProductChoice> chosen;
  for (const auto& [product, kernel] : kernels_) chosen.push_back(kernel->choice);
  return chosen;
}

}  // namespace weir::cuda
