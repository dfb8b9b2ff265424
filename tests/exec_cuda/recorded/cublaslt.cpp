// cuBLASLt's products on the host, as its header describes them: column-major matrices, batches,
// epilogues. Checked against what the call states: alignments that the algorithm was chosen for,
// scratch memory, the epilogue's pointers. The heuristic proposes three algorithms, of which the
// first cuts the sums.
// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <cmath>
#include <cstring>
#include <map>

#include "tests/exec_cuda/recorded/calls.hpp"

using namespace weir::recorded;

namespace {

#define WEIR_BLAS_CALL() WEIR_CALL_OR(CUBLAS_STATUS_INTERNAL_ERROR)

constexpr int kCutting = 1;                  // of the algorithms 1, 2 and 3
constexpr std::size_t kScratch = 64 * 1024;  // that each asks for

// Of a descriptor, layout or preference: attributes as they were set.
struct Attributes {
  std::map<int, std::vector<std::byte>> set;
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;

  template <class T>
  [[nodiscard]] T get(int attribute, T otherwise) const {
    const auto found = set.find(attribute);
    if (found != set.end()) std::memcpy(&otherwise, found->second.data(), sizeof(T));
    return otherwise;
  }
  void put(int attribute, const void* value, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(value);
    set[attribute].assign(from, from + bytes);
  }
};
template <class Handle>
Attributes& of(Handle handle) {
  return *reinterpret_cast<Attributes*>(handle);
}

// What an algorithm was chosen for travels with it, as in the library's own.
struct Algorithm {
  int id;
  std::uint32_t alignment_a, alignment_b, alignment_c, alignment_d;
};
Algorithm read(const cublasLtMatmulAlgo_t& algorithm) {
  Algorithm own{};
  std::memcpy(&own, algorithm.data, sizeof(own));
  return own;
}

struct Matrix {
  const std::byte* data;
  bool bf16;
  std::int64_t rows, columns, leading, step;
  Matrix(const void* at, const Attributes& layout)
      : data(static_cast<const std::byte*>(at)),
        bf16(layout.type == CUDA_R_16BF),
        rows(static_cast<std::int64_t>(layout.rows)),
        columns(static_cast<std::int64_t>(layout.columns)),
        leading(layout.leading),
        step(layout.get<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0)) {}
  [[nodiscard]] std::int64_t bytes() const { return bf16 ? 2 : 4; }
  [[nodiscard]] std::byte* place(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    return const_cast<std::byte*>(data) + (batch * step + column * leading + row) * bytes();
  }
  [[nodiscard]] float get(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    const std::byte* at = place(batch, row, column);
    return bf16 ? __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(at))
                : *reinterpret_cast<const float*>(at);
  }
  void set(std::int64_t batch, std::int64_t row, std::int64_t column, double value) const {
    std::byte* at = place(batch, row, column);
    if (bf16) {
      *reinterpret_cast<__nv_bfloat16*>(at) = __float2bfloat16_rn(static_cast<float>(value));
    } else {
      *reinterpret_cast<float*>(at) = static_cast<float>(value);
    }
  }
  void used(std::int64_t batch, bool writes) const {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto length = static_cast<std::size_t>(rows * bytes());
      if (writes) {
        machine().writes(place(batch, 0, column), length);
      } else {
        machine().reads(place(batch, 0, column), length);
      }
    }
  }
};

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

struct Product {
  Matrix a, b, c, d;
  bool transposed_a, transposed_b;
  float alpha, beta;
  std::int64_t batches;
  int epilogue;
  std::byte* bias;
  std::byte* aux;
  std::int64_t aux_leading;

  [[nodiscard]] std::int64_t depth() const { return transposed_a ? a.rows : a.columns; }
  [[nodiscard]] Matrix beside() const {  // the matrix before GELU, as d is
    Matrix matrix = d;
    matrix.data = aux;
    matrix.bf16 = a.bf16;
    matrix.leading = aux_leading;
    return matrix;
  }

  void run(std::int64_t batch) const {
    a.used(batch, false);
    b.used(batch, false);
    if (beta != 0) c.used(batch, false);
    d.used(batch, true);
    const bool biased =
        epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    if (biased) machine().reads(bias, static_cast<std::size_t>(d.rows * (a.bf16 ? 2 : 4)));
    if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) beside().used(batch, true);
    if (epilogue == CUBLASLT_EPILOGUE_DGELU) beside().used(batch, false);
    for (std::int64_t column = 0; column < d.columns; ++column) {
      for (std::int64_t row = 0; row < d.rows; ++row)
        d.set(batch, row, column, element(batch, row, column));
    }
    if (epilogue == CUBLASLT_EPILOGUE_BGRADB) sums_of_b();
  }

  [[nodiscard]] double element(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (std::int64_t k = 0; k < depth(); ++k) {
      const double first = transposed_a ? a.get(batch, k, row) : a.get(batch, row, k);
      sum += first * (transposed_b ? b.get(batch, column, k) : b.get(batch, k, column));
    }
    sum *= double{alpha};
    if (beta != 0) sum += double{beta} * double{c.get(batch, row, column)};
    switch (epilogue) {
      case CUBLASLT_EPILOGUE_BIAS:
        return sum + bias_of(row);
      case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        beside().set(batch, row, column, sum + bias_of(row));
        return gelu(sum + bias_of(row));
      case CUBLASLT_EPILOGUE_DGELU:
        return sum * gelu_slope(double{beside().get(batch, row, column)});
      default:
        return sum;
    }
  }
  [[nodiscard]] double bias_of(std::int64_t row) const {
    return a.bf16 ? double{__bfloat162float(reinterpret_cast<const __nv_bfloat16*>(bias)[row])}
                  : double{reinterpret_cast<const float*>(bias)[row]};
  }
  // Gradients of a bias beside its weight's: fp32 here, as they are asked for.
  void sums_of_b() const {
    machine().writes(bias, static_cast<std::size_t>(d.columns) * 4);
    for (std::int64_t column = 0; column < d.columns; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth(); ++k)
        sum += double{transposed_b ? b.get(0, column, k) : b.get(0, k, column)};
      reinterpret_cast<float*>(bias)[column] = static_cast<float>(sum);
    }
  }
};

