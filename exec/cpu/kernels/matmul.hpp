// Matrix products by oneDNN, single-threaded. A gemm is prepared once per shape and layout and
// then only executed; what differs between oneDNN 2.6 and 3.x stays in matmul.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

namespace weir::cpu {

// c[m, n] (+)= a[m, k] b[k, n] + bias[n], all fp32; strides in elements, so a transposed operand is
// one with its strides exchanged.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 1;
  std::int64_t b_row = 0, b_column = 1;
  std::int64_t c_row = 0;
  bool bias = false;
  bool accumulate = false;
  auto operator<=>(const Gemm&) const = default;
};

class Matmul {
 public:
  Matmul();
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Makes the kernel of a gemm ready and counts its scratch memory.
  void prepare(const Gemm& gemm);
  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_bytes_; }
  void use_scratch(void* scratch) { scratch_ = scratch; }
  void run(const Gemm& gemm, const float* a, const float* b, const float* bias, float* c);

 private:
  struct Kernel;
  [[nodiscard]] Kernel& kernel(const Gemm& gemm);

  struct Library;
  std::unique_ptr<Library> library_;
  std::map<Gemm, std::unique_ptr<Kernel>> kernels_;
  std::int64_t scratch_bytes_ = 0;
  void* scratch_ = nullptr;
};

// The calling thread's library kernels use this thread only.
void use_one_thread();

}  // namespace weir::cpu
