// Constants of kernels, fitted to measured rates: what the cluster files of tools/examples have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/job/cluster.hpp"
#include "tools/reproduce/published.hpp"

namespace weir {

struct FittedProducts {
  ProductRates rates;
  int rows = 0;
};
struct FittedAttention {
  AttentionRates rates;
  int rows = 0;
};
struct FittedStreams {
  double efficiency = 0;
  Seconds start{0};
  int rows = 0;
};

// By device ("A100-PCIe"), attention by device and library ("H100 flash2").
struct FittedKernels {
  std::map<std::string, FittedProducts> products;
  std::map<std::string, FittedAttention> attention;
  std::map<std::string, FittedStreams> streams;
};

// To all rows that a fit may see. Throws InputError.
[[nodiscard]] FittedKernels fit_kernels(const Publications& published);

}  // namespace weir
