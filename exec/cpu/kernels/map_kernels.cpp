// Batch norms, rectifiers and poolings, channels innermost so that a compiler makes vectors of
// them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/map_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "exec/cpu/kernels/vector_math.hpp"

namespace weir::cpu {
namespace {

// Sums over rows in blocks: fp32 within a block of so many, double beyond, so that a sum over 1e5
// rows is as exact as one over 64.
constexpr std::int64_t kRowsOfBlock = 64;

// sums[c] = sum over rows of term(row, c); visit(row, partial) adds a row's terms to `partial`.
template <class AddRow>
void blocked_sums(const Rows& size, std::size_t sums, std::vector<double>& total, AddRow add_row) {
  std::vector<float> partial(sums);
  total.assign(sums, 0.0);
  for (std::int64_t first = 0; first < size.rows; first += kRowsOfBlock) {
    std::ranges::fill(partial, 0.0F);
    const std::int64_t last = std::min(first + kRowsOfBlock, size.rows);
    for (std::int64_t row = first; row < last; ++row) add_row(row, partial.data());
    for (std::size_t c = 0; c < sums; ++c) total[c] += partial[c];
  }
}

std::vector<float> inverse_deviations(const float* moments, std::int64_t channels, float epsilon) {
  std::vector<float> inverse(static_cast<std::size_t>(channels));
  for (std::int64_t c = 0; c < channels; ++c) {
    inverse[static_cast<std::size_t>(c)] = 1.0F / std::sqrt(moments[channels + c] + epsilon);
  }
  return inverse;
}

// visit(output place, input place, place in the window) of every window's places on the map; places
// count numbers from the tensor's beginning to the first channel.
template <class Begin, class Visit, class End>
void each_window(const Pooling& p, Begin begin, Visit visit, End end) {
  const std::int64_t channels = p.input.channels;
  std::int64_t output = 0;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t oy = 0; oy < p.output.height; ++oy) {
      for (std::int64_t ox = 0; ox < p.output.width; ++ox, output += channels) {
        begin(output);
        // Averages divide by the places on the map: padding does not count.
        std::int64_t on_map = 0;
        for (std::int64_t ky = 0; ky < p.kernel_y; ++ky) {
          const std::int64_t y = oy * p.stride_y + ky - p.pad_y;
          if (y < 0 || y >= p.input.height) continue;
          for (std::int64_t kx = 0; kx < p.kernel_x; ++kx) {
            const std::int64_t x = ox * p.stride_x + kx - p.pad_x;
            if (x < 0 || x >= p.input.width) continue;
            const std::int64_t input = ((b * p.input.height + y) * p.input.width + x) * channels;
            visit(output, input, ky * p.kernel_x + kx);
            ++on_map;
          }
        }
        end(output, on_map);
      }
    }
  }
}

std::size_t input_bytes(const Pooling& p) {
  return static_cast<std::size_t>(p.batch * p.input.numbers()) * sizeof(float);
}

// Of eight numbers at most, a bit each.
constexpr std::uint32_t kSigns[8] = {1, 2, 4, 8, 16, 32, 64, 128};

WEIR_INLINE std::uint8_t signs_of(const float* x, std::int64_t count) {
  std::uint32_t bits = 0;
  for (std::int64_t i = 0; i < count; ++i) bits |= x[i] > 0 ? kSigns[i] : 0U;
  return static_cast<std::uint8_t>(bits);
}

// Without a branch, which would be missed at every other number.
WEIR_INLINE void keep_signed(std::uint32_t bits, const float* dy, std::int64_t count, float* dx) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t all = (bits & kSigns[i]) != 0 ? ~0U : 0U;
    dx[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(dy[i]) & all);
  }
}

}  // namespace

void channel_moments(const float* x, const Rows& size, float* moments) {
  const std::int64_t n = size.channels;
  std::vector<double> sums;
  blocked_sums(size, static_cast<std::size_t>(n), sums, [&](std::int64_t row, float* partial) {
    const float* at = x + row * n;
    for (std::int64_t c = 0; c < n; ++c) partial[c] += at[c];
  });
  const auto rows = static_cast<double>(size.rows);
  for (std::int64_t c = 0; c < n; ++c)
    moments[c] = static_cast<float>(sums[static_cast<std::size_t>(c)] / rows);
  // The squares of what is left: no difference of large numbers.
  blocked_sums(size, static_cast<std::size_t>(n), sums, [&](std::int64_t row, float* partial) {
    const float* at = x + row * n;
    for (std::int64_t c = 0; c < n; ++c) {
      const float off = at[c] - moments[c];
      partial[c] += off * off;
    }
  });
  for (std::int64_t c = 0; c < n; ++c)
    moments[n + c] = static_cast<float>(sums[static_cast<std::size_t>(c)] / rows);
}

