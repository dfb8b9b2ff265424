// The CUDA backend's passes on the emulated device, in host memory: what a launch does is done when
// it returns, so there is no stream. Memory is poisoned when it is given out.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "exec/cuda/cuda_backend.hpp"
#include "exec/cuda/layers.hpp"
#include "exec/cuda/update.hpp"

namespace weir {
namespace {

class EmulatedBackend : public Backend {
 public:
  explicit EmulatedBackend(const BackendRequest& request) : matmul_(request.dtype, 0) {
    on_.matmul = &matmul_;
    if (request.group != nullptr) {
      on_.group = {.place = request.group->place(),
                   .places = request.group->count(),
                   .divides_rows = request.divides_rows};
    }
    on_.fused = &attention_;
  }

  void* allocate(std::int64_t bytes) override {
    void* block = nullptr;
    if (posix_memalign(&block, kTensorAlignment, static_cast<std::size_t>(bytes)) != 0)
      throw std::bad_alloc();
    return std::memset(block, 0xFF, static_cast<std::size_t>(bytes));
  }
  void release(void* block, std::int64_t) noexcept override { std::free(block); }

  void prepare(std::span<const Layer> layers, std::int64_t batch,
               std::int64_t seq_length) override {
    for (const Layer& layer : layers) needs_.cover(cuda::prepare(layer, batch, seq_length, on_));
  }
  std::int64_t scratch_bytes() const override { return needs_.bytes(); }
  void use_scratch(const Tensor& scratch) override { on_.use(scratch.data, needs_); }
  void connect(TensorLinks& links) override { on_.group.links = &links; }

  void begin_step(std::uint32_t step) override { cuda::begin_step(step, on_.numbers, nullptr); }
  void forward(const LayerCall& call) override {
    visit_kernels(*call.layer, [&](const auto& shape) { cuda::forward(shape, call, on_); });
  }
  void backward_input(const LayerCall& call) override {
    visit_kernels(*call.layer, [&](const auto& shape) { cuda::backward_input(shape, call, on_); });
  }
  void backward_weight(const LayerCall& call) override {
    visit_kernels(*call.layer, [&](const auto& shape) { cuda::backward_weight(shape, call, on_); });
  }
  void update(std::span<const UpdateCall> calls) override { cuda::update(calls, on_); }
  double sum_of_squares(std::span<const Tensor> gradients, std::int64_t elements) override {
    return cuda::sum_of_squares(gradients, elements, on_);
  }
  void finish() override {}
  void to_device(const Tensor& to, const void* from, std::int64_t bytes) override {
    std::memcpy(to.data, from, static_cast<std::size_t>(bytes));
  }
  void to_host(void* to, const Tensor& from, std::int64_t bytes) override {
    std::memcpy(to, from.data, static_cast<std::size_t>(bytes));
  }

 private:
  cuda::Matmul matmul_;
  cuda::Attention attention_{cuda::Attention::Choice::best,
                             cuda::CudnnLibraries().of_this_thread({})};
  cuda::ScratchNeeds needs_;
  cuda::Workbench on_;
};

}  // namespace

BackendFactory cuda_backends() {
  return [](const BackendRequest& request) { return std::make_unique<EmulatedBackend>(request); };
}

}  // namespace weir
