// What a report says of itself to programs: a line of JSON in its page (weir.report/1), by which a
// folder of reports becomes one index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "plan/words/units.hpp"

namespace weir {

struct ReportCard {
  std::string command;  // that wrote it: "tune"
  std::string model;
  std::string machine;
  std::string date;                 // "2026-11-23"; empty: not known
  std::string plan;                 // the one to use, in short; empty: it is of many plans
  std::optional<Seconds> forecast;  // of a step of the plan
  std::optional<Seconds> measured;  // of the same; none: nothing was run
  // Of the forecast against the measured step, signed; of many plans the median without signs.
  std::optional<double> error;
};

[[nodiscard]] nlohmann::ordered_json to_json(const ReportCard& card);  // weir.report/1

// As a part of the report's page, before all that may be long.
[[nodiscard]] std::string card_part(const ReportCard& card);

// Of a page that `begin` begins, kCardWithin bytes of it or all; nothing where it is no report.
// Throws InputError, by the name `file`, where it is one and its card cannot be read.
inline constexpr std::size_t kCardWithin = std::size_t{1} << 16;
[[nodiscard]] std::optional<ReportCard> card_of(const std::string& begin, const std::string& file);

}  // namespace weir
