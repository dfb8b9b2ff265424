// Reads measured figures, and turns rates into step times.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/measured_figure.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "plan/words/error.hpp"

namespace weir::app {
namespace {

using FigureKind = MeasuredFigure::Kind;

struct RateUnit {
  std::string_view name;
  FigureKind kind;
  double factor;
};

constexpr std::array kRateUnits{RateUnit{"TFLOPs", FigureKind::flops, 1e12},
                                RateUnit{"TFLOPS", FigureKind::flops, 1e12},
                                RateUnit{"TFLOP/s", FigureKind::flops, 1e12},
                                RateUnit{"PFLOP/s", FigureKind::flops, 1e15},
                                RateUnit{"tok/s", FigureKind::tokens_per_s, 1},
                                RateUnit{"ktok/s", FigureKind::tokens_per_s, 1e3},
                                RateUnit{"Mtok/s", FigureKind::tokens_per_s, 1e6},
                                RateUnit{"tokens/s", FigureKind::tokens_per_s, 1},
                                RateUnit{"ktokens/s", FigureKind::tokens_per_s, 1e3},
                                RateUnit{"Mtokens/s", FigureKind::tokens_per_s, 1e6},
                                RateUnit{"samples/s", FigureKind::samples_per_s, 1}};

// How fast; nullopt where it is nothing of the kind.
std::optional<std::pair<FigureKind, double>> parse_speed(std::string_view text) {
  if (const auto time = parse_duration(text))
    return std::pair(FigureKind::step_time, time->count());
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit(end, last);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const RateUnit& rate : kRateUnits) {
    if (unit == rate.name) return std::pair(rate.kind, number * rate.factor);
  }
  return std::nullopt;
}

// `whole`: what was given, for messages.
MeasuredFigure figure_of(MeasuredFigure figure, const std::string& whole,
                         const std::string& option) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("{} {}: {}", option, whole, why));
  };
  const auto comma = figure.text.find(',');
  const std::string first = figure.text.substr(0, comma);
  const auto speed = parse_speed(first);
  if (!speed || speed->second <= 0) {
    refuse(
        fmt::format("\"{}\": expected a step time (22.3s, 850ms), 296.5TFLOPs a device, or "
                    "380ktok/s or samples/s of the whole job",
                    first));
  }
  std::tie(figure.kind, figure.value) = *speed;
  if (comma == std::string::npos) return figure;
  const std::string second = figure.text.substr(comma + 1);
  // A measured amount need not be of whole bytes; what is counted by the second has the same units.
  const auto bytes = parse_rate(second + "/s");
  if (!bytes || bytes->count() < 1 || bytes->count() > 1e18)
    refuse(fmt::format("\"{}\": expected an amount of memory with its unit, as 61GiB", second));
  figure.memory = Bytes(std::llround(bytes->count()));
  return figure;
}

}  // namespace

MeasuredFigure parse_plain_figure(const std::string& text, const std::string& option) {
  return figure_of({.plan = {}, .text = text}, text, option);
}

MeasuredFigure parse_figure(const std::string& text, const std::string& option) {
  // A path may have a sign of equality, a figure has none.
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(
        fmt::format("{} {}: expected PLAN=FIGURE, as plan.json=22.3s,61GiB", option, text));
  }
  return figure_of({.plan = text.substr(0, equals), .text = text.substr(equals + 1)}, text, option);
}

std::optional<Seconds> step_time_of(const MeasuredFigure& figure, const Forecast& forecast) {
  const auto from_rate = [&](const std::optional<double>& rate) -> std::optional<Seconds> {
    if (!rate) return std::nullopt;
    return forecast.step_time * (*rate / figure.value);
  };
  switch (figure.kind) {
    case FigureKind::step_time:
      return Seconds(figure.value);
    case FigureKind::flops:
      if (!forecast.model_tflops_per_device) return std::nullopt;
      return from_rate(*forecast.model_tflops_per_device * 1e12);
    case FigureKind::tokens_per_s:
      return from_rate(forecast.tokens_per_s);
    case FigureKind::samples_per_s:
      return from_rate(forecast.samples_per_s);
  }
  return std::nullopt;
}

}  // namespace weir::app
