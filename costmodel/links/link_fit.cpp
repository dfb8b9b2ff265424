// Fits latency and bandwidth to measured messages: the best division of the sizes into up to three
// ranges, and in each a robust line (docs/theory.md 8.2).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/link_fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "traces/stats.hpp"

namespace weir {
namespace {

constexpr std::size_t kFewestSizes = 3;   // of a range, where there is more than one
constexpr std::int64_t kSmall = 1 << 20;  // bytes: in larger messages a latency drowns
constexpr double kNoise = 0.01;           // relative; a closer fit is no better
constexpr double kMost = 0.2;             // relative; a farther sample is no worse

struct Line {
  double latency = 0;   // seconds
  double per_byte = 0;  // seconds
  [[nodiscard]] double at(double bytes) const { return latency + per_byte * bytes; }
};

// Weighted least squares on relative residuals; neither term may be negative.
Line solved(const Eigen::ArrayXd& bytes, const Eigen::ArrayXd& time, const Eigen::ArrayXd& weight) {
  const Eigen::ArrayXd root = weight.sqrt() / time;
  Eigen::MatrixXd a(bytes.size(), 2);
  a.col(0) = root;
  a.col(1) = root * bytes;
  const Eigen::VectorXd b = root * time;
  // Pivoted QR: with sizes far apart the two columns differ by many powers of ten.
  const Eigen::Vector2d both = a.colPivHouseholderQr().solve(b);
  // A negative term is not a time: drop it and fit the other alone.
  if (both[0] >= 0 && both[1] >= 0) return {both[0], both[1]};
  const auto alone = [&](Eigen::Index column) {
    return a.col(column).dot(b) / a.col(column).squaredNorm();
  };
  return both[0] < 0 ? Line{0, alone(1)} : Line{alone(0), 0};
}

Line robust_line(std::span<const TimedMessage> samples, double factor) {
  const auto n = static_cast<Eigen::Index>(samples.size());
  Eigen::ArrayXd bytes(n), time(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const TimedMessage& sample = samples[static_cast<std::size_t>(i)];
    bytes[i] = factor * static_cast<double>(sample.size.count());
    time[i] = sample.time.count();
  }
  Eigen::ArrayXd weight = Eigen::ArrayXd::Ones(n);
  Line line = solved(bytes, time, weight);
  for (int iteration = 0; iteration < 30; ++iteration) {
    const Eigen::ArrayXd residual = ((line.latency + line.per_byte * bytes) / time - 1).abs();
    // Noise bounds the threshold: samples that agree perfectly would else make any other an
    // outlier.
    const double threshold =
        kHuberThreshold * std::max(1.4826 * median({residual.begin(), residual.end()}), kNoise);
    weight = (residual <= threshold).select(1.0, threshold / residual);
    line = solved(bytes, time, weight);
  }
  return line;
}

FittedRange fitted(std::span<const TimedMessage> samples, double factor, double& loss) {
  const Line line = robust_line(samples, factor);
  std::vector<double> residuals;
  loss = 0;
  for (const TimedMessage& sample : samples) {
    const double residual = std::abs(
        line.at(factor * static_cast<double>(sample.size.count())) / sample.time.count() - 1);
    residuals.push_back(residual);
    // Clamped: one wild sample must not decide how the sizes are divided.
    loss += std::pow(std::min(residual, kMost), 2);
  }
  return {.smallest = samples.front().size,
          .largest = samples.back().size,
          .latency = Seconds(line.latency),
          .bandwidth = BytesPerSecond(line.per_byte > 0 ? 1 / line.per_byte : 0),
          .samples = static_cast<int>(samples.size()),
          .median_residual = median(residuals)};
}

// The best division of the samples after `first` into ranges that start at sizes' first samples.
struct Division {
  double criterion = 0;
  std::vector<FittedRange> ranges;
};

class Divider {
 public:
  Divider(std::span<const TimedMessage> samples, double factor)
      : samples_(samples), factor_(factor) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (i == 0 || samples[i].size != samples[i - 1].size) starts_.push_back(i);
    }
    starts_.push_back(samples.size());
  }
  [[nodiscard]] std::size_t sizes() const { return starts_.size() - 1; }

  Division best() {
    Division best = judged({0, sizes()});
    for (std::size_t a = kFewestSizes; a + kFewestSizes <= sizes(); ++a) {
      better(best, judged({0, a, sizes()}));
      for (std::size_t b = a + kFewestSizes; b + kFewestSizes <= sizes(); ++b)
        better(best, judged({0, a, b, sizes()}));
    }
    return best;
  }

 private:
  static void better(Division& best, Division other) {
    if (other.criterion < best.criterion) best = std::move(other);
  }
  // n log(mean square of the residuals) + parameters log(n): two of each line, one of each border.
  Division judged(const std::vector<std::size_t>& borders) {
    Division division;
    double sum = 0;
    for (std::size_t r = 0; r + 1 < borders.size(); ++r) {
      double loss = 0;
      const std::size_t first = starts_[borders[r]], last = starts_[borders[r + 1]];
      division.ranges.push_back(fitted(samples_.subspan(first, last - first), factor_, loss));
      sum += loss;
    }
    const auto n = static_cast<double>(samples_.size());
    // A line more must pay for itself (Schwarz's criterion), or every sample would be a range.
    const auto parameters = static_cast<double>(3 * division.ranges.size() - 1);
    division.criterion = n * std::log(sum / n + kNoise * kNoise) + parameters * std::log(n);
    return division;
  }

  std::span<const TimedMessage> samples_;
  double factor_;
  std::vector<std::size_t> starts_;
};

}  // namespace

std::optional<LinkFit> fit_link(std::span<const TimedMessage> samples, double factor) {
  std::vector<TimedMessage> sorted(samples.begin(), samples.end());
  std::ranges::stable_sort(sorted, {}, &TimedMessage::size);
  Divider divider(sorted, factor);
  if (divider.sizes() < 2) return std::nullopt;
  LinkFit fit{.ranges = divider.best().ranges};
  const FittedRange& first = fit.ranges.front();
  fit.latency_known = first.smallest.count() <= kSmall &&
                      first.latency.count() >= 0.5 * sorted.front().time.count();
  return fit;
}

Link to_link(const LinkFit& fit, Seconds known) {
  Link link;
  const FittedRange& first = fit.ranges.front();
  if (!fit.latency_known) {
    // Below what was measured: from the known latency straight to the first measured size.
    const Seconds whole =
        first.latency +
        (first.bandwidth.count() > 0 ? first.smallest / first.bandwidth : Seconds(0));
    // At least a tenth is left for the bytes: a latency as long as the whole would make them free.
    const double rest = std::max((whole - known).count(), 0.1 * whole.count());
    link.regimes.push_back({first.smallest, known,
                            BytesPerSecond(static_cast<double>(first.smallest.count()) / rest)});
  }
  // The last range becomes the link's own rate, which holds beyond what was measured too.
  for (std::size_t r = 0; r + 1 < fit.ranges.size(); ++r) {
    const FittedRange& range = fit.ranges[r];
    link.regimes.push_back({range.largest, range.latency, range.bandwidth});
  }
  link.latency = fit.ranges.back().latency;
  link.bandwidth = fit.ranges.back().bandwidth;
  return link;
}

}  // namespace weir
