// Interleaved 1F1B (Narayanan et al., SC 2021, section 2.2.2): each rank holds v chunks;
// micro-batches go through a chunk in groups, then through the next chunk. The group is K
// micro-batches; where K does not divide M it is M over the number of rounds max(1, M / K), which
// must divide M.
//
//   K = 2, v = 2, M = 2 (group of 2), stages 0 and 2 on rank 0, forwards only:
//     rank 0   0F0 0F1 2F0 2F1          rank 1   1F0 1F1 3F0 3F1
//
// Interleaved zero bubble (PyTorch's ScheduleInterleavedZeroBubble, after Qi et al., Zero Bubble,
// ICLR 2024): the same with the backward split. The gradient of a chunk comes back after its I, so
// half the warm-up beyond the last rank's is enough, and rank k delays its W by k. With v = 1 it is
// zb-h1.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/schedule/generators/orders.hpp"

namespace weir {
namespace {

// Which chunk and micro-batch a rank's i-th forward or backward is.
struct Interleaving {
  std::int32_t k, v, group;
  [[nodiscard]] Action action(std::int32_t rank, std::int32_t i, ActionKind kind) const {
    const std::int32_t in_round = i % (group * v);
    const std::int32_t chunk = in_round / group;
    const std::int32_t microbatch = i / (group * v) * group + in_round % group;
    // Backwards go through the chunks from the last.
    return Action{Stage{(kind == ActionKind::F ? chunk : v - 1 - chunk) * k + rank}, kind,
                  Microbatch{microbatch}};
  }
};

std::variant<Interleaving, std::string> interleaving(const char* name,
                                                     const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, m = request.microbatches;
  const std::int32_t rounds = std::max(1, m / k);
  if (m % rounds != 0) {
    return fmt::format(
        "{} needs M divisible by its {} rounds of about K micro-batches; M = {}, K = {}", name,
        rounds, m, k);
  }
  return Interleaving{k, request.chunks, m / rounds};
}

}  // namespace

ScheduleOrReason make_interleaved_1f1b(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, v = request.chunks, m = request.microbatches;
  const auto found = interleaving("interleaved-1f1b", request);
  if (const auto* reason = std::get_if<std::string>(&found)) return *reason;
  const auto& order = std::get<Interleaving>(found);
  Schedule schedule = empty_schedule("interleaved-1f1b", looped_shape(k, v, m));
  for (std::int32_t rank = 0; rank < k; ++rank) {
    // docs/theory.md 2.1: two for each rank behind this one, and a group for each further chunk.
    warm_up_and_alternate(
        schedule.order[Rank{rank}], m * v, 2 * (k - rank - 1) + (v - 1) * order.group,
        [&](std::int32_t i) { return order.action(rank, i, ActionKind::F); },
        [&](std::int32_t i) { return order.action(rank, i, ActionKind::B); });
  }
  return schedule;
}

ScheduleOrReason make_interleaved_zb(const ScheduleRequest& request) {
  const std::int32_t k = request.ranks, v = request.chunks, m = request.microbatches;
  const auto found = interleaving("interleaved-zb", request);
  if (const auto* reason = std::get_if<std::string>(&found)) return *reason;
  const auto& order = std::get<Interleaving>(found);
  Schedule schedule = empty_schedule("interleaved-zb", looped_shape(k, v, m));
  for (std::int32_t rank = 0; rank < k; ++rank) {
    auto& actions = schedule.order[Rank{rank}];
    const auto add = [&](ActionKind kind, std::int32_t i) {
      actions.push_back(order.action(rank, i, kind));
    };
    const std::int32_t count = m * v;
    const std::int32_t warmup = std::min(count, k - rank - 1 + (v - 1) * order.group);
    for (std::int32_t i = 0; i < warmup; ++i) add(ActionKind::F, i);
    for (std::int32_t i = 0; i < count; ++i) {
      if (warmup + i < count) add(ActionKind::F, warmup + i);
      add(ActionKind::I, i);
      if (i >= rank) add(ActionKind::W, i - rank);
    }
    for (std::int32_t i = std::max(0, count - rank); i < count; ++i) add(ActionKind::W, i);
  }
  return schedule;
}

}  // namespace weir
