// The executor's launches with their bytes, FLOPs and least times.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/model_kernels.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "costmodel/table/device_kind.hpp"
#include "exec/training/trainable.hpp"
#include "plan/words/error.hpp"

namespace weir::app {

Seconds ModelKernels::least_time(const KernelWork& kernel) const {
  return weir::least_time(kernel, device, step.dtype);
}

bool ModelKernels::bound_by_memory(const KernelWork& kernel) const {
  return kernel.bytes / device.memory_bandwidth >= least_time(kernel);
}

ModelKernels::Sums ModelKernels::sums() const {
  Sums sums;
  for (const KernelWork& kernel : kernels) {
    const auto calls = static_cast<double>(kernel.calls);
    sums.flops += kernel.flops * calls;
    sums.bytes += Bytes(kernel.bytes.count() * kernel.calls);
    sums.time += least_time(kernel) * calls;
    sums.calls += kernel.calls;
  }
  return sums;
}

double ModelKernels::tokens_per_second() const {
  return static_cast<double>(step.seq_length * step.batch) / sums().time.count();
}

ModelKernels model_kernels(const Model& model, const ExecutorStep& step, Device device) {
  // What the executor has no kernel for it does not launch.
  require_kernels(model, BackendKind::cuda);
  if (step.dtype == Dtype::fp16)
    throw UsageError("the cuda backend computes in fp32, tf32 or bf16, not fp16");
  if (step.optimizer != OptimizerKind::adamw && step.optimizer != OptimizerKind::sgd) {
    throw UsageError(
        fmt::format("the cuda backend updates by sgd or adamw, not {}", to_string(step.optimizer)));
  }
  if (!is_gpu(device)) throw UsageError(fmt::format("{} is no GPU", device.name));
  return {model.name, std::move(device), step, executor_kernels(model, step)};
}

nlohmann::ordered_json to_json(const ModelKernels& result) {
  const ModelKernels::Sums sums = result.sums();
  nlohmann::ordered_json json{{"schema", "weir.model_kernels/1"},
                              {"model", result.model},
                              {"device", result.device.name},
                              {"dtype", to_string(result.step.dtype)},
                              {"seq_length", result.step.seq_length},
                              {"micro_batch_size", result.step.batch},
                              {"flops", sums.flops.count()},
                              {"bytes", sums.bytes.count()},
                              {"least_time_s", sums.time.count()},
                              {"tokens_per_s", result.tokens_per_second()},
                              {"kernels", nlohmann::ordered_json::array()}};
  for (const KernelWork& kernel : result.kernels) {
    json["kernels"].push_back({{"layer", kernel.layer},
                               {"action", kernel.action},
                               {"name", kernel.name},
                               {"calls", kernel.calls},
                               {"flops", kernel.flops.count()},
                               {"bytes", kernel.bytes.count()},
                               {"least_time_s", result.least_time(kernel).count()},
                               {"bound", result.bound_by_memory(kernel) ? "memory" : "compute"}});
  }
  return json;
}

}  // namespace weir::app
