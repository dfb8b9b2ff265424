// Gemms by cuBLASLt: the algorithm of each shape is chosen once.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

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
  using Candidate = cublasLtMatmulHeuristicResult_t;
  GemmDescriptor descriptor;
  std::vector<Candidate> candidates;  // that run on the share, the library's favourite first
  cublasLtMatmulAlgo_t algorithm{};
  GemmChoice choice;
  Seconds time{0};

  // The library's, for as many multiprocessors as the descriptor says.
  [[nodiscard]] std::vector<Candidate> ask(cublasLtHandle_t handle, SumOverK sum) const {
    std::array<Candidate, 8> found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, descriptor.operation.get(), descriptor.first.get(), descriptor.second.get(),
        descriptor.result.get(), descriptor.result.get(), descriptor.preference.get(),
        static_cast<int>(found.size()), found.data(), &count);
    // No algorithm for this product is an answer: the caller may have another way.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
    CUBLAS_CHECK(status);
    std::vector<Candidate> all;
    for (int i = 0; i < count; ++i) {
      const Candidate& one = found[static_cast<std::size_t>(i)];
      if (one.state == CUBLAS_STATUS_SUCCESS && sums_as_asked(one.algo, sum)) all.push_back(one);
    }
    return all;
  }

  // Those of them that are accepted where the descriptor says now, with the scratch memory there.
  [[nodiscard]] std::vector<Candidate> accepted(cublasLtHandle_t handle,
                                                const std::vector<Candidate>& asked) const {
    std::vector<Candidate> all;
    for (const Candidate& one : asked) {
      Candidate there{};
      const cublasStatus_t status = cublasLtMatmulAlgoCheck(
          handle, descriptor.operation.get(), descriptor.first.get(), descriptor.second.get(),
          descriptor.result.get(), descriptor.result.get(), &one.algo, &there);
      if (status != CUBLAS_STATUS_SUCCESS || there.state != CUBLAS_STATUS_SUCCESS ||
          there.workspaceSize > static_cast<std::size_t>(kScratchBytes)) {
        continue;
      }
      // The check says what the algorithm needs with these multiprocessors; the algorithm itself
      // stays.
      there.algo = one.algo;
      all.push_back(there);
    }
    return all;
  }

  // The best of the heuristic's; false where there is none. Where the share refuses it, the next
  // that it takes, or the best that was made for the share; only where there is none at all the
  // gemm stays with those few multiprocessors that it was chosen for.
  [[nodiscard]] bool choose(cublasLtHandle_t handle, SumOverK sum, int chosen_for, int share) {
    std::vector<Candidate> asked = ask(handle, sum);
    if (asked.empty()) return false;
    Spread spread = Spread::as_chosen;
    if (share != chosen_for) {
      descriptor.target(share);
      const cublasLtMatmulAlgo_t first = asked.front().algo;
      // First what was found for the whole device: the same algorithm on every share gives the same
      // bits.
      std::vector<Candidate> there = accepted(handle, asked);
      if (there.empty()) there = ask(handle, sum);
      if (there.empty()) {
        descriptor.target(chosen_for);
        spread = Spread::confined;
      } else {
        if (std::memcmp(&there.front().algo, &first, sizeof(first)) != 0)
          spread = Spread::chosen_again;
        asked = std::move(there);
      }
    }
    candidates = std::move(asked);
    choice.spread = spread;
    take({candidates.front().algo,
          static_cast<std::int64_t>(candidates.front().workspaceSize),
          candidates.front().wavesCount,
          {}});
    return true;
  }

  void take(const FixedChoice& one) {
    algorithm = one.algorithm;
    time = one.time;
    choice = {descriptor.gemm,
              config_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID),
              static_cast<int>(config_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID)),
              static_cast<int>(config_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID)),
              one.scratch_bytes,
              one.waves,
              choice.spread,
              static_cast<int>(candidates.size())};
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
      Kernel{GemmDescriptor(gemm, dtype_, multiprocessors_, sum_), {}, {}, {}, {}});
  if (!made->choose(library_->handle.get(), sum_, multiprocessors_, share_)) return;
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
  // Bias and aux are pointers within the descriptor, so they are set before each launch.
  d.point(operands.bias, operands.aux);
  const float one = 1;
  // Beta: what is there already is kept, or not read at all.
  const float kept = gemm.accumulate ? 1.0F : 0.0F;
  const void* added = operands.added != nullptr ? operands.added : operands.c;
  CUBLAS_CHECK(cublasLtMatmul(library_->handle.get(), d.operation.get(), &one, operands.b,
                              d.first.get(), operands.a, d.second.get(), &kept, added,
                              d.result.get(), operands.c, d.result.get(), &kernel.algorithm,
                              scratch, static_cast<std::size_t>(kScratchBytes), stream));
}

