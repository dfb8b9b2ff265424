// What was timed once for a product and is then the same for every rank and run of the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include <map>
#include <mutex>
#include <tuple>

#include "exec/cuda/blas/gemm.hpp"
#include "plan/words/dtype.hpp"
#include "plan/words/units.hpp"

namespace weir::cuda {

struct FixedChoice {
  cublasLtMatmulAlgo_t algorithm{};
  std::int64_t scratch_bytes = 0;
  float waves = 0;
  Seconds time{0};
};

struct FixedChoices {
  // The product, its format, and the multiprocessors that it runs on.
  using Key = std::tuple<Gemm, Dtype, int>;
  std::mutex mutex;  // held while a rank chooses: the others then find its choices
  std::map<Key, FixedChoice> products;
  std::map<Key, bool> epilogue_wins;  // over the product and a pass behind it
};

}  // namespace weir::cuda