void batch_norm(const float* x, const Rows& size, const float* moments, const float* gain,
                const float* shift, float epsilon, float* y) {
  const std::int64_t n = size.channels;
  std::vector<float> scale = inverse_deviations(moments, n, epsilon);
  for (std::int64_t c = 0; c < n; ++c) scale[static_cast<std::size_t>(c)] *= gain[c];
  const float* by = scale.data();
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const float* from = x + row * n;
    float* to = y + row * n;
    for (std::int64_t c = 0; c < n; ++c) to[c] = (from[c] - moments[c]) * by[c] + shift[c];
  }
}

void batch_norm_gradient(const float* x, const Rows& size, const float* moments, const float* gain,
                         float epsilon, const float* dy, float* dx, float* gradients) {
  const std::int64_t n = size.channels;
  const std::vector<float> inverse = inverse_deviations(moments, n, epsilon);
  const float* r = inverse.data();
  std::vector<double> sums;
  // Gains' gradients, sum(dy z), then shifts', sum(dy).
  blocked_sums(size, static_cast<std::size_t>(2 * n), sums, [&](std::int64_t row, float* partial) {
    const float* at = x + row * n;
    const float* d = dy + row * n;
    float* shifts = partial + n;
    for (std::int64_t c = 0; c < n; ++c) {
      partial[c] += d[c] * ((at[c] - moments[c]) * r[c]);
      shifts[c] += d[c];
    }
  });
  for (std::int64_t c = 0; c < 2 * n; ++c)
    gradients[c] = static_cast<float>(sums[static_cast<std::size_t>(c)]);
  const auto rows = static_cast<double>(size.rows);
  std::vector<float> by(static_cast<std::size_t>(n)), along(by), mean(by);
  // What is the same along a channel is computed once.
  for (std::int64_t c = 0; c < n; ++c) {
    const auto at = static_cast<std::size_t>(c);
    by[at] = gain[c] * r[c];
    along[at] = static_cast<float>(sums[at] / rows) * r[c];
    mean[at] = static_cast<float>(sums[at + static_cast<std::size_t>(n)] / rows);
  }
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const float* at = x + row * n;
    const float* d = dy + row * n;
    float* to = dx + row * n;
    for (std::int64_t c = 0; c < n; ++c) {
      const auto i = static_cast<std::size_t>(c);
      to[c] = by[i] * (d[c] - mean[i] - (at[c] - moments[c]) * along[i]);
    }
  }
}

void add_moments(const float* moments, const float* running, std::int64_t channels, float share,
                 Beta beta, float* sums) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float off = moments[c] - running[c];
    const float first = share * off;
    const float second = share * (moments[channels + c] + off * off);
    sums[c] = beta == Beta::one ? sums[c] + first : first;
    sums[channels + c] = beta == Beta::one ? sums[channels + c] + second : second;
  }
}

void move_statistics(const RunningStatistics& how, std::int64_t samples,
                     std::span<const float* const> sums, std::int64_t channels, float* running) {
  // The running variance is the unbiased one, as frameworks keep it: n / (n - 1).
  const double count = static_cast<double>(samples) * static_cast<double>(how.places);
  const double unbiased = count / std::max(count - 1, 1.0);
  for (std::int64_t c = 0; c < channels; ++c) {
    double first = 0, second = 0;
    for (const float* part : sums) {
      first += part[c];
      second += part[channels + c];
    }
    // Moments are about the running mean (add_moments), so `first` is how far it is to move.
    // Rounding may leave less than no variance.
    const double variance = std::max(second - first * first, 0.0) * unbiased;
    float& mean = running[c];
    float& spread = running[channels + c];
    mean = static_cast<float>(mean + how.momentum * first);
    spread = static_cast<float>(spread + how.momentum * (variance - spread));
  }
}

WEIR_MULTIVERSION void rectify(const float* x, std::int64_t n, float* y, std::uint8_t* signs) {
  // Not a number stays what it is, and is found.
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? 0.0F : x[i];
  std::int64_t first = 0;
  for (; first + 8 <= n; first += 8) signs[first / 8] = signs_of(x + first, 8);
  if (first < n) signs[first / 8] = signs_of(x + first, n - first);
}