void check_alignment(const char* which, const void* data, std::uint32_t bytes) {
  if (bytes != 0 && reinterpret_cast<std::uintptr_t>(data) % bytes != 0)
    machine().violation(std::string("a product's ") + which + " is not aligned as was said");
}

void check_columns(const char* which, const Matrix& matrix) {
  if (matrix.leading < matrix.rows)
    machine().violation(std::string("columns of a product's ") + which + " overlap");
}

void fill(cublasLtMatmulHeuristicResult_t& result, int id, const Attributes* preference) {
  Algorithm own{id, 0, 0, 0, 0};
  if (preference != nullptr) {
    own.alignment_a = preference->get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 256U);
    own.alignment_b = preference->get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 256U);
    own.alignment_c = preference->get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 256U);
    own.alignment_d = preference->get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 256U);
  }
  result = {};
  std::memcpy(result.algo.data, &own, sizeof(own));
  result.workspaceSize = kScratch;
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
}

template <class Handle>
cublasStatus_t create(Handle* handle, const Attributes& attributes) {
  *handle = reinterpret_cast<Handle>(new Attributes(attributes));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t destroy(Handle handle) {
  delete &of(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Handle>
cublasStatus_t put(Handle handle, int attribute, const void* value, std::size_t bytes) {
  of(handle).put(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {
size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the recorded cuBLASLt"; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  WEIR_BLAS_CALL();
  return create(handle, {});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t,
                                        cudaDataType_t) {
  WEIR_BLAS_CALL();
  return create(made, {});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t made) { return destroy(made); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  WEIR_BLAS_CALL();
  return put(of, attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  WEIR_BLAS_CALL();
  return create(made,
                {.set = {}, .type = type, .rows = rows, .columns = columns, .leading = leading});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t made) { return destroy(made); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  WEIR_BLAS_CALL();
  return put(of, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  WEIR_BLAS_CALL();
  return create(made, {});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t made) {
  return destroy(made);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  WEIR_BLAS_CALL();
  return put(of, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  WEIR_BLAS_CALL();
  const int known = machine().faults.most_multiprocessors;
  const auto target = of(operation).get<std::int32_t>(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 0);
  *count = known > 0 && target > known ? 0 : std::min(most, 3);
  for (int i = 0; i < *count; ++i) fill(results[i], kCutting + i, &of(preference));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t*) {
  WEIR_BLAS_CALL();
  std::memset(value, 0, bytes);
  const bool cuts = read(*algorithm).id == kCutting;
  const std::uint32_t number =
      attribute == CUBLASLT_ALGO_CONFIG_ID ? static_cast<std::uint32_t>(read(*algorithm).id)
      : attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM && cuts ? 4U
      : attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME && cuts
          ? static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
      : attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? 1U
                                                     : 0U;
  std::memcpy(value, &number, std::min(bytes, sizeof(number)));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  WEIR_BLAS_CALL();
  const int refused = machine().faults.refused_algorithm;
  if (refused == -1 || refused == read(*algorithm).id) return CUBLAS_STATUS_NOT_SUPPORTED;
  fill(*result, read(*algorithm).id, nullptr);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* scratch,
                              size_t scratch_bytes, cudaStream_t handle) {
  WEIR_BLAS_CALL();
  Stream* stream = stream_here(handle, "a product");
  if (stream == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (stream->capture != nullptr && machine().faults.capture == Faults::Capture::product)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const Attributes& asked = of(operation);
  const auto bias = asked.get<std::byte*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
  const auto aux = asked.get<std::byte*>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr);
  const Product product{
      .a = Matrix(a, of(a_layout)),
      .b = Matrix(b, of(b_layout)),
      .c = Matrix(c, of(c_layout)),
      .d = Matrix(d, of(d_layout)),
      .transposed_a = asked.get(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T,
      .transposed_b = asked.get(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T,
      .alpha = *static_cast<const float*>(alpha),
      .beta = *static_cast<const float*>(beta),
      .batches = of(d_layout).get<std::int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1),
      .epilogue =
          static_cast<int>(asked.get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT)),
      .bias = bias,
      .aux = aux,
      .aux_leading = asked.get<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0)};
  const Algorithm chosen = read(*algorithm);
  check_columns("a", product.a);
  check_columns("b", product.b);
  check_columns("c", product.c);
  check_columns("d", product.d);
  check_alignment("a", a, chosen.alignment_a);
  check_alignment("b", b, chosen.alignment_b);
  check_alignment("c", c, chosen.alignment_c);
  check_alignment("d", d, chosen.alignment_d);
  if (scratch_bytes < kScratch) machine().violation("a product has too little scratch memory");
  put(*stream, {.what = "a product",
                .work =
                    [product, scratch] {
                      machine().writes(scratch, kScratch);
                      for (std::int64_t batch = 0; batch < product.batches; ++batch)
                        product.run(batch);
                    },
                .kinds = {"algorithm " + std::to_string(chosen.id),
                          "epilogue " + std::to_string(product.epilogue)}});
  return CUBLAS_STATUS_SUCCESS;
}
}
