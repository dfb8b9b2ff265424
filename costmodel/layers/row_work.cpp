// Expectations over a distribution of lengths, as means over equally likely ones.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/row_work.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace weir {
namespace {

constexpr int kDrawn = 1024;

// As many equally likely lengths, ascending: the middles of as many slices of the distribution.
std::vector<double> drawn(const SequenceLengths& lengths) {
  const std::vector<int>& all = lengths.quantiles;
  std::vector<double> drawn;
  drawn.reserve(kDrawn);
  for (int i = 0; i < kDrawn; ++i) {
    const double place = (i + 0.5) / kDrawn * static_cast<double>(all.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double low = all[below], high = all[std::min(below + 1, all.size() - 1)];
    drawn.push_back(low + (place - std::floor(place)) * (high - low));
  }
  return drawn;
}

template <class Of>
double mean(const std::vector<double>& lengths, Of of) {
  double sum = 0;
  for (const double length : lengths) sum += of(length);
  return sum / static_cast<double>(lengths.size());
}

// Of the longest of n: the i-th of N ascending ones is it with probability (i/N)^n - ((i-1)/N)^n.
template <class Of>
double mean_of_longest(const std::vector<double>& lengths, double n, Of of) {
  double sum = 0, below = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double up_to =
        std::pow(static_cast<double>(i + 1) / static_cast<double>(lengths.size()), n);
    sum += (up_to - below) * of(lengths[i]);
    below = up_to;
  }
  return sum;
}

double square(double x) { return x * x; }

RowWork packed_row(double squared) { return {1, squared, 1, squared}; }

}  // namespace

RowWork mean_row(const SequenceLengths& lengths, std::int64_t seq_length, int batch) {
  if (!lengths.known()) return {};
  const std::vector<double> all = drawn(lengths);
  const auto row = static_cast<double>(seq_length);
  const double length = mean(all, [](double l) { return l; });
  switch (lengths.rows) {
    case RowsOf::packed:
      return packed_row(mean(all, square) / (length * row));
    case RowsOf::cut: {
      const auto pairs = [row](double l) {
        return l <= row ? row * l * l - l * l * l / 3 : row * row * l - row * row * row / 3;
      };
      return packed_row(mean(all, pairs) / (length * row * row));
    }
    case RowsOf::longest:
      break;
  }
  const auto of = [&](auto what) { return mean_of_longest(all, batch, what); };
  return {of([](double l) { return l; }) / row, of(square) / (row * row), length / row,
          mean(all, square) / (row * row)};
}

double row_spread(const SequenceLengths& lengths, std::int64_t seq_length) {
  if (!lengths.known() || lengths.rows == RowsOf::longest) return 0;
  const auto row = static_cast<double>(seq_length);
  std::vector<double> all = drawn(lengths);
  for (double& length : all) length = std::min(length, row);  // what of it a row can hold
  const double length = mean(all, [](double l) { return l; });
  const double weighted = mean(all, square) / length;
  const double variance =
      row / length * mean(all, [=](double l) { return square(l * (l - weighted)); });
  // A share of mean p between 0 and 1 is spread by no more than sqrt(p (1 - p)).
  const double share = weighted / row;
  return std::min(std::sqrt(variance) / (row * row), std::sqrt(share * std::max(0.0, 1 - share)));
}

double largest_of_normal(int n) {
  if (n <= 1) return 0;
  // x n phi(x) Phi(x)^(n-1), integrated over what is not next to nothing.
  constexpr int kEnd = 9, kSteps = 16;  // steps of a unit
  double sum = 0;
  for (int i = -kEnd * kSteps; i <= kEnd * kSteps; ++i) {
    const double x = static_cast<double>(i) / kSteps;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double below = std::erfc(-x / std::numbers::sqrt2) / 2;
    sum += x * n * density * std::pow(below, n - 1) / kSteps;
  }
  return sum;
}

Seconds imbalance(const SequenceLengths& lengths, std::int64_t seq_length,
                  const MicrobatchTime& time, const UnlikeReplicas& replicas) {
  const int each = replicas.each_microbatch, all = replicas.each_step;
  if (!lengths.known() || all * each == 1) return Seconds(0);
  const bool together = each > 1;
  const double m = replicas.microbatches;
  if (lengths.rows != RowsOf::longest) {
    // A micro-batch is the mean of b rows.
    const Seconds spread =
        time.squared * row_spread(lengths, seq_length) / std::sqrt(1.0 * replicas.batch);
    return spread *
           (together ? m * largest_of_normal(each) : std::sqrt(m) * largest_of_normal(all));
  }
  const std::vector<double> drawn_lengths = drawn(lengths);
  const auto takes = [&](double longest) {
    const double share = longest / static_cast<double>(seq_length);
    return time.linear.count() * share + time.squared.count() * share * share;
  };
  const double b = replicas.batch, usual = mean_of_longest(drawn_lengths, b, takes);
  // Whoever waits in each micro-batch waits for the longest sequence of all of them.
  const auto waits_for = [&](int others) {
    return mean_of_longest(drawn_lengths, b * others, takes) - usual;
  };
  if (together) return Seconds(m * waits_for(each));
  if (replicas.microbatches == 1) return Seconds(waits_for(all));
  const auto squared = [&](double longest) { return square(takes(longest) - usual); };
  const double spread = std::sqrt(mean_of_longest(drawn_lengths, b, squared));
  return Seconds(std::sqrt(m) * largest_of_normal(all) * spread);
}

}  // namespace weir
