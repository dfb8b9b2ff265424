// Hours and money from a step's time.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/training_cost.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/text/strict_json.hpp"
#include "plan/words/figures.hpp"
#include "plan/words/units.hpp"

namespace weir {
namespace {

using Amount = TrainingCost::Amount;

constexpr double kHour = 3600;
constexpr int kDigits = 4;
// Less than a second of training in thirty years: it never ends.
constexpr double kLeastGoodput = 1e-9;

int devices_of(const Forecast& f) { return f.shared_devices.value_or(f.devices); }

// Of all devices for so long.
Amount amount_of(const Forecast& f, Seconds time) {
  const double hours = time.count() / kHour;
  Amount amount{hours * devices_of(f), std::nullopt};
  if (f.price_per_hour) amount.price = *f.price_per_hour * hours;
  return amount;
}

// A step of no time has no rates either.
std::optional<double> tokens_per_step(const Forecast& f) {
  if (!f.tokens_per_s) return std::nullopt;
  return *f.tokens_per_s * f.step_time.count();
}

Json amounts_json(const TrainingCost& cost) {
  Json json{{"gpu_hours", cost.expected.gpu_hours}, {"gpu_hours_interval", nullptr}};
  if (cost.low) json["gpu_hours_interval"] = {cost.low->gpu_hours, cost.high->gpu_hours};
  if (!cost.expected.price) return json;
  json["currency"] = cost.expected.price->currency;
  json["price"] = cost.expected.price->amount;
  json["price_interval"] = nullptr;
  if (cost.low) json["price_interval"] = {cost.low->price->amount, cost.high->price->amount};
  return json;
}

std::string hours_text(const Forecast& f, const Amount& amount) {
  const char* const device = f.device_kind == DeviceKind::gpu    ? "GPU"
                             : f.device_kind == DeviceKind::core ? "core"
                                                                 : "device";
  return fmt::format("{} {}-hours", format_figure(amount.gpu_hours, kDigits), device);
}

}  // namespace

TrainingCost cost_of_steps(const Forecast& f, double steps) {
  TrainingCost cost{amount_of(f, f.step_time * steps), {}, {}, f.step_time * steps};
  if (!f.interval) return cost;
  cost.low = amount_of(f, f.interval->low * steps);
  cost.high = amount_of(f, f.interval->high * steps);
  return cost;
}

std::optional<TrainingCost> cost_of_tokens(const Forecast& f, double tokens) {
  const auto of_step = tokens_per_step(f);
  if (!of_step) return std::nullopt;
  return cost_of_steps(f, tokens / *of_step);
}

std::optional<TrainingCost> cost_of_training(const Forecast& f) {
  if (!f.training_tokens) return std::nullopt;
  // What is trained again after a failure, and what nobody trains in, is paid for too.
  const double goodput = f.goodput ? f.goodput->checkpoints.goodput : 1;
  if (!(goodput >= kLeastGoodput)) return std::nullopt;
  return cost_of_tokens(f, *f.training_tokens / goodput);
}

Json training_cost_json(const Forecast& f) {
  if (f.stack.empty()) return nullptr;
  Json json{{"step", amounts_json(cost_of_steps(f, 1))}};
  const auto billion = cost_of_tokens(f, kBillion);
  json["billion_tokens"] = billion ? amounts_json(*billion) : Json();
  if (!f.training_tokens) return json;
  const auto training = cost_of_training(f);
  json["training"] = training ? amounts_json(*training) : Json();
  if (training) {
    json["training"]["tokens"] = *f.training_tokens;
    json["training"]["time_s"] = training->time.count();
  }
  return json;
}

TrainingCost cost_of_unit(const Forecast& f) {
  return cost_of_tokens(f, kBillion).value_or(cost_of_steps(f, 1000));
}

bool costs_go_with_steps(const Forecast& a, const Forecast& b) {
  const auto tokens = [](const Forecast& f) { return tokens_per_step(f).value_or(0); };
  // A step's time times a rate is the tokens again, but for the last bits.
  constexpr double kEqual = 1e-9;
  return devices_of(a) == devices_of(b) && a.price_per_hour == b.price_per_hour &&
         std::abs(tokens(a) - tokens(b)) <= kEqual * tokens(a);
}

std::string cost_text(const Forecast& f) {
  if (f.stack.empty() || (f.device_kind == DeviceKind::core && !f.price_per_hour)) return "";
  const Amount amount = cost_of_unit(f).expected;
  std::string text = hours_text(f, amount);
  if (amount.price) text += fmt::format(" ({})", format_price(*amount.price));
  return text + (tokens_per_step(f) ? " a billion tokens" : " a thousand steps");
}

std::string cost_clause(const Forecast& f) {
  const std::string text = cost_text(f);
  return text.empty() ? "" : ", " + text;
}

std::string training_text(const Forecast& f) {
  if (!f.training_tokens || !tokens_per_step(f)) return "";
  std::string text = format_whole(*f.training_tokens) + " tokens: ";
  const auto cost = cost_of_training(f);
  if (!cost) return text + "never done, failures leave no time to train";
  const Amount& expected = cost->expected;
  text += hours_text(f, expected);
  if (cost->low)
    text += fmt::format(" ({} to {})", format_figure(cost->low->gpu_hours, kDigits),
                        format_figure(cost->high->gpu_hours, kDigits));
  if (expected.price) text += ", " + format_price(*expected.price);
  if (expected.price && cost->low)
    text += fmt::format(" ({} to {})", format_amount(*cost->low->price),
                        format_amount(*cost->high->price));
  return text + ", " + format_duration(cost->time);
}

}  // namespace weir
