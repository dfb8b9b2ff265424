// Quantities as texts.
// SPDX-License-Identifier: Apache-2.0
#include "plan/format/kinds.hpp"

#include <fmt/format.h>

#include <utility>

namespace weir::format {
namespace {

constexpr std::string_view kUnlimited = "unlimited";

template <class V>
V known(const Spec& key, const JsonObject& object, const std::optional<V>& amount,
        const char* expected) {
  // With a rate of 0 no message would ever arrive.
  const bool moves = !std::same_as<V, BytesPerSecond> || (amount && amount->count() > 0);
  if (!amount || !moves) object.fail(key.name, *key.expected == '\0' ? expected : key.expected);
  if constexpr (!std::same_as<V, Bytes>) {
    constexpr bool kIsRate = std::same_as<V, BytesPerSecond>;
    if (amount->count() < key.range.low)
      object.fail(key.name,
                  fmt::format("expected at least {:g} {}", key.range.low, kIsRate ? "B/s" : "s"));
    if (amount->count() > key.range.high)
      object.fail(key.name,
                  fmt::format("expected at most {:g} {}", key.range.high, kIsRate ? "B/s" : "s"));
  }
  return *amount;
}

}  // namespace

void WithUnit::read(const Spec& key, JsonObject& object, Bytes& value) {
  value = known(key, object, parse_bytes(object.text(key.name)),
                "expected an amount with its unit, as \"80 GiB\"");
}
void WithUnit::read(const Spec& key, JsonObject& object, Seconds& value) {
  value = known(key, object, parse_duration(object.text(key.name)),
                "expected a duration with its unit, as \"4 us\"");
}
void WithUnit::read(const Spec& key, JsonObject& object, BytesPerSecond& value) {
  value = known(key, object, parse_rate(object.text(key.name)),
                "expected a rate with its unit, as \"300 GB/s\"");
}

Json WithUnit::write(const Spec&, Bytes value) {
  constexpr std::pair<const char*, std::int64_t> kUnits[] = {
      {"GB", 1'000'000'000}, {"GiB", std::int64_t{1} << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}};
  // The first unit that divides it: what is written reads back as the same bytes.
  for (const auto& [name, unit] : kUnits) {
    if (value.count() % unit == 0) return fmt::format("{} {}", value.count() / unit, name);
  }
  return fmt::format("{} B", value.count());
}
Json WithUnit::write(const Spec&, Seconds value) {
  return fmt::format("{:.6g} us", value.count() * 1e6);
}
Json WithUnit::write(const Spec&, BytesPerSecond value) {
  return value.count() > 0 ? Json(fmt::format("{:.6g} GB/s", value.count() / 1e9))
                           : Json(kUnlimited);
}

void RateOrNone::read(const Spec& key, JsonObject& object, BytesPerSecond& value) {
  value = BytesPerSecond(0);
  if (object.text(key.name) != kUnlimited) WithUnit::read(key, object, value);
}

void Portion::read(const Spec& key, JsonObject& object, double& value) {
  Plain::read(key, object, value);
  if (value == 0) object.fail(key.name, "expected a share above 0");
}

}  // namespace weir::format
