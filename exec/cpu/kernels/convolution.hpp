// Convolutions by oneDNN, single-threaded, on maps with channels last and weights as PyTorch keeps
// them, [out, in / groups, height, width]. The library has an order of its own for weights: each
// pass puts them into it, in scratch memory. Kernels are made once for a size; what differs between
// oneDNN 2.6 and 3.x stays in convolution.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "exec/cpu/kernels/kernels.hpp"

namespace weir::cpu {

struct ConvolutionSize {
  std::int64_t batch = 1, groups = 1;
  std::int64_t in = 0, in_height = 0, in_width = 0;
  std::int64_t out = 0, out_height = 0, out_width = 0;
  std::int64_t kernel_height = 1, kernel_width = 1;
  std::int64_t stride_y = 1, stride_x = 1;
  std::int64_t pad_y = 0, pad_x = 0;  // above and on the left; behind, what the output needs
  bool bias = false;
  auto operator<=>(const ConvolutionSize&) const = default;
};

class Convolutions {
 public:
  Convolutions();
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  // Makes the kernels of a size ready and counts their scratch memory.
  void prepare(const ConvolutionSize& size);
  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_bytes_; }
  void use_scratch(std::byte* scratch) { scratch_ = scratch; }

  // y = x * w + bias.
  void forward(const ConvolutionSize& size, const float* x, const float* w, const float* bias,
               float* y);
  void input_gradient(const ConvolutionSize& size, const float* w, const float* dy, float* dx);
  // dw (+)= of the weights; that of a bias is dy's column sum.
  void weight_gradient(const ConvolutionSize& size, const float* x, const float* dy, Beta beta,
                       float* dw);

 private:
  struct Library;
  struct Kernels;
  [[nodiscard]] Kernels& kernels(const ConvolutionSize& size);

  std::unique_ptr<Library> library_;
  std::map<ConvolutionSize, std::unique_ptr<Kernels>> kernels_;
  std::int64_t scratch_bytes_ = 0;
  std::byte* scratch_ = nullptr;
};

}  // namespace weir::cpu
