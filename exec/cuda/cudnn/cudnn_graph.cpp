// Graphs of cuDNN operations, from tensors and operations to one that is finalized.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cudnn/cudnn_graph.hpp"

#include <utility>

namespace weir::cuda {

CudnnDims packed(const CudnnDims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

CudnnTensor CudnnGraph::add(const Place& place) {
  const auto id = static_cast<std::int64_t>(tensors_.size()) + 1;
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, place.type);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  tensor.set_all(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(place.dims));
  tensor.set_all(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(place.strides));
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, !place.in_memory);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, place.by_value);
  tensor.finalize();
  tensors_.push_back(std::move(tensor));
  return {id, place.dims};
}

CudnnTensor CudnnGraph::in_memory(const CudnnDims& dims, const CudnnDims& strides,
                                  cudnnDataType_t type) {
  return add({dims, strides, type, true, false});
}

CudnnTensor CudnnGraph::scalar(cudnnDataType_t type) {
  return add({{1, 1, 1, 1}, {1, 1, 1, 1}, type, true, true});
}

CudnnTensor CudnnGraph::intermediate(const CudnnDims& dims, cudnnDataType_t type) {
  return add({dims, packed(dims), type, false, false});
}

CudnnTensor CudnnGraph::intermediate(const CudnnDims& dims, const CudnnDims& strides,
                                     cudnnDataType_t type) {
  return add({dims, strides, type, false, false});
}

void CudnnGraph::add_operation(CudnnDescriptor operation) {
  operation.finalize();
  operations_.push_back(std::move(operation));
}

CudnnTensor CudnnGraph::matmul(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c) {
  CudnnDescriptor kind(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensor(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensor(c));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  kinds_.push_back(std::move(kind));
  add_operation(std::move(operation));
  return c;
}

CudnnDescriptor CudnnGraph::pointwise_kind(cudnnPointwiseMode_t mode,
                                           cudnnDataType_t precision) const {
  CudnnDescriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
  return kind;
}

CudnnTensor CudnnGraph::apply(CudnnDescriptor kind, std::initializer_list<Role> inputs,
                              const CudnnTensor& y) {
  kind.finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  for (const auto& [role, input] : inputs) operation.set(role, tensor(input));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensor(y));
  kinds_.push_back(std::move(kind));
  add_operation(std::move(operation));
  return y;
}

CudnnTensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const CudnnTensor& x,
                                  const CudnnTensor& y) {
  return apply(pointwise_kind(mode, CUDNN_DATA_FLOAT), {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x}},
               y);
}

CudnnTensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const CudnnTensor& x,
                                  const CudnnTensor& b, const CudnnTensor& y,
                                  cudnnDataType_t precision) {
  return apply(
      pointwise_kind(mode, precision),
      {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x}, {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b}}, y);
}

CudnnTensor CudnnGraph::select(const CudnnTensor& mask, const CudnnTensor& x,
                               const CudnnTensor& otherwise, const CudnnTensor& y) {
  return apply(pointwise_kind(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT),
               {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, otherwise},
                {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask}},
               y);
}

CudnnTensor CudnnGraph::index(std::int64_t axis, const CudnnTensor& x, const CudnnTensor& y) {
  CudnnDescriptor kind = pointwise_kind(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32);
  kind.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  return apply(std::move(kind), {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x}}, y);
}

CudnnTensor CudnnGraph::reduce(cudnnReduceTensorOp_t reduction, const CudnnTensor& x,
                               const CudnnTensor& y) {
  CudnnDescriptor kind(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, reduction);
  kind.finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensor(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensor(y));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  // The operation refers to its kind, which must live until the graph is finalized.
  kinds_.push_back(std::move(kind));
  add_operation(std::move(operation));
  return y;
}

CudnnTensor CudnnGraph::reshape(const CudnnTensor& x, const CudnnTensor& y) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensor(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensor(y));
  add_operation(std::move(operation));
  return y;
}

CudnnDescriptor CudnnGraph::finish(cudnnHandle_t handle) const {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  CUDNN_CHECK(cudnnBackendSetAttribute(
      graph.get(), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      static_cast<std::int64_t>(operations.size()), operations.data()));
  if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.finalize();
  return graph;
}

}  // namespace weir::cuda