WEIR_MULTIVERSION void rectify_gradient(const std::uint8_t* signs, const float* dy, std::int64_t n,
                                        float* dx) {
  std::int64_t first = 0;
  for (; first + 8 <= n; first += 8) keep_signed(signs[first / 8], dy + first, 8, dx + first);
  if (first < n) keep_signed(signs[first / 8], dy + first, n - first, dx + first);
}

void max_pool(const Pooling& p, const float* x, float* y, std::uint8_t* places) {
  const std::int64_t channels = p.input.channels;
  bool first = true;
  each_window(
      p, [&](std::int64_t) { first = true; },
      [&](std::int64_t output, std::int64_t input, std::int64_t place) {
        const float* from = x + input;
        float* to = y + output;
        std::uint8_t* at = places + output;
        const auto here = static_cast<std::uint8_t>(place);
        for (std::int64_t c = 0; c < channels; ++c) {
          // Of equal values the first place wins: the gradient must go to one.
          const bool above = first || from[c] > to[c];
          to[c] = above ? from[c] : to[c];
          at[c] = above ? here : at[c];
        }
        first = false;
      },
      [](std::int64_t, std::int64_t) {});
}

void max_pool_gradient(const Pooling& p, const std::uint8_t* places, const float* dy, float* dx) {
  const std::int64_t channels = p.input.channels;
  std::memset(dx, 0, input_bytes(p));
  each_window(
      p, [](std::int64_t) {},
      [&](std::int64_t output, std::int64_t input, std::int64_t place) {
        for (std::int64_t c = 0; c < channels; ++c)
          dx[input + c] += places[output + c] == place ? dy[output + c] : 0.0F;
      },
      [](std::int64_t, std::int64_t) {});
}

void average_pool(const Pooling& p, const float* x, float* y) {
  const std::int64_t channels = p.input.channels;
  each_window(
      p, [&](std::int64_t output) { std::fill_n(y + output, channels, 0.0F); },
      [&](std::int64_t output, std::int64_t input, std::int64_t) {
        for (std::int64_t c = 0; c < channels; ++c) y[output + c] += x[input + c];
      },
      [&](std::int64_t output, std::int64_t on_map) {
        const float share = 1.0F / static_cast<float>(on_map);
        for (std::int64_t c = 0; c < channels; ++c) y[output + c] *= share;
      });
}

void average_pool_gradient(const Pooling& p, const float* dy, float* dx) {
  const std::int64_t channels = p.input.channels;
  std::memset(dx, 0, input_bytes(p));
  // How much of a window lies on the map is known only at its end: the places are kept until then.
  std::vector<std::int64_t> window;
  each_window(
      p, [&](std::int64_t) { window.clear(); },
      [&](std::int64_t, std::int64_t input, std::int64_t) { window.push_back(input); },
      [&](std::int64_t output, std::int64_t on_map) {
        const float share = 1.0F / static_cast<float>(on_map);
        for (const std::int64_t input : window) {
          for (std::int64_t c = 0; c < channels; ++c) dx[input + c] += share * dy[output + c];
        }
      });
}

void upsample(const Pooling& p, const float* x, float* y) {
  const std::int64_t channels = p.input.channels, width = p.output.width;
  for (std::int64_t row = 0; row < p.batch * p.output.height; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      std::memcpy(y + (row * width + column) * channels,
                  x + (row / p.stride_y * p.input.width + column / p.stride_x) * channels,
                  static_cast<std::size_t>(channels) * sizeof(float));
    }
  }
}

void upsample_gradient(const Pooling& p, const float* dy, float* dx) {
  const std::int64_t channels = p.input.channels, width = p.output.width;
  std::memset(dx, 0, input_bytes(p));
  for (std::int64_t row = 0; row < p.batch * p.output.height; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      add(dy + (row * width + column) * channels, channels,
          dx + (row / p.stride_y * p.input.width + column / p.stride_x) * channels);
    }
  }
}

void put_columns(const float* x, std::int64_t rows, std::int64_t width, std::int64_t from,
                 std::int64_t stride, float* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(y + row * stride + from, x + row * width,
                static_cast<std::size_t>(width) * sizeof(float));
  }
}

void take_columns(const float* y, std::int64_t rows, std::int64_t width, std::int64_t from,
                  std::int64_t stride, float* x) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(x + row * width, y + row * stride + from,
                static_cast<std::size_t>(width) * sizeof(float));
  }
}

}  // namespace weir::cpu
