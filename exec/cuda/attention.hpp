// Fused attention on CUDA: cuDNN's kernels where the build has cuDNN and it suits the shape, our
// own otherwise. Which is decided when a shape is prepared, by the shape, the device and the
// stream, so that equal layers have equal bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>

#include "exec/cuda/kernels/attention_shape.hpp"
#include "exec/cuda/sm/sm_groups.hpp"

namespace weir::cuda {

struct CudnnLibrary;  // cuDNN's handle and plans

// Where a library's handle works: a device, or a group of its multiprocessors.
struct CudnnPlace {
  int device = 0;
  std::shared_ptr<const SmGroups> groups;  // null: the whole device
  int group = 0;
};

// A plan of cuDNN takes half a second to make, so attentions of one thread at one place share
// theirs: one run after another, and the ranks of a run that share no device by groups. A handle
// belongs to the context in which it is made and refuses the streams of others, so a group has its
// own. Never two threads, since not every engine of cuDNN may be run by two at once.
class CudnnLibraries {
 public:
  // Any thread may ask. Never null; needs no device.
  [[nodiscard]] std::shared_ptr<CudnnLibrary> of_this_thread(const CudnnPlace& place);

 private:
  std::mutex mutex_;
  std::map<std::tuple<std::thread::id, int, int>, std::shared_ptr<CudnnLibrary>> made_;
};

class Attention {
 public:
  enum class Choice : std::uint8_t { best, own };

  // From prepare on, used by the thread whose library it is.
  Attention(Choice choice, std::shared_ptr<CudnnLibrary> library);
  ~Attention();  // before the streams it was given
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // On the device that will run it; `stream` is of the context that will. Throws UsageError where
  // no kernel suits.
  void prepare(const AttentionShape& shape, cudaStream_t stream);
  // The most that any prepared shape asks for; 16-byte aligned memory.
  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_bytes_; }
  // Precondition: prepared. They return before the work is done.
  void forward(const AttentionShape& shape, const AttentionForward& call, void* scratch,
               cudaStream_t stream);
  void backward(const AttentionShape& shape, const AttentionBackward& call, void* scratch,
                cudaStream_t stream);
  // "cuDNN" or "own".
  [[nodiscard]] std::string kernels_of(const AttentionShape& shape) const;
  // Of the shape prepared last, in a line: "cuDNN", or "own (" and why not cuDNN's ")"; empty where
  // none is.
  [[nodiscard]] const std::string& label() const { return label_; }

 private:
  Choice choice_;
  std::shared_ptr<CudnnLibrary> library_;
  std::int64_t scratch_bytes_ = 0;
  std::string label_;
};

struct CudnnFacts {
  bool present = false;
  std::string why;  // one line: the version, or why there is none
};
// What this build has of cuDNN. Needs no device.
[[nodiscard]] CudnnFacts cudnn_facts();

}  // namespace weir::cuda
