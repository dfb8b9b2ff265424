// Fused attention on CUDA: cuDNN's kernels where the build has cuDNN and it suits the shape, our own otherwise. Which
// is decided when a shape is prepared, by the shape and the device alone, so that equal layers have equal bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "exec/cuda/attention_shape.hpp"

namespace weir::cuda {

class Attention {
 public:
  enum class Choice : std::uint8_t { best, own };

  explicit Attention(Choice choice = Choice::best);
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // On the device that will run it. Throws UsageError where no kernel suits.
  void prepare(const AttentionShape& shape);
  // The most that any prepared shape asks for; 16-byte aligned memory.
  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_bytes_; }
  // Precondition: prepared. They return before the work is done.
  void forward(const AttentionShape& shape, const AttentionForward& call, void* scratch, cudaStream_t stream);
  void backward(const AttentionShape& shape, const AttentionBackward& call, void* scratch, cudaStream_t stream);
  // "cuDNN" or "own".
  [[nodiscard]] std::string kernels_of(const AttentionShape& shape) const;

 private:
  struct Library;  // cuDNN's handle and plans
  Choice choice_;
  std::unique_ptr<Library> library_;
  std::int64_t scratch_bytes_ = 0;
};

struct CudnnFacts {
  bool present = false;
  std::string why;  // one line: the version, or why there is none
};
// What this build has of cuDNN. Needs no device.
[[nodiscard]] CudnnFacts cudnn_facts();

}  // namespace weir::cuda
