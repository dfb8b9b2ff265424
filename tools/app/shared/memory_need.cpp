// Needs as products of counts and what one of them was measured to take.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/memory_need.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "plan/job/optimizer.hpp"
#include "plan/schedule/generators/most_cells.hpp"

namespace weir::app {
namespace {

constexpr double kFrom = 1 << 30;  // bytes
constexpr double kMost = 9e18;     // bytes that a count of them can say
// Highest resident memory of `weir simulate`, K = 64, M = 8192 beside M = 1024: 1042 bytes for
// each stage and micro-batch.
constexpr double kBytesAnAction = 1042;
// tests/chaos/growth_test.py: 1395 bytes a traced step of 20 operations; and as much text again,
// where it is written.
constexpr double kBytesASpan = 140;

void say_need(const std::string& what, double bytes, const Session& session) {
  if (bytes < kFrom) return;
  const Bytes shown(static_cast<std::int64_t>(std::min(bytes, kMost)));
  session.note(fmt::format("{} takes some {} of this machine's memory", what, format_bytes(shown)));
}

}  // namespace

void say_need_of_schedule(std::int64_t stages, std::int64_t microbatches, const Session& session) {
  if (stages > kMostCells / std::max<std::int64_t>(microbatches, 1)) return;  // will be refused
  const double actions = static_cast<double>(stages) * static_cast<double>(microbatches);
  say_need(fmt::format("a schedule of {} stages and {} micro-batches", stages, microbatches),
           actions * kBytesAnAction, session);
}

void say_need_of_run(const ResolvedPlan& plan, std::int64_t traced_steps, bool trains,
                     const Session& session) {
  const double spans = static_cast<double>(traced_steps) * static_cast<double>(plan.program.size());
  say_need(fmt::format("the trace of {} steps", traced_steps), spans * kBytesASpan, session);
  if (!trains) return;
  double numbers = 0;
  for (const StagePart& stage : plan.stages) numbers += static_cast<double>(stage.parameters);
  // Weights and gradients, and what the optimizer keeps of each, in fp32.
  const int of_each = 2 + state_numbers(plan.plan.optimizer);
  say_need("training, besides activations,", numbers * of_each * sizeof(float), session);
}

}  // namespace weir::app
