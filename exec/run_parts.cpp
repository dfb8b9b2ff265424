// SPDX-License-Identifier: Apache-2.0
#include "exec/run_parts.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "plan/words/error.hpp"
#include "traces/stats.hpp"

namespace weir {

std::string to_string(BackendKind kind) {
  static constexpr const char* kNames[] = {"cpu", "cuda", "synthetic"};
  return kNames[static_cast<std::size_t>(kind)];
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::vector<Bytes> outside_the_pools(const std::vector<DeviceUse>& ranks) {
  std::vector<Bytes> outside;
  for (const DeviceUse& use : ranks) {
    const auto device = static_cast<std::size_t>(use.device);
    if (device >= outside.size()) outside.resize(device + 1);
    outside[device] = use.device_used;  // the latest reading stands for all
  }
  for (const DeviceUse& use : ranks)
    outside[static_cast<std::size_t>(use.device)] -= use.pool_reserved;
  return outside;
}

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

const BackendFactory& factory_of(BackendKind kind, const Backends& backends) {
  const auto factory = backends.find(kind);
  if (factory == backends.end())
    throw MissingComponent(fmt::format("this build has no {} backend", to_string(kind)));
  return factory->second;
}

Batches open_batches(const LoadedPlan& loaded, const RunOptions& options) {
  const auto& embedding = std::get<EmbeddingShape>(loaded.model.layers.front().shape);
  return {options.data, embedding.vocabulary, loaded.plan.seq_length, loaded.plan.seed};
}

void require_durations(const Program& program, const RunOptions& options) {
  if (options.synthetic_duration_ns.size() != program.operations.size()) {
    throw RunFailed("the synthetic backend needs a duration for every operation");
  }
}

std::int64_t compute_actions(const Program& program, std::optional<Rank> of) {
  std::int64_t actions = 0;
  for (const Lane& lane : program.lanes) {
    if (lane.kind == LaneKind::compute && (!of || lane.rank == *of))
      actions += lane.last - lane.first;
  }
  return actions;
}

Seconds median_step(const std::vector<StepResult>& steps, int warmup) {
  std::vector<double> measured;
  for (auto step = steps.begin() + warmup; step < steps.end(); ++step)
    measured.push_back(step->time.count());
  return measured.empty() ? Seconds(0) : Seconds(median(measured));
}

}  // namespace weir
