// Matrix products by cuBLASLt. A product's algorithm is chosen once per shape, without split-K, and then fixed, so that
// the same product has the same bits every time. Accumulation is fp32; inputs are rounded to tf32 where asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "exec/cuda/cuda_check.hpp"

namespace weir::cuda {

// c[m, n] (+)= a[m, k] b[k, n] + bias[n], row-major; strides in elements, one of each operand's two is 1, so a
// transposed operand is one with its strides exchanged. A batch repeats the product at steps a_step, b_step, c_step.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 1;
  std::int64_t b_row = 0, b_column = 1;
  std::int64_t c_row = 0;
  std::int64_t batch = 1, a_step = 0, b_step = 0, c_step = 0;
  bool bias = false;
  bool accumulate = false;
  auto operator<=>(const Product&) const = default;
};

// What each matrix of a product looks like to cuBLASLt, which stores columns one after the other: c' = b' a'.
struct ColumnMajor {
  std::int64_t rows = 0, columns = 0, leading = 0;
  bool transposed = false;
  auto operator<=>(const ColumnMajor&) const = default;
};
struct ColumnMajorProduct {
  ColumnMajor first, second, result;  // result = first * second
};
// Throws std::logic_error when neither stride of an operand is 1.
[[nodiscard]] ColumnMajorProduct column_major(const Product& product);

class Matmul {
 public:
  // The scratch memory that an algorithm may ask for; the same on every device, since the choice may depend on it.
  static constexpr std::int64_t kScratchBytes = std::int64_t{32} << 20;

  explicit Matmul(bool tf32);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  void prepare(const Product& product);  // on the device that will run it
  void run(const Product& product, const float* a, const float* b, const float* bias, float* c, void* scratch,
           cudaStream_t stream);

 private:
  struct Kernel;
  struct Library;
  bool tf32_;
  std::unique_ptr<Library> library_;
  std::map<Product, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace weir::cuda