namespace {

// As much memory as the product reaches into, and what is beside it.
Operands operands_of(const Gemm& p, std::int64_t element, LaunchTimer& timer) {
  using Place = LaunchTimer::Place;
  const auto reach = [](std::int64_t step, std::int64_t batch, std::int64_t last, std::int64_t of) {
    return ((batch - 1) * step + last + 1) * of;
  };
  const std::int64_t c = reach(p.c_step, p.batch, (p.m - 1) * p.c_row + p.n - 1, 4);
  return {timer.memory(Place::a, reach(p.a_step, p.batch,
                                       (p.m - 1) * p.a_row + (p.k - 1) * p.a_column, element)),
          timer.memory(Place::b, reach(p.b_step, p.batch,
                                       (p.k - 1) * p.b_row + (p.n - 1) * p.b_column, element)),
          timer.memory(Place::c, c), timer.memory(Place::bias, std::max(p.m, p.n) * 4),
          p.epilogue == Epilogue::bias_gelu || p.epilogue == Epilogue::gelu_gradient
              ? timer.memory(Place::aux, c)
              : nullptr};
}

}  // namespace

// A candidate that fails when it runs is none.
void Matmul::keep_fastest(LaunchTimer& timer, FixedChoices& fixed) {
  void* scratch = timer.memory(LaunchTimer::Place::scratch, kScratchBytes);
  for (auto& [gemm, kernel] : kernels_) {
    // A rank of an equal share has timed this product before: taking its choice keeps ranks alike.
    auto known = fixed.products.find(key(gemm));
    if (known == fixed.products.end()) {
      const Operands operands = operands_of(gemm, bytes_of(element()), timer);
      std::optional<FixedChoice> fastest;
      for (const Kernel::Candidate& one : kernel->candidates) {
        FixedChoice choice{
            one.algo, static_cast<std::int64_t>(one.workspaceSize), one.wavesCount, {}};
        kernel->take(choice);
        try {
          choice.time =
              timer.time([&, &timed = gemm] { run(timed, operands, scratch, timer.stream()); });
        } catch (const RunFailed&) {
          // One candidate that runs is enough. With none the last one's error says why.
          if (&one == &kernel->candidates.back() && !fastest) throw;
          continue;
        }
        if (!fastest || choice.time < fastest->time) fastest = choice;
      }
      known = fixed.products.emplace(key(gemm), *fastest).first;
    }
    kernel->take(known->second);
  }
}

void Matmul::forget(const Gemm& gemm) { kernels_.erase(gemm); }

Seconds Matmul::time(const Gemm& gemm) const { return kernels_.at(gemm)->time; }

std::string Matmul::remarks() const {
  int again = 0, confined = 0;
  for (const auto& [gemm, kernel] : kernels_) {
    again += static_cast<int>(kernel->choice.spread == Spread::chosen_again);
    confined += static_cast<int>(kernel->choice.spread == Spread::confined);
  }
  std::string line;
  if (again > 0) {
    line = fmt::format(
        "{} of {} products chosen again for {} multiprocessors, so bits may differ "
        "over K",
        again, kernels_.size(), share_);
  }
  if (confined > 0) {
    line +=
        fmt::format("{}{} of {} products run on {} of {} multiprocessors alone",
                    line.empty() ? "" : "; ", confined, kernels_.size(), multiprocessors_, share_);
  }
  return line;
}

std::vector<GemmChoice> Matmul::choices() const {
  std::vector<GemmChoice> chosen;
  for (const auto& [gemm, kernel] : kernels_) chosen.push_back(kernel->choice);
  return chosen;
}

}  // namespace weir::cuda
