// Frequencies of rotary positions and the tables that are made of them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/rotary_tables.hpp"

#include <cmath>
#include <numbers>

namespace weir {
namespace {

// Llama 3.1's: slow pairs are slowed further, fast ones left, those between blended.
float llama3_frequency(const RotaryAngles& a, float frequency) {
  const auto positions = static_cast<double>(a.original_positions);
  const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
  const auto slowed = static_cast<float>(static_cast<double>(frequency) / a.factor);
  if (wavelength > positions / a.low_frequency) return slowed;
  if (wavelength < positions / a.high_frequency) return frequency;
  const double kept =
      (positions / wavelength - a.low_frequency) / (a.high_frequency - a.low_frequency);
  return static_cast<float>((1 - kept) * static_cast<double>(slowed) +
                            kept * static_cast<double>(frequency));
}

void fill_table(const RotaryAngles& angles, std::int64_t d, std::int64_t s, float* table) {
  const std::int64_t half = d / 2;
  std::vector<float> frequencies(static_cast<std::size_t>(half));
  rotary_frequencies(angles, d, frequencies);
  for (std::int64_t position = 0; position < s; ++position) {
    float* row = table + position * d;
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequencies[static_cast<std::size_t>(i)];
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      row[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

}  // namespace

void rotary_frequencies(const RotaryAngles& angles, std::int64_t d, std::span<float> frequencies) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    // In double to the end of the power: positions multiply an error in the frequency.
    const double exponent = 2 * static_cast<double>(i) / static_cast<double>(d);
    const float frequency = 1.0F / static_cast<float>(std::pow(angles.theta, exponent));
    switch (angles.scaling) {
      case RotaryScaling::linear:
        frequencies[i] = frequency / static_cast<float>(angles.factor);
        break;
      case RotaryScaling::llama3:
        frequencies[i] = llama3_frequency(angles, frequency);
        break;
      case RotaryScaling::none:
      case RotaryScaling::other:  // exec/training/trainable refuses it
        frequencies[i] = frequency;
        break;
    }
  }
}

void RotaryTables::prepare(const RotaryAngles& angles, std::int64_t d, std::int64_t s) {
  tables_.try_emplace({angles, d, s}, nullptr);
}

std::int64_t RotaryTables::bytes() const {
  std::int64_t numbers = 0;
  for (const auto& [key, table] : tables_) numbers += std::get<1>(key) * std::get<2>(key);
  return numbers * 4;
}

void RotaryTables::use(float* memory, const Put& put) {
  std::vector<float> filled;
  for (auto& [key, table] : tables_) {
    const auto& [angles, d, s] = key;
    filled.resize(static_cast<std::size_t>(d * s));
    fill_table(angles, d, s, filled.data());
    put(memory, filled);
    table = memory;
    memory += d * s;
  }
}

const float* RotaryTables::table(const RotaryAngles& angles, std::int64_t d, std::int64_t s) const {
  return tables_.at({angles, d, s});
}

}  // namespace weir
