// A graph of cuDNN operations on tensors of four dimensions, put together call by call. Each
// operation names its result: a tensor in memory, or an intermediate that never is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "exec/cuda/cudnn/cudnn_descriptor.hpp"

namespace weir::cuda {

using CudnnDims = std::array<std::int64_t, 4>;
[[nodiscard]] CudnnDims packed(const CudnnDims& dims);  // row-major strides

// A tensor of one graph; `id` is how its memory is bound when the graph runs.
struct CudnnTensor {
  std::int64_t id = 0;
  CudnnDims dims{};
};

class CudnnGraph {
 public:
  // In device memory, 16-byte aligned.
  CudnnTensor in_memory(const CudnnDims& dims, const CudnnDims& strides, cudnnDataType_t type);
  // One number, read from host memory when the graph runs.
  CudnnTensor scalar(cudnnDataType_t type = CUDNN_DATA_FLOAT);
  CudnnTensor intermediate(const CudnnDims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  CudnnTensor intermediate(const CudnnDims& dims, const CudnnDims& strides, cudnnDataType_t type);

  // c[b, h, m, n] = a[b, h, m, k] b[b, h, k, n], accumulated in fp32.
  CudnnTensor matmul(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c);
  CudnnTensor pointwise(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& y);
  CudnnTensor pointwise(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& b,
                        const CudnnTensor& y, cudnnDataType_t precision = CUDNN_DATA_FLOAT);
  // y = mask ? x : otherwise.
  CudnnTensor select(const CudnnTensor& mask, const CudnnTensor& x, const CudnnTensor& otherwise,
                     const CudnnTensor& y);
  // y = the index along `axis`, of x's dimensions.
  CudnnTensor index(std::int64_t axis, const CudnnTensor& x, const CudnnTensor& y);
  // Over the dimensions in which y has 1.
  CudnnTensor reduce(cudnnReduceTensorOp_t operation, const CudnnTensor& x, const CudnnTensor& y);
  // The same numbers under other dimensions or strides: of a matrix, its transpose.
  CudnnTensor reshape(const CudnnTensor& x, const CudnnTensor& y);

  // The finished operation graph. `handle`: of the device that will run it, or null for a described
  // one.
  [[nodiscard]] CudnnDescriptor finish(cudnnHandle_t handle) const;

 private:
  struct Place {
    CudnnDims dims{}, strides{};
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    bool in_memory = false, by_value = false;
  };
  CudnnTensor add(const Place& place);
  [[nodiscard]] CudnnDescriptor& tensor(const CudnnTensor& t) {
    return tensors_[static_cast<std::size_t>(t.id) - 1];
  }
  // What a tensor is to a pointwise operation.
  using Role = std::pair<cudnnBackendAttributeName_t, CudnnTensor>;
  [[nodiscard]] CudnnDescriptor pointwise_kind(cudnnPointwiseMode_t mode,
                                               cudnnDataType_t precision) const;
  CudnnTensor apply(CudnnDescriptor kind, std::initializer_list<Role> inputs, const CudnnTensor& y);
  void add_operation(CudnnDescriptor operation);

  std::vector<CudnnDescriptor> tensors_, kinds_, operations_;
};

}  // namespace weir::cuda
