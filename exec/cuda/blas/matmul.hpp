// Matrix products by cuBLASLt. A gemm's algorithm is chosen once per shape, and then fixed, so
// that the same gemm has the same bits every time; without split-K unless that is asked for. By the
// library's own order, which knows no K; or by times, for a rank's own share.
// Accumulation is fp32; fp32 operands are rounded to tf32 where asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/blas/fixed_choices.hpp"
#include "exec/cuda/blas/gemm_descriptor.hpp"
#include "exec/cuda/blas/launch_timer.hpp"

namespace weir::cuda {

// Device memory of one gemm. Elements are of the format it computes in; c of fp32_result and row
// sums are fp32.
struct Operands {
  const void *a, *b;
  void* c;
  void* bias = nullptr;         // read by bias and bias_gelu; written by row_sums_of_a
  void* aux = nullptr;          // written by bias_gelu; read by gelu_gradient
  const void* added = nullptr;  // what accumulate adds to, laid out as c; null: c itself
};

// How an algorithm that was chosen for some multiprocessors runs on the share: as it is; another,
// because the share refuses that one, so bits may be others; or on those few alone.
enum class Spread : std::uint8_t { as_chosen, chosen_again, confined };

// What was chosen for a gemm, in cuBLASLt's numbers.
struct GemmChoice {
  Gemm gemm;
  int algorithm = 0, tile = 0, stages = 0;
  std::int64_t scratch_bytes = 0;
  float waves = 0;  // the algorithm's own estimate of how often it fills the device
  Spread spread = Spread::as_chosen;
  int candidates = 1;  // that may be timed
};

class Matmul {
 public:
  static constexpr std::int64_t kScratchBytes = kGemmScratchBytes;

  // Algorithms are chosen for so many multiprocessors; 0: for what the device or its current
  // context has. dtype: fp32, tf32 or bf16.
  Matmul(Dtype dtype, int multiprocessors, SumOverK sum = SumOverK::whole)
      : Matmul(dtype, multiprocessors, sum, multiprocessors) {}
  // And then spread over `share` of them, where cuBLASLt takes the same algorithm there. Its tiles
  // and the order of their sums stay what they are, and so do the bits; how many are made at once
  // changes.
  Matmul(Dtype dtype, int multiprocessors, SumOverK sum, int share);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  [[nodiscard]] Element element() const { return element_of(dtype_); }

  // On the device that will run it. Throws RunFailed when cuBLASLt has no such algorithm.
  void prepare(const Gemm& gemm);
  // The same where the library may have none for this epilogue: then the gemm is not ready and
  // nothing is thrown.
  void try_prepare(const Gemm& gemm);
  [[nodiscard]] bool ready(const Gemm& gemm) const { return kernels_.contains(gemm); }
  // Precondition: ready; the matrices begin on 16 bytes, or where a row or a step of theirs does,
  // or where the gemm says that they may.
  void run(const Gemm& gemm, const Operands& operands, void* scratch, cudaStream_t stream);

  // Times the candidates of every prepared gemm and keeps the fastest of each, where `fixed` has
  // not one already.
  void keep_fastest(LaunchTimer& timer, FixedChoices& fixed);
  // Of a gemm whose candidates were timed.
  [[nodiscard]] Seconds time(const Gemm& gemm) const;
  // As if it had never been prepared.
  void forget(const Gemm& gemm);
  [[nodiscard]] FixedChoices::Key key(const Gemm& gemm) const { return {gemm, dtype_, share_}; }

  // Products that do not run as they were chosen, in a line; empty: all do.
  [[nodiscard]] std::string remarks() const;
  // Of all prepared gemms, in their order.
  [[nodiscard]] std::vector<GemmChoice> choices() const;

 private:
  struct Kernel;
  struct Library;
  Dtype dtype_;
  int multiprocessors_, share_;
  SumOverK sum_;
  std::unique_ptr<Library> library_;
  std::map<Gemm, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace weir::cuda
