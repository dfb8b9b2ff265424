// Gemms by cuBLASLt: the algorithm of each shape is chosen once.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/matmul.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "exec/cuda/blas/gemm_descriptor.hpp"
#include "plan/words/error.hpp"

namespace weir::cuda {
namespace {

template <class T>
T config_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  CUBLAS_CHECK(
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), nullptr));
  return value;
}

// By the one scheme that keeps to the order of summation, or not at all where sums are to be whole.
bool sums_as_asked(const cublasLtMatmulAlgo_t& algorithm, SumOverK sum) {
  const auto scheme = config_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  if (sum == SumOverK::cut && scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return true;
  return scheme == CUBLASLT_REDUCTION_SCHEME_NONE &&
         config_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1;
}

}  // namespace

struct Matmul::Library {
  CublasHandle<cublasLtHandle_t> handle;
  Library() {
    cublasLtHandle_t made = nullptr;
    CUBLAS_CHECK(cublasLtCreate(&made));
    handle = CublasHandle<cublasLtHandle_t>(made);
  }
};

struct Matmul::Kernel {
  GemmDescriptor descriptor;
  cublasLtMatmulAlgo_t algorithm{};
  GemmChoice choice;

  // The best of the heuristic's; false where there is none.
  [[nodiscard]] bool choose(cublasLtHandle_t handle, SumOverK sum) {
    std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, descriptor.operation.get(), descriptor.first.get(), descriptor.second.get(),
        descriptor.result.get(), descriptor.result.get(), descriptor.preference.get(),
        static_cast<int>(found.size()), found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
      return false;
    CUBLAS_CHECK(status);
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& candidate = found[static_cast<std::size_t>(i)];
      if (candidate.state != CUBLAS_STATUS_SUCCESS || !sums_as_asked(candidate.algo, sum)) continue;
      algorithm = candidate.algo;
      choice = {
          descriptor.gemm,
          config_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID),
          static_cast<int>(config_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID)),
          static_cast<int>(config_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID)),
          static_cast<std::int64_t>(candidate.workspaceSize),
          candidate.wavesCount};
      return true;
    }
    return false;
  }

  // To `share` multiprocessors, where the algorithm is accepted there with the scratch memory it
  // has.
  void spread(cublasLtHandle_t handle, int chosen_for, int share) {
    descriptor.target(share);
    cublasLtMatmulHeuristicResult_t there{};
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(
        handle, descriptor.operation.get(), descriptor.first.get(), descriptor.second.get(),
        descriptor.result.get(), descriptor.result.get(), &algorithm, &there);
    if (status == CUBLAS_STATUS_SUCCESS && there.state == CUBLAS_STATUS_SUCCESS &&
        there.workspaceSize <= static_cast<std::size_t>(kScratchBytes)) {
      choice.waves = there.wavesCount;
      choice.scratch_bytes = static_cast<std::int64_t>(there.workspaceSize);
    } else {
      descriptor.target(chosen_for);
    }
  }
};

Matmul::Matmul(Dtype dtype, int multiprocessors, SumOverK sum, int share)
    : dtype_(dtype),
      multiprocessors_(multiprocessors),
      share_(share),
      sum_(sum),
      library_(std::make_unique<Library>()) {}
Matmul::~Matmul() = default;

void Matmul::try_prepare(const Gemm& gemm) {
  if (ready(gemm) || !may_carry(gemm)) return;
  auto made = std::make_unique<Kernel>(
      Kernel{GemmDescriptor(gemm, dtype_, multiprocessors_, sum_), {}, {}});
  if (!made->choose(library_->handle.get(), sum_)) return;
  if (share_ != multiprocessors_) made->spread(library_->handle.get(), multiprocessors_, share_);
  kernels_[gemm] = std::move(made);
}

void Matmul::prepare(const Gemm& gemm) {
  try_prepare(gemm);
  if (ready(gemm)) return;
  throw RunFailed(fmt::format("cuBLASLt has no algorithm{} for a {} product of {} x {} x {} ({})",
                              sum_ == SumOverK::whole ? " without split-K" : "", to_string(dtype_),
                              gemm.m, gemm.n, gemm.k, to_string(gemm.epilogue)));
}

void Matmul::run(const Gemm& gemm, const Operands& operands, void* scratch, cudaStream_t stream) {
  const auto found = kernels_.find(gemm);
  if (found == kernels_.end()) throw std::logic_error("a matrix product was not prepared");
  const Kernel& kernel = *found->second;
  const GemmDescriptor& d = kernel.descriptor;
  d.point(operands.bias, operands.aux);
  const float one = 1;
  const float kept = gemm.accumulate ? 1.0F : 0.0F;
  const void* added = operands.added != nullptr ? operands.added : operands.c;
  CUBLAS_CHECK(cublasLtMatmul(library_->handle.get(), d.operation.get(), &one, operands.b,
                              d.first.get(), operands.a, d.second.get(), &kept, added,
                              d.result.get(), operands.c, d.result.get(), &kernel.algorithm,
                              scratch, static_cast<std::size_t>(kScratchBytes), stream));
}

std::vector<GemmChoice> Matmul::choices() const {
  std::vector<GemmChoice> chosen;
  for (const auto& [gemm, kernel] : kernels_) chosen.push_back(kernel->choice);
  return chosen;
}

}  // namespace weir::cuda
