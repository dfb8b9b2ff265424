// The number formats that kernels read and write. Arithmetic is fp32 in all of them.
// The headers of this folder are C++17, because nvcc reads them too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace weir {

enum class Element : std::uint8_t { fp32, bf16 };

constexpr std::int64_t bytes_of(Element element) { return element == Element::fp32 ? 4 : 2; }

// Rows of one partial sum where a kernel sums over rows in two stages. A constant, not a function of the device: the
// order of every sum must be the same on any number of multiprocessors.
constexpr std::int64_t kRowsPerPartial = 64;
constexpr std::int64_t partials_of(std::int64_t rows) { return (rows + kRowsPerPartial - 1) / kRowsPerPartial; }

}  // namespace weir
