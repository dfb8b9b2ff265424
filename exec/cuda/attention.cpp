// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "exec/cuda/flash_attention.hpp"
#include "plan/error.hpp"
#ifdef WEIR_HAS_CUDNN
#include <cudnn_version.h>

#include "exec/cuda/cudnn_attention.hpp"
#include "exec/cuda/cudnn_check.hpp"
#include "exec/cuda/unique_handle.hpp"
#endif

namespace weir::cuda {

#ifdef WEIR_HAS_CUDNN

namespace {
void release(cudnnHandle_t handle) noexcept { static_cast<void>(cudnnDestroy(handle)); }

auto key_of(const AttentionShape& z) { return std::tuple(z.batch, z.s, z.heads, z.d, z.dtype, z.dropout); }
}  // namespace

struct Attention::Library {
  UniqueHandle<cudnnHandle_t, release> handle;
  std::map<decltype(key_of(AttentionShape{})), std::optional<CudnnAttention>> made;  // nullopt: cuDNN cannot

  // The plans of a shape, made at its first mention; null: it is our own kernels'.
  const CudnnAttention* prepare(const AttentionShape& shape) {
    if (!CudnnAttention::suits(shape)) return nullptr;
    const auto [at, fresh] = made.try_emplace(key_of(shape));
    if (fresh) {
      if (!handle) {
        cudnnHandle_t created = nullptr;
        CUDNN_CHECK(cudnnCreate(&created));
        handle = UniqueHandle<cudnnHandle_t, release>(created);
      }
      at->second = CudnnAttention::make(shape, CudnnTarget(handle.get()));
    }
    return at->second ? &*at->second : nullptr;
  }
  [[nodiscard]] const CudnnAttention* find(const AttentionShape& shape) const {
    const auto found = made.find(key_of(shape));
    return found == made.end() || !found->second ? nullptr : &*found->second;
  }
};

CudnnFacts cudnn_facts() {
  const std::size_t version = cudnnGetVersion();
  return {true, fmt::format("cuDNN {}.{}.{}: fused attention in bf16 without dropout; otherwise our own kernels",
                            version / 10000, version / 100 % 100, version % 100)};
}

#else

struct Attention::Library {};

CudnnFacts cudnn_facts() { return {false, "this build has no cuDNN: fused attention by our own kernels alone"}; }

#endif

Attention::Attention(Choice choice) : choice_(choice), library_(std::make_unique<Library>()) {}
Attention::~Attention() = default;

void Attention::prepare(const AttentionShape& shape) {
#ifdef WEIR_HAS_CUDNN
  if (choice_ == Choice::best) {
    if (const CudnnAttention* cudnn = library_->prepare(shape)) {
      scratch_bytes_ = std::max(scratch_bytes_, cudnn->workspace_bytes());
      return;
    }
  }
#endif
  if (!flash_suits(shape)) {
    throw UsageError(fmt::format("fused attention on cuda: no kernel for heads of {} in {}; unfused has", shape.d,
                                 to_string(shape.dtype)));
  }
}

void Attention::forward(const AttentionShape& shape, const AttentionForward& call, void* scratch, cudaStream_t stream) {
#ifdef WEIR_HAS_CUDNN
  if (const CudnnAttention* cudnn = library_->find(shape)) {
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
  if (const CudnnAttention* cudnn = library_->find(shape)) {
    CUDNN_CHECK(cudnnSetStream(library_->handle.get(), stream));
    return cudnn->backward(library_->handle.get(), call, scratch);
  }
#endif
  static_cast<void>(scratch);
  flash_backward(shape, call, stream);
}

std::string Attention::kernels_of(const AttentionShape& shape) const {
#ifdef WEIR_HAS_CUDNN
  if (library_->find(shape) != nullptr) return "cuDNN";
#endif
  static_cast<void>(shape);
  return "own";
}

}  // namespace weir::cuda
