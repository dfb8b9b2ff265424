// The table of generators.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedules/schedules.hpp"

#include <fmt/format.h>

#include <array>

namespace weir {
namespace {

constexpr std::array kGenerators{
    Generator{"gpipe", "Huang et al., GPipe, NeurIPS 2019, Figure 2c", "(K-1)(F+B)", "M", 1, 1, make_gpipe},
    Generator{"1f1b", "Narayanan et al., PipeDream, SOSP 2019, section 3.2; flushed as in Megatron-LM, SC 2021, 2.2.1",
              "(K-1)(F+B)", "min(M, K-k)", 1, 1, make_1f1b},
};

}  // namespace

std::span<const Generator> generators() { return kGenerators; }

ScheduleOrReason make_schedule(std::string_view name, const ScheduleRequest& request) {
  if (request.ranks < 1 || request.chunks < 1 || request.microbatches < 1) {
    return std::string("K, v and M must be at least 1");
  }
  std::string known;
  for (const Generator& generator : kGenerators) {
    if (generator.name == name) return generator.make(request);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", generator.name);
  }
  return fmt::format("unknown schedule \"{}\"; known: {}", name.substr(0, 40), known);
}

}  // namespace weir
