// Quantities as types: a number that has a unit never travels without it.
//
// Simulated time is whole nanoseconds, model maths is double seconds, and `to_nanoseconds` is the
// one rounding function between them. Text with a unit ("80 GiB", "1.5ms", "300 GB/s") is parsed
// strictly here, where it enters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

using Nanoseconds = std::chrono::duration<std::int64_t, std::nano>;
using Seconds = std::chrono::duration<double>;

// A number with a dimension: adds to its like, scales by pure numbers, divides by its like to a
// pure number.
template <class Tag, class Rep>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep count) : count_(count) {}
  [[nodiscard]] constexpr Rep count() const { return count_; }
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.count_ + b.count_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.count_ - b.count_);
  }
  friend constexpr Quantity operator*(Quantity a, Rep factor) {
    return Quantity(a.count_ * factor);
  }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return a * factor; }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.count_) / static_cast<double>(b.count_);
  }

 private:
  Rep count_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
  return Seconds(static_cast<double>(amount.count()) / rate.count());
}
constexpr Seconds operator/(Flops amount, FlopsPerSecond rate) {
  return Seconds(amount.count() / rate.count());
}

// Nearest nanosecond, halves away from zero. The only rounding from model maths to simulated time.
// Throws std::range_error when the value is not finite or does not fit.
[[nodiscard]] Nanoseconds to_nanoseconds(Seconds value);
[[nodiscard]] constexpr Seconds to_seconds(Nanoseconds value) { return Seconds(value); }

// Indices that must not be mixed up. They count up and down, and their difference is a number;
// containers addressed by them are in plan/words/indexed.
template <class Tag>
struct Index {
  std::int32_t value = 0;

  constexpr Index() = default;
  constexpr explicit Index(std::integral auto of) : value(static_cast<std::int32_t>(of)) {}
  constexpr auto operator<=>(const Index&) const = default;
  // Where a container keeps what belongs to it. Precondition: not negative.
  [[nodiscard]] constexpr std::size_t position() const { return static_cast<std::size_t>(value); }
  constexpr Index& operator++() {
    ++value;
    return *this;
  }
  friend constexpr Index operator+(Index a, std::int32_t steps) { return Index(a.value + steps); }
  friend constexpr Index operator-(Index a, std::int32_t steps) { return Index(a.value - steps); }
  friend constexpr std::int32_t operator-(Index a, Index b) { return a.value - b.value; }
};
using Rank = Index<struct RankTag>;    // device, 0..K-1
using Stage = Index<struct StageTag>;  // global stage, 0..K*v-1 (times replicas)
// 0..M-1 (micro-batch segments where a schedule slices sequences)
using Microbatch = Index<struct MicrobatchTag>;

// a / b rounded up, of counts.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Strict readers of a number with its unit; nullopt when the text is anything else.
//   bytes: B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024); from 1 KiB on
//     the nearest whole number of them
//   duration: ns, us, ms, s, min, h       rate: bytes as above, then "/s"
[[nodiscard]] std::optional<Bytes> parse_bytes(std::string_view text);
[[nodiscard]] std::optional<Seconds> parse_duration(std::string_view text);
[[nodiscard]] std::optional<BytesPerSecond> parse_rate(std::string_view text);

// For people: "1.50 GiB", "12.3 ms". Never parsed back by us.
[[nodiscard]] std::string format_bytes(Bytes value);
[[nodiscard]] std::string format_duration(Seconds value);

}  // namespace weir
