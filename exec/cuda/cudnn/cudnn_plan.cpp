// Engines that take a graph, and the plan by which it runs.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cudnn/cudnn_plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weir::cuda {
namespace {

// The engine configurations that heuristics propose for a graph, best first.
std::vector<CudnnDescriptor> proposals(const CudnnDescriptor& graph, const CudnnTarget& target) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  if (target.description() != nullptr)
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.description());
  // Where no engine fits, finalising says so; that is an answer, not a failure.
  if (cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};
  std::int64_t count = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  // The library fills descriptors that the caller has made.
  std::vector<CudnnDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(configurations.back().get());
  }
  std::int64_t found = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &found,
                                       handles.data()));
  // It may fill fewer than it announced.
  configurations.erase(configurations.begin() + std::min(found, count), configurations.end());
  return configurations;
}

bool is_deterministic(const CudnnDescriptor& configuration) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  std::int64_t count = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  CUDNN_CHECK(cudnnBackendGetAttribute(
      engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
      static_cast<std::int64_t>(notes.size()), &count, notes.data()));
  const auto last = notes.begin() + std::min(count, static_cast<std::int64_t>(notes.size()));
  return std::find(notes.begin(), last, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == last;
}

}  // namespace

std::vector<CudnnDescriptor> deterministic_engines(const CudnnDescriptor& graph,
                                                   const CudnnTarget& target) {
  std::vector<CudnnDescriptor> engines = proposals(graph, target);
  std::erase_if(engines, [](const CudnnDescriptor& engine) { return !is_deterministic(engine); });
  return engines;
}

CudnnTarget::CudnnTarget(const std::string& description)
    : described_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
  described_->set_all(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                      std::span<const char>(description));
  described_->finalize();
}

std::optional<CudnnPlan> CudnnPlan::choose(const CudnnDescriptor& graph,
                                           const CudnnTarget& target) {
  for (const CudnnDescriptor& configuration : deterministic_engines(graph, target)) {
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (target.handle() != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle());
    if (target.description() != nullptr)
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.description());
    if (cudnnBackendFinalize(plan.get()) == CUDNN_STATUS_SUCCESS) return CudnnPlan(std::move(plan));
  }
  return std::nullopt;
}

CudnnPlan::CudnnPlan(CudnnDescriptor plan) : plan_(std::move(plan)) {
  std::int64_t count = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &count, &workspace_bytes_));
}

void CudnnPlan::execute(cudnnHandle_t handle, std::span<const CudnnBinding> bindings,
                        void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const CudnnBinding& binding : bindings) {
    ids.push_back(binding.id);
    pointers.push_back(binding.data);
  }
  // Made for each call: the pointers are those of one micro-batch.
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set_all(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(ids));
  pack.set_all(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(pointers));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack.finalize();
  CUDNN_CHECK(cudnnBackendExecute(handle, plan_.get(), pack.get()));
}

}  // namespace weir::cuda
