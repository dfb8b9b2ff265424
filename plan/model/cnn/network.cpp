// Convolutional networks as layers with sizes: parameters, operations, what is kept and handed on.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/cnn/network.hpp"

namespace weir::cnn {

Work convolve(const Map& input, const Convolution& convolution) {
  const Map output{convolution.channels, ceil_div(input.height, convolution.stride_y),
                   ceil_div(input.width, convolution.stride_x)};
  const std::int64_t weights =
      convolution.height * convolution.width * input.channels * output.channels;
  const double places = static_cast<double>(output.height * output.width);
  return {weights, 2 * static_cast<double>(weights) * places, input.numbers(), output};
}

Work normalise(const Map& input) { return {2 * input.channels, 0, input.numbers(), input}; }

Work then(const Work& first, const Work& second) {
  return {first.parameters + second.parameters, first.flops + second.flops,
          first.kept + second.kept, second.output};
}

void Network::append(const std::string& name, const std::string& kind, const Work& work,
                     bool keeps_input) {
  // What is kept of the input is counted apart: the layer before may keep the same tensor.
  const std::int64_t kept = work.kept - (keeps_input ? map_.numbers() : 0);
  const SizedShape shape{.parameters = work.parameters,
                         .forward = Flops(work.flops),
                         .input = map_.numbers(),
                         .keeps_input = keeps_input,
                         .kept = kept,
                         .output = work.output.numbers()};
  model_.layers.push_back({name, shape, kind});
  map_ = work.output;
}

void Network::convolution(const std::string& name, const Convolution& convolution) {
  append(name, "conv", convolve(map_, convolution), true);
}

void Network::batch_norm(const std::string& name) { append(name, "norm", normalise(map_), true); }

void Network::instance_norm(const std::string& name) {
  append(name, "norm", {0, 0, map_.numbers(), map_}, true);
}

void Network::linear(const std::string& name, std::int64_t outputs) {
  const std::int64_t weights = map_.numbers() * outputs;
  append(name, "linear",
         {weights + outputs, 2 * static_cast<double>(weights), map_.numbers(), {outputs, 1, 1}},
         true);
}

void Network::max_pool(const std::string& name) {
  append(name, "pool",
         {0, 0, map_.numbers(), {map_.channels, ceil_div(map_.height, 2), ceil_div(map_.width, 2)}},
         true);
}

void Network::average_pool(const std::string& name) { plain(name, "pool", {map_.channels, 1, 1}); }

void Network::plain(const std::string& name, const std::string& kind, const Map& output) {
  append(name, kind, {0, 0, 0, output}, false);
}

void Network::composite(const std::string& name, const std::string& kind, const Work& work) {
  append(name, kind, work, false);
}

}  // namespace weir::cnn
