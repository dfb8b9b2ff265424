// The optimizer of a stage as kernels on the rank's stream.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/update.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/kernels/map_norms.hpp"
#include "exec/cuda/kernels/optimizer.hpp"
#include "exec/cuda/kernels/ordered_sums.hpp"
#include "plan/words/error.hpp"

namespace weir::cuda {
namespace {

Gradients gradients_of(std::span<const Tensor> copies) {
  if (copies.empty() || copies.size() > kMostCopies) {
    throw RunFailed(fmt::format("the cuda backend sums up to {} uses of a weight, not {}",
                                kMostCopies, copies.size()));
  }
  Gradients gradients{};
  for (const Tensor& copy : copies) gradients.of[gradients.count++] = copy.floats();
  return gradients;
}

// Of which squares are summed.
Updated only_gradients(std::span<const Tensor> copies, std::int64_t elements) {
  return {gradients_of(copies), elements, {nullptr, nullptr}, nullptr, nullptr, false};
}

Weights weights_of(const UpdateCall& call) {
  return call.master ? Weights{call.master.floats(), elements<Bf16>(call.weight)}
                     : Weights{call.weight.floats(), nullptr};
}

// Running statistics are not learned: means, then variances.
MovedStatistics moved(const UpdateCall& call) {
  const double places =
      static_cast<double>(call.samples) * static_cast<double>(call.running->places);
  return {gradients_of(call.gradients), call.elements / 2, weights_of(call), call.running->momentum,
          places / std::max(places - 1, 1.0)};
}

Updated updated(const UpdateCall& call) {
  return {gradients_of(call.gradients), call.elements,        weights_of(call),
          call.state1.floats(),         call.state2.floats(), call.decays};
}

}  // namespace

void update(std::span<const UpdateCall> calls, const Workbench& on) {
  if (calls.empty()) return;
  std::vector<Updated> parameters;
  for (const UpdateCall& call : calls) {
    if (call.running) {
      move_statistics(moved(call), on.stream);
    } else {
      parameters.push_back(updated(call));
    }
  }
  if (parameters.empty()) return;
  // All parameters of a stage are updated by one optimizer, in one step: the first call speaks for
  // all.
  const Optimizer& o = calls.front().optimizer;
  const GradientFactor clipping{static_cast<float>(calls.front().factor), on.factor};
  // Steps of updates count from one, those of the rate's schedule from zero.
  const auto rate = static_cast<float>(learning_rate_at(o, calls.front().step - 1));
  const auto decay = static_cast<float>(o.weight_decay);
  if (o.kind == OptimizerKind::adamw) {
    adamw({rate, 1.0F - rate * decay, static_cast<float>(o.epsilon), o.beta1, o.beta2}, parameters,
          on.numbers, clipping, on.stream);
  } else {
    sgd({rate, decay, static_cast<float>(o.momentum)}, parameters, clipping, on.stream);
  }
}

std::int64_t squares_room(std::int64_t elements) {
  return square_partials(elements) * std::int64_t{sizeof(double)};
}

void squares(const SquaresCall& call, cudaStream_t stream) {
  std::vector<Updated> weights;
  for (const SquaresCall::One& one : call.of)
    weights.push_back(only_gradients(one.gradients, one.elements));
  sums_of_squares(weights, reinterpret_cast<double*>(call.room.data), call.to, stream);
}

void factor(const FactorCall& call, Workbench& on) {
  clip_factor({call.squares, call.weights, call.parts, call.places}, call.most,
              call.factor.floats(), on.stream);
  on.factor = call.factor.floats();
}

double sum_of_squares(std::span<const Tensor> gradients, std::int64_t elements,
                      const Workbench& on) {
  auto* const sum = static_cast<double*>(on.gemm_scratch);
  if (square_partials(elements) >= Matmul::kScratchBytes / std::int64_t{sizeof(double)})
    throw RunFailed("a weight is too large for its squares to be summed");
  sums_of_squares({only_gradients(gradients, elements)}, sum + 1, sum, on.stream);
  double found = 0;
  CUDA_CHECK(cudaMemcpyAsync(&found, sum, sizeof(found), cudaMemcpyDeviceToHost, on.stream));
  CUDA_CHECK(cudaStreamSynchronize(on.stream));
  return found;
}

void ordered_sums(const OrderedSums& sums, cudaStream_t stream) {
  std::vector<OrderedSum> all;
  for (const OrderedSums::One& one : sums.of) all.push_back({one.own, one.others, one.elements});
  ordered_sums(all, {sums.terms, sums.own, sums.stride}, stream);
}

}  // namespace weir::cuda
