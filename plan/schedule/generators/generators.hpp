// The published schedules by name. A generator is a pure function from (K, v, M) to a schedule, or
// the reason why it cannot make one; each stands in a file of its own with its drawing and its
// source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "plan/schedule/schedule.hpp"

namespace weir {

struct ScheduleRequest {
  std::int32_t ranks = 1;         // K
  std::int32_t chunks = 1;        // v: stages a rank
  std::int32_t microbatches = 1;  // M
  std::int32_t slices = 1;        // of a sequence: more than one where a schedule slices
};

using ScheduleOrReason = std::variant<Schedule, std::string>;

struct Generator {
  std::string_view name;
  std::string_view source;  // paper and section
  std::string_view
      bubble;  // idle time of a rank in a step, equal stages, no communication; F, I, W, B per rank
  std::string_view in_flight;   // stage-micro-batches kept by rank k at its peak
  std::int32_t weight_copies;   // copies of the model's weights over all ranks
  std::int32_t default_chunks;  // v where none is asked for
  bool one_chunks;              // it takes that v and no other
  std::int32_t default_slices;  // likewise; 1: it does not slice sequences
  ScheduleOrReason (*make)(const ScheduleRequest&);
};

[[nodiscard]] std::span<const Generator> generators();
// Those that divide the vocabulary over the ranks, which are forecast but not run: no part of the
// others.
[[nodiscard]] std::span<const Generator> vocabulary_generators();
// Of both; `name` may also be what their source's scripts call it. Null where there is none.
[[nodiscard]] const Generator* find_generator(std::string_view name);
[[nodiscard]] bool divides_vocabulary(std::string_view schedule);

// The named generator's schedule. An unknown name is a reason too, and lists the known ones.
[[nodiscard]] ScheduleOrReason make_schedule(std::string_view name, const ScheduleRequest& request);

// Each stands with its drawing and its source in the file of its family.
[[nodiscard]] ScheduleOrReason make_gpipe(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_1f1b(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_1f1b_eager(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_interleaved_1f1b(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_interleaved_zb(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_looped_bfs(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_zb_h1(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_zb_h2(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_zb_v(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_v_half(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_v_min(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_dualpipev(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_dualpipe(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_seq_1f1b(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_chimera(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_hanayo(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_vocab_1(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_vocab_2(const ScheduleRequest& request);
[[nodiscard]] ScheduleOrReason make_interlaced(const ScheduleRequest& request);

}  // namespace weir
