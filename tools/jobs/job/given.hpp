// What a user says of a job beside its file: it fills what the file leaves open or calls "auto",
// and contradicts the file where that says another thing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/job/plan.hpp"
#include "plan/words/error.hpp"

namespace weir {

struct GivenFields {
  std::optional<std::int64_t> seq_length;  // tokens a sample
  std::optional<Dtype> dtype;
  std::optional<std::int64_t> micro_batch_size;   // samples of one replica
  std::optional<std::int64_t> microbatches;       // a step
  std::optional<std::int64_t> global_batch_size;  // samples a step of all replicas
  std::optional<AttentionKind> attention;
  std::optional<Recompute> recompute;
  SequenceLengths lengths;  // in rows of so many tokens, where the job's are not one sequence each
  bool rows_said = false;   // how they lie there
};

// Where a file speaks and the user says otherwise.
[[noreturn]] inline void contradicts(std::string_view field, const std::string& given,
                                     const std::string& file, const std::string& said) {
  throw UsageError(fmt::format("{} {} contradicts {}, which says {}", field, given, file, said));
}

// What the file says, or else what the user does. Throws UsageError where they differ.
template <class Number>
std::optional<Number> filled(std::string_view field, std::optional<Number> said,
                             std::optional<Number> given, const std::string& file) {
  if (said && given && *said != *given)
    contradicts(field, fmt::to_string(*given), file, fmt::to_string(*said));
  return said ? said : given;
}

// The micro-batches a step by which G = b M D holds, where two of b, M and G are known; those that
// are known must agree.
struct BatchSizes {
  std::optional<std::int64_t> micro, count, global;
};
[[nodiscard]] inline std::optional<std::string> complete(BatchSizes& batch, std::int64_t replicas) {
  if (!batch.micro && batch.global && batch.count && *batch.global % (*batch.count * replicas) == 0)
    batch.micro = *batch.global / (*batch.count * replicas);
  if (!batch.global && batch.micro && batch.count)
    batch.global = *batch.micro * *batch.count * replicas;
  if (batch.micro && batch.count && batch.global &&
      *batch.micro * *batch.count * replicas != *batch.global) {
    return fmt::format("{} micro-batches of {} times {} replicas are not {} samples a step",
                       *batch.count, *batch.micro, replicas, *batch.global);
  }
  return std::nullopt;
}

}  // namespace weir
