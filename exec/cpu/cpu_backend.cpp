// One core as a device. Which kind of layer runs which passes is exec/cpu/layers' table.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/cpu_backend.hpp"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "exec/cpu/core.hpp"
#include "exec/cpu/kernels/map_kernels.hpp"
#include "exec/cpu/kernels/update.hpp"
#include "exec/cpu/layers.hpp"
#include "exec/device/formats.hpp"
#include "exec/device/free_memory.hpp"
#include "exec/device/host_blocks.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// All of a core's second-level cache, and of the third's what cores share of it: between two uses
// of its weights a stage has been through all its other layers.
constexpr std::size_t kEvictedBytes = std::size_t{32} << 20;

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const BackendRequest& request) : core_(request.rank) {
    if (const auto formats = formats_instead_of(request.dtype, BackendKind::cpu)) {
      throw UsageError(fmt::format("the cpu backend computes in {}, the plan asks for {}", *formats,
                                   to_string(request.dtype)));
    }
    on_.group = request.group;
    on_.divides_rows = request.divides_rows;
  }

  void* allocate(std::int64_t bytes) override { return blocks_.allocate(bytes); }
  void release(void* block, std::int64_t bytes) noexcept override { blocks_.release(block, bytes); }

  void prepare(std::span<const Layer> layers, std::int64_t batch,
               std::int64_t seq_length) override {
    cpu::pin_to_core(core_);
    cpu::use_one_thread();
    for (const Layer& layer : layers) {
      visit_kernels(layer, [&](const auto& shape) { cpu::prepare(shape, batch, seq_length, on_); });
    }
  }
  std::int64_t scratch_bytes() const override { return on_.scratch_bytes(); }
  void use_scratch(const Tensor& scratch) override { on_.use_scratch(scratch.data); }

  void forward(const LayerCall& call) override {
    visit_kernels(*call.layer, [&](const auto& shape) { cpu::forward(shape, call, on_); });
  }
  void backward_input(const LayerCall& call) override {
    visit_kernels(*call.layer, [&](const auto& shape) { cpu::backward_input(shape, call, on_); });
  }
  void backward_weight(const LayerCall& call) override {
    visit_kernels(*call.layer, [&](const auto& shape) { cpu::backward_weight(shape, call, on_); });
  }
  void logits(const LayerCall& call, float* to) override {
    cpu::logits(std::get<HeadShape>(call.layer->shape), call, on_, to);
  }
  void update(std::span<const UpdateCall> calls) override {
    for (const UpdateCall& call : calls) update(call);
  }
  double sum_of_squares(std::span<const Tensor> gradients, std::int64_t elements) override {
    return cpu::sum_of_squares(floats(gradients), elements);
  }
  void finish() override {}
  bool in_host_memory() const override { return true; }
  std::optional<Bytes> shared_memory() const override { return free_memory(); }
  void to_device(const Tensor& to, const void* from, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(to.data, from, static_cast<std::size_t>(bytes));
  }
  void to_host(void* to, const Tensor& from, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from.data, static_cast<std::size_t>(bytes));
  }
  void evict_caches() override {
    evicted_.resize(kEvictedBytes / sizeof(float));
    for (std::size_t i = 0; i < evicted_.size(); i += 16) evicted_[i] += 1.0F;
  }

 private:
  static void update(const UpdateCall& call) {
    if (call.running) {
      cpu::move_statistics(*call.running, call.samples, floats(call.gradients), call.elements / 2,
                           call.weight.floats());
      return;
    }
    cpu::update({call.step, call.decays, call.factor, call.optimizer}, floats(call.gradients),
                call.elements, call.weight.floats(), call.state1.floats(), call.state2.floats());
  }
  static std::vector<const float*> floats(std::span<const Tensor> tensors) {
    std::vector<const float*> all;
    for (const Tensor& tensor : tensors) all.push_back(tensor.floats());
    return all;
  }

  HostBlocks blocks_;
  int core_;
  std::vector<float> evicted_;
  cpu::Workbench on_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const BackendRequest& request) {
  return std::make_unique<CpuBackend>(request);
}

}  // namespace weir
