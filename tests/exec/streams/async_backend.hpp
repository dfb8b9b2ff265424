// The CPU backend behind a stream (tests/exec/streams/async_stream): an asynchronous device to test
// the launcher on. Fresh blocks hold NaN, and freed ones too from their place in the stream's order
// on. What changes from step to step is read when the work runs, as kernels of a replayed graph
// must.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_backend.hpp"
#include "exec/run/run.hpp"
#include "tests/exec/streams/async_stream.hpp"

namespace weir {

class AsyncBackend : public Backend {
 public:
  AsyncBackend(const BackendRequest& request, const std::shared_ptr<AsyncWorld>& world)
      : cpu_(make_cpu_backend(request)),
        world_(world),
        stream_(world, request.rank / world->options.ranks_a_device) {}

  Stream* stream() override { return &stream_; }
  KernelWatch* kernel_watch() override { return world_->watch; }

  void* allocate(std::int64_t bytes) override {
    require(!world_->recording, "an allocation in a recorded step");
    void* block = cpu_->allocate(bytes);
    poison({static_cast<std::byte*>(block), bytes});
    return block;
  }
  void release(void* block, std::int64_t bytes) noexcept override { cpu_->release(block, bytes); }

  void prepare(std::span<const Layer> layers, std::int64_t batch,
               std::int64_t seq_length) override {
    now([&] { cpu_->prepare(layers, batch, seq_length); });
  }
  [[nodiscard]] std::int64_t scratch_bytes() const override { return cpu_->scratch_bytes(); }
  void use_scratch(const Tensor& scratch) override { cpu_->use_scratch(scratch); }

  void forward(const LayerCall& call) override { launch(call, &Backend::forward); }
  void backward_input(const LayerCall& call) override { launch(call, &Backend::backward_input); }
  void backward_weight(const LayerCall& call) override { launch(call, &Backend::backward_weight); }
  void update(std::span<const UpdateCall> calls) override {
    for (const UpdateCall& call : calls) {
      stream_.launch_work(
          [this, call, gradients = std::vector(call.gradients.begin(), call.gradients.end())] {
            UpdateCall then = call;
            then.gradients = gradients;
            then.step = step_ + 1;
            then.factor *= factor_;
            cpu_->update({&then, 1});
          });
    }
  }
  void launch_squares(const SquaresCall& call, Stream& on) override {
    for (std::size_t i = 0; i < call.of.size(); ++i) {
      const SquaresCall::One& one = call.of[i];
      static_cast<AsyncStream&>(on).launch_work(
          [this, gradients = std::vector(one.gradients.begin(), one.gradients.end()),
           elements = one.elements,
           to = call.to + i] { *to = cpu_->sum_of_squares(gradients, elements); });
    }
  }
  void launch_factor(const FactorCall& call) override {
    stream_.launch_work([this, call] {
      double sum = 0;
      for (std::int64_t weight = 0; weight < call.weights; ++weight) {
        double squares = 0;
        for (int part = 0; part < call.parts; ++part)
          squares += call.squares[part * call.weights + weight];
        sum += squares;
      }
      factor_ = clip_factor({.clip_norm = call.most}, std::sqrt(sum));
    });
  }
  void launch_sums(const OrderedSums& sums, Stream& on) override {
    static_cast<AsyncStream&>(on).launch_work(
        [sums, of = std::vector(sums.of.begin(), sums.of.end())] {
          for (const OrderedSums::One& one : of) add_in_order(sums, one);
        });
  }
  void begin_step(std::uint32_t step) override {
    stream_.launch_work([this, step] { step_ = step; });
  }
  void finish() override { stream_.finish(); }

  void to_device(const Tensor& to, const void* from, std::int64_t bytes) override {
    now([&] { cpu_->to_device(to, from, bytes); });
  }
  void to_host(void* to, const Tensor& from, std::int64_t bytes) override {
    now([&] { cpu_->to_host(to, from, bytes); });
  }

 private:
  static void add_in_order(const OrderedSums& sums, const OrderedSums::One& one) {
    for (std::int64_t i = 0; i < one.elements; ++i) {
      float sum = 0;
      for (int term = 0; term < sums.terms; ++term) {
        const int other = term - (term > sums.own ? 1 : 0);
        const float value = term == sums.own ? one.own[i] : one.others[other * sums.stride + i];
        sum = term == 0 ? value : sum + value;
      }
      one.own[i] = sum;
    }
  }
  template <class Work>
  void now(Work&& work) {
    stream_.launch_work([&work] { work(); });
    finish();
  }
  void launch(const LayerCall& call, void (Backend::*pass)(const LayerCall&)) {
    const auto copy = [](std::span<const Tensor> tensors) {
      return std::vector(tensors.begin(), tensors.end());
    };
    stream_.launch_work([this, call, pass, weights = copy(call.weights),
                         gradients = copy(call.gradients), saved = copy(call.saved),
                         carried = copy(call.carried)] {
      LayerCall then = call;
      then.weights = weights;
      then.gradients = gradients;
      then.saved = saved;
      then.carried = carried;
      then.dropout.step = step_;
      (*cpu_.*pass)(then);
    });
  }

  std::unique_ptr<Backend> cpu_;
  std::shared_ptr<AsyncWorld> world_;
  double factor_ = 1;       // as the next
  std::uint32_t step_ = 0;  // the device's: the stream's thread reads and writes it
  AsyncStream stream_;      // ends first
};

// Backends of one run, under the name of the device they stand for.
inline Backends asynchronous(const std::shared_ptr<AsyncWorld>& world) {
  return {{BackendKind::cuda, [world](const BackendRequest& request) -> std::unique_ptr<Backend> {
             return std::make_unique<AsyncBackend>(request, world);
           }}};
}

}  // namespace weir
