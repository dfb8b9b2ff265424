// The tensors that several kinds of layers have.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/tensor_list.hpp"

#include <functional>
#include <numeric>
#include <utility>

namespace weir {

std::int64_t ParameterTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t whole_bytes(const LayerTensors& tensors, std::int64_t element_bytes) {
  std::int64_t bytes = 0;
  for (const ParameterTensor& parameter : tensors.parameters)
    bytes += aligned_bytes((parameter.elements() + parameter.padding) * element_bytes);
  return bytes;
}

void add_norm(LayerTensors& tensors, const std::string& name, std::int64_t hidden, NormKind kind) {
  using Init = ParameterTensor::Init;
  tensors.parameters.push_back({name + ".gain", {hidden}, Init::ones, false, ""});
  if (kind == NormKind::layer_norm)
    tensors.parameters.push_back({name + ".shift", {hidden}, Init::zeros, false, ""});
}

void add_product(LayerTensors& tensors, const std::string& name, std::vector<std::int64_t> shape,
                 ParameterTensor::Init init, bool bias) {
  const std::int64_t out = shape.front();
  tensors.parameters.push_back({name + ".weight", std::move(shape), init, true, ""});
  if (bias) {
    tensors.parameters.push_back({name + ".bias", {out}, ParameterTensor::Init::zeros, false, ""});
  }
}

}  // namespace weir
