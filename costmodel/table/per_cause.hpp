// One value for each cause of a stage's time: its own kernels, what is computed again, what each
// kind of parallelism sends, and the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

namespace weir {

// Of one stage's action, or of many.
template <class T>
struct PerCause {
  T work{};            // the layers' own kernels, once; the update
  T rematerialised{};  // what the backward computes again, with what that sends
  T tensor{};          // collectives of tensor and sequence parallelism
  T context{};         // those of context parallelism
  T experts{};         // of expert parallelism, tokens to their experts and back
  T replicas{};        // ZeRO's beyond what kernels hide, and its gather after the update
  T messages{};        // sends that keep a stage, of a stack whose sends wait
  T host{};            // calls that keep the device waiting
  static constexpr auto members() {
    return std::array{
        &PerCause::work,    &PerCause::rematerialised, &PerCause::tensor,   &PerCause::context,
        &PerCause::experts, &PerCause::replicas,       &PerCause::messages, &PerCause::host};
  }
  bool operator==(const PerCause&) const = default;
};

}  // namespace weir
