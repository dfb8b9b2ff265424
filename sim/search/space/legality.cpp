// Checks a plan's divisions, and proves its schedule by the fewest slots that suffice.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/legality.hpp"

#include <fmt/format.h>

#include <utility>

#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir {

std::optional<std::string> Legality::split(const Plan& plan) const {
  const auto misfit = cannot_divide(model_, plan);
  if (!misfit) return std::nullopt;
  return misfit->key + ": " + misfit->reason;
}

std::optional<std::string> Legality::replicas(const Plan& plan) const {
  if (!request_.global_batch_size || *request_.global_batch_size % plan.dp == 0)
    return std::nullopt;
  return fmt::format("dp = {} does not divide the mini-batch of {}", plan.dp,
                     *request_.global_batch_size);
}

std::optional<std::string> Legality::microbatches(const Plan& plan) const {
  if (!request_.global_batch_size) return std::nullopt;
  const int whole = *request_.global_batch_size / plan.dp;
  if (whole % plan.microbatches == 0) return std::nullopt;
  return plan.dp == 1
             ? fmt::format("M = {} does not divide the mini-batch of {}", plan.microbatches, whole)
             : fmt::format("M = {} does not divide the {} samples of a replica", plan.microbatches,
                           whole);
}

std::optional<std::string> Legality::stages(const Plan& plan) const {
  const auto layers = static_cast<int>(model_.layers.size());
  if (plan.stages() <= layers || empty_stages_) return together_.too_many(plan.stages());
  return fmt::format("K*v = {} is above the {} layers", plan.stages(), layers);
}

std::optional<std::string> Legality::shards(const Plan& plan) const {
  if (!divides_vocabulary(plan.schedule)) return std::nullopt;
  if (kinds_ > 1) return fmt::format("{}: expected one kind of nodes", plan.schedule);
  // Of K, v and slices, whatever the number of micro-batches is.
  const auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, 1, plan.slices});
  if (const auto* reason = std::get_if<std::string>(&made)) return *reason;
  if (auto reason = split(plan)) return reason;
  // The head's product is the shards', and so is no stage's.
  const auto layers = static_cast<int>(model_.layers.size()) - 1;
  if (plan.stages() <= layers || empty_stages_) return std::nullopt;
  return fmt::format("K*v = {} is above the {} layers beside a divided vocabulary", plan.stages(),
                     layers);
}

bool Legality::wrong_devices(const Plan& plan) const {
  return !right_devices(request_, std::int64_t{plan.pp} * plan.tp * plan.replicas());
}

std::optional<std::string> Legality::degrees_beyond(const Plan& plan) const {
  return request_.within ? weir::degrees_beyond(*request_.within, plan) : std::nullopt;
}

std::optional<std::string> Legality::order_beyond(const Plan& plan) const {
  return request_.within ? weir::order_beyond(*request_.within, plan) : std::nullopt;
}

const Legality::SlotsOrReason& Legality::slots(const Plan& plan) {
  const auto [found, fresh] =
      slots_.try_emplace({plan.schedule, plan.pp, plan.vpp, plan.microbatches, plan.slices});
  SlotsOrReason& slots = found->second;
  if (!fresh) return slots;
  const auto made =
      make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches, plan.slices});
  if (const auto* reason = std::get_if<std::string>(&made)) return slots = *reason;
  slots = plan.slots;
  // Unlimited slots deadlock with no schedule.
  if (plan.slots == 0) return slots;
  const int needed = fewest_slots(std::get<Schedule>(made), plan.slots);
  if (needed > plan.slots && request_.exact_slots) {
    return slots = fmt::format("{} deadlocks with {} receive slots; {} are enough", plan.schedule,
                               plan.slots, needed);
  }
  return slots = needed;
}

}  // namespace weir
