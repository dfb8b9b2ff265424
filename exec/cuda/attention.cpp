// Which fused attention a layer takes: cuDNN's where it can, else our own kernels.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "exec/cuda/kernels/flash_attention.hpp"
#include "plan/words/error.hpp"
#ifdef WEIR_HAS_CUDNN
#include "exec/cuda/cudnn/cudnn_attention.hpp"
#include "exec/cuda/cudnn/cudnn_check.hpp"
#include "exec/cuda/cudnn/cudnn_library.hpp"
#include "exec/cuda/driver/unique_handle.hpp"
#endif

namespace weir::cuda {

#ifdef WEIR_HAS_CUDNN

inline void release_cudnn(cudnnHandle_t handle) noexcept {
  static_cast<void>(cudnnDestroy(handle));
}

namespace {
auto key_of(const AttentionShape& z) {
  return std::tuple(z.batch, z.s, z.heads, z.d, z.dtype, z.dropout, z.kv_heads, z.window, z.causal);
}
}  // namespace

struct CudnnLibrary {
  struct Plans {
    std::optional<CudnnAttention> attention;
    std::string why;  // there are none
  };
  explicit CudnnLibrary(CudnnPlace at) : place(std::move(at)) {}
  const CudnnPlace place;  // outlives the handle
  UniqueHandle<cudnnHandle_t, release_cudnn> handle;
  std::map<decltype(key_of(AttentionShape{})), Plans> made;

  // The plans of a shape, made at its first mention. Whatever cuDNN cannot do or fails at is an
  // answer: there are our own kernels.
  const Plans& plans_of(const AttentionShape& shape, cudaStream_t stream) {
    const auto [at, fresh] = made.try_emplace(key_of(shape));
    if (fresh) at->second = make(shape, stream);
    return at->second;
  }
  [[nodiscard]] SmGroups::Entered enter() const { return {place.groups.get(), place.group}; }
  // The handle keeps no stream that may end before it.
  void forget_stream() noexcept {
    if (!handle) return;
    try {
      const SmGroups::Entered entered = enter();
      static_cast<void>(cudnnSetStream(handle.get(), nullptr));
    } catch (const RunFailed&) {  // of a device that no longer answers
      handle.reset();
    }
  }
  [[nodiscard]] const CudnnAttention* find(const AttentionShape& shape) const {
    const auto found = made.find(key_of(shape));
    return found == made.end() || !found->second.attention ? nullptr : &*found->second.attention;
  }

 private:
  Plans make(const AttentionShape& shape, cudaStream_t stream) {
    if (!CudnnAttention::suits(shape))
      return {std::nullopt, "cuDNN's are for bf16 without dropout"};
    if (std::string missing = cudnn_missing(); !missing.empty()) return {std::nullopt, missing};
    try {
      // Made within the rank's share of the device, whose multiprocessors the plans are for.
      const SmGroups::Entered entered = enter();
      if (!handle) {
        cudnnHandle_t created = nullptr;
        CUDNN_CHECK(cudnnCreate(&created));
        handle = UniqueHandle<cudnnHandle_t, release_cudnn>(created);
      }
      CUDNN_CHECK(
          cudnnSetStream(handle.get(), stream));  // refuses streams that are not of its context
      Plans plans{CudnnAttention::make(shape, CudnnTarget(handle.get())), ""};
      if (!plans.attention)
        plans.why = "cuDNN has no deterministic ones for this shape: " + cudnn_last_words();
      return plans;
    } catch (const RunFailed& failed) {
      return {std::nullopt, failed.what()};
    }
  }
};

CudnnFacts cudnn_facts() {
  if (const std::string missing = cudnn_missing(); !missing.empty())
    return {false, missing + ": fused attention by our own kernels alone"};
  const std::size_t version = cudnnGetVersion();
  return {true,
          fmt::format(
              "cuDNN {}.{}.{}: fused attention in bf16 without dropout; otherwise our own kernels",
              version / 10000, version / 100 % 100, version % 100)};
}

#else

struct CudnnLibrary {
  explicit CudnnLibrary(const CudnnPlace&) {}
};

CudnnFacts cudnn_facts() {
  return {false, "this build has no cuDNN: fused attention by our own kernels alone"};
}

#endif

std::shared_ptr<CudnnLibrary> CudnnLibraries::of_this_thread(const CudnnPlace& place) {
  const std::scoped_lock lock(mutex_);
  const int group = place.groups ? place.group : -1;
  std::shared_ptr<CudnnLibrary>& library = made_[{std::this_thread::get_id(), place.device, group}];
#ifdef WEIR_HAS_CUDNN
  // Divided anew, the device has other groups of these numbers.
  if (library && library->place.groups != place.groups) library.reset();
#endif
  if (!library) library = std::make_shared<CudnnLibrary>(place);
  return library;
}

Attention::Attention(Choice choice, std::shared_ptr<CudnnLibrary> library)
    : choice_(choice), library_(std::move(library)) {}
Attention::~Attention() {
#ifdef WEIR_HAS_CUDNN
  library_->forget_stream();
#endif
}

void Attention::prepare(const AttentionShape& shape, cudaStream_t stream) {
  static_cast<void>(stream);
  label_ = "own";
#ifdef WEIR_HAS_CUDNN
  // A shape that cuDNN takes is done here; for all others the reason goes into the label.
  if (choice_ == Choice::best) {
    const CudnnLibrary::Plans& plans = library_->plans_of(shape, stream);
    if (plans.attention) {
      scratch_bytes_ = std::max(scratch_bytes_, plans.attention->workspace_bytes());
      label_ = "cuDNN";
      return;
    }
    label_ = fmt::format("own ({})", plans.why);
  }
#else
  if (choice_ == Choice::best) label_ = "own (this build has no cuDNN)";
#endif
  if (!flash_suits(shape)) {
    throw UsageError(
        fmt::format("fused attention on cuda: no kernel for heads of {} in {}; unfused has",
                    shape.d, to_string(shape.dtype)));
  }
}

void Attention::forward(const AttentionShape& shape, const AttentionForward& call, void* scratch,
                        cudaStream_t stream) {
#ifdef WEIR_HAS_CUDNN
  if (const CudnnAttention* cudnn = choice_ == Choice::best ? library_->find(shape) : nullptr) {
    const SmGroups::Entered entered = library_->enter();
    CUDNN_CHECK(cudnnSetStream(library_->handle.get(), stream));
    return cudnn->forward(library_->handle.get(), call, scratch);
  }
#endif
  static_cast<void>(scratch);
  flash_forward(shape, call, stream);
}

void Attention::backward(const AttentionShape& shape, const AttentionBackward& call, void* scratch,
                         cudaStream_t stream) {
#ifdef WEIR_HAS_CUDNN
  if (const CudnnAttention* cudnn = choice_ == Choice::best ? library_->find(shape) : nullptr) {
    const SmGroups::Entered entered = library_->enter();
    CUDNN_CHECK(cudnnSetStream(library_->handle.get(), stream));
    return cudnn->backward(library_->handle.get(), call, scratch);
  }
#endif
  static_cast<void>(scratch);
  flash_backward(shape, call, stream);
}

std::string Attention::kernels_of(const AttentionShape& shape) const {
#ifdef WEIR_HAS_CUDNN
  if (choice_ == Choice::best && library_->find(shape) != nullptr) return "cuDNN";
#endif
  static_cast<void>(shape);
  return "own";
}

}  // namespace weir::cuda
