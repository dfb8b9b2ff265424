// A descriptor of cuDNN's backend API: created by its type, told its attributes, then finalised and
// from then on fixed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <span>

#include "exec/cuda/cudnn/cudnn_check.hpp"
#include "exec/cuda/driver/unique_handle.hpp"

namespace weir::cuda {

// Which of the API's attribute types a C++ type is.
template <class T>
inline constexpr cudnnBackendAttributeType_t kAttributeType =
    static_cast<cudnnBackendAttributeType_t>(-1);
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<std::int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnPointwiseMode_t> =
    CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnReduceTensorOp_t> =
    CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnBackendHeurMode_t> =
    CUDNN_TYPE_HEUR_MODE;

class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    CUDNN_CHECK(cudnnBackendCreateDescriptor(type, &made));
    owned_ = Owned(made);
  }
  [[nodiscard]] cudnnBackendDescriptor_t get() const { return owned_.get(); }

  template <class T>
  void set_all(cudnnBackendAttributeName_t name, std::span<const T> values) {
    static_assert(kAttributeType<T> != static_cast<cudnnBackendAttributeType_t>(-1),
                  "no attribute of this type");
    CUDNN_CHECK(cudnnBackendSetAttribute(get(), name, kAttributeType<T>,
                                         static_cast<std::int64_t>(values.size()), values.data()));
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set_all(name, std::span<const T>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    const cudnnBackendDescriptor_t handle = value.get();
    CUDNN_CHECK(cudnnBackendSetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle));
  }
  void finalize() { CUDNN_CHECK(cudnnBackendFinalize(get())); }

 private:
  static void release(cudnnBackendDescriptor_t handle) noexcept {
    static_cast<void>(cudnnBackendDestroyDescriptor(handle));
  }
  using Owned = UniqueHandle<cudnnBackendDescriptor_t, release>;
  Owned owned_;
};

}  // namespace weir::cuda
