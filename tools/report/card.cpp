// The card of a report, written and read.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/card.hpp"

#include <chrono>
#include <string_view>

#include "plan/text/cells.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/utf8.hpp"
#include "plan/words/error.hpp"
#include "tools/report/page.hpp"

namespace weir {
namespace {

constexpr const char* kName = "report";

// What no report can mean is not shown: longer than nanoseconds can count, or so many times off.
constexpr double kLongest = 9e9, kFarthest = 1e12;

std::optional<double> number_or_null(JsonObject& object, const char* key, double low, double high) {
  if (!object.is_null(key)) return object.number(key, low, high);
  static_cast<void>(object.at(key));  // it has to be there all the same
  return std::nullopt;
}

std::optional<Seconds> seconds_or_null(JsonObject& object, const char* key) {
  const std::optional<double> seconds = number_or_null(object, key, 0, kLongest);
  return seconds ? std::optional(Seconds(*seconds)) : std::nullopt;
}

// A day of the calendar, as "2026-11-23"; empty: not known.
std::string day(JsonObject& object, const char* key) {
  std::string text = object.text(key);
  if (text.empty()) return text;
  const auto number = [&text](std::size_t from, std::size_t length) {
    return whole_number<unsigned>(std::string_view(text).substr(from, length)).value_or(0);
  };
  const bool shaped = text.size() == 10 && text[4] == '-' && text[7] == '-';
  const bool known = shaped && std::chrono::year_month_day(
                                   std::chrono::year(static_cast<int>(number(0, 4))),
                                   std::chrono::month(number(5, 2)), std::chrono::day(number(8, 2)))
                                   .ok();
  if (!known) object.fail(key, "expected a day, as 2026-11-23");
  return text;
}

}  // namespace

nlohmann::ordered_json to_json(const ReportCard& card) {
  const auto seconds = [](const std::optional<Seconds>& time) {
    return time ? Json(time->count()) : Json();
  };
  return {{"schema", "weir.report/1"},
          {"command", card.command},
          {"model", card.model},
          {"machine", card.machine},
          {"date", card.date},
          {"plan", card.plan.empty() ? Json() : Json(card.plan)},
          {"forecast_step_time_s", seconds(card.forecast)},
          {"measured_step_time_s", seconds(card.measured)},
          {"error", or_null(card.error)}};
}

std::string card_part(const ReportCard& card) { return data_part(kName, to_json(card)); }

std::optional<ReportCard> card_of(const std::string& begin, const std::string& file) {
  const std::string opening = data_opening(kName);
  const std::size_t at = begin.find(opening);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t from = at + opening.size();
  const std::size_t end = begin.find('<', from);  // none stands in the JSON (data_part)
  if (end == std::string::npos) throw InputError(file, "", "ends within what it says of itself");
  const std::string text = begin.substr(from, end - from);
  if (utf8_prefix(text) != text.size()) throw InputError(file, "", "is not UTF-8");
  const Json json = parse_json(text, file);
  JsonObject object(json, file, "");
  object.expect_schema("weir.report/1");
  ReportCard card{.command = object.text("command"),
                  .model = object.text("model"),
                  .machine = object.text("machine"),
                  .date = day(object, "date"),
                  .plan = object.text_or("plan", ""),
                  .forecast = seconds_or_null(object, "forecast_step_time_s"),
                  .measured = seconds_or_null(object, "measured_step_time_s"),
                  .error = number_or_null(object, "error", -1, kFarthest)};
  object.finish();
  return card;
}

}  // namespace weir
