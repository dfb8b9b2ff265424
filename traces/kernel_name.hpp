// Kernels by the names that people know them by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// From a kernel's symbol ("_ZN4weir4cuda...") to its function's name with its template's arguments,
// without result, namespaces and parameters: "gelu_kernel<float>". A name that is no C++ symbol is
// shortened alike, and comes back as it is where there is nothing to leave out (cuBLAS:
// "nvjet_hsh_128x256_64x4_1x2_h_bz_NNT").
[[nodiscard]] std::string short_kernel_name(const std::string& symbol);

}  // namespace weir
