// Gradients are gathered: a thread of the input goes through the windows that its place lies in.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/maps.cuh"
#include "exec/cuda/kernels/maps.hpp"

namespace weir::cuda {
namespace {

constexpr int kBits = 8;  // signs of a byte

// Rows or columns of an output's window that lie on the map, from `first` of the input to before
// `last`.
struct Inside {
  int first, last;
};
__device__ Inside inside(int output, int inputs, int kernel, int stride, int pad) {
  const int begin = output * stride - pad;
  return {begin < 0 ? 0 : begin, min(begin + kernel, inputs)};
}

// 1 / the places on the map of an output's window.
__device__ float share_of(const Windows& w, int oy, int ox) {
  const Inside rows = inside(oy, w.in_height, w.kernel_y, w.stride_y, w.pad_y);
  const Inside columns = inside(ox, w.in_width, w.kernel_x, w.stride_x, w.pad_x);
  return 1.0F / static_cast<float>((rows.last - rows.first) * (columns.last - columns.first));
}

// Bytes of L neighbours, in as few stores and loads as there are words.
template <int L>
__device__ void store_bytes(std::uint8_t* to, const int (&from)[L]) {
  if constexpr (L % 4 == 0) {
    for (int word = 0; word < L / 4; ++word) {
      unsigned bytes = 0;
      for (int k = 0; k < 4; ++k) bytes |= static_cast<unsigned>(from[4 * word + k]) << (8 * k);
      reinterpret_cast<unsigned*>(to)[word] = bytes;
    }
  } else {
    for (int k = 0; k < L; ++k) to[k] = static_cast<std::uint8_t>(from[k]);
  }
}
template <int L>
__device__ void load_bytes(const std::uint8_t* from, int (&to)[L]) {
  if constexpr (L % 4 == 0) {
    for (int word = 0; word < L / 4; ++word) {
      const unsigned bytes = reinterpret_cast<const unsigned*>(from)[word];
      for (int k = 0; k < 4; ++k) to[4 * word + k] = static_cast<int>(bytes >> (8 * k) & 0xFFU);
    }
  } else {
    for (int k = 0; k < L; ++k) to[k] = from[k];
  }
}

template <class E, int L>
__global__ void max_pool_kernel(Windows w, const E* x, E* y, std::uint8_t* places) {
  const Spot at = spot_of<L>(w.out_height, w.out_width, w.channels);
  if (!at.there) return;
  const Inside rows = inside(at.y, w.in_height, w.kernel_y, w.stride_y, w.pad_y);
  const Inside columns = inside(at.x, w.in_width, w.kernel_x, w.stride_x, w.pad_x);
  const int begin_y = at.y * w.stride_y - w.pad_y, begin_x = at.x * w.stride_x - w.pad_x;
  for (int image = static_cast<int>(blockIdx.y); image < w.images;
       image += static_cast<int>(gridDim.y)) {
    float most[L] = {};
    int place[L] = {};
    bool first = true;
    for (int row = rows.first; row < rows.last; ++row) {
      for (int column = columns.first; column < columns.last; ++column) {
        float value[L];
        load<L>(x + place_in(w, image, row, column) + at.c, value);
        const int here = (row - begin_y) * w.kernel_x + column - begin_x;
        for (int k = 0; k < L; ++k) {
          // Of equal values the first place wins: the gradient must go to one.
          const bool above = first || value[k] > most[k];
          most[k] = above ? value[k] : most[k];
          place[k] = above ? here : place[k];
        }
        first = false;
      }
    }
    const std::int64_t to = place_out(w, image, at.y, at.x) + at.c;
    store<L>(y + to, most);
    store_bytes<L>(places + to, place);
  }
}

template <class E, int L>
__global__ void max_pool_gradient_kernel(Windows w, const std::uint8_t* places, const E* dy,
                                         E* dx) {
  const Spot at = spot_of<L>(w.in_height, w.in_width, w.channels);
  if (!at.there) return;
  const Reach rows = outputs_that_see(at.y, w.out_height, w.kernel_y, w.stride_y, w.pad_y);
  const Reach columns = outputs_that_see(at.x, w.out_width, w.kernel_x, w.stride_x, w.pad_x);
  for (int image = static_cast<int>(blockIdx.y); image < w.images;
       image += static_cast<int>(gridDim.y)) {
    float sum[L] = {};
    for (int oy = rows.first; oy <= rows.last; ++oy) {
      for (int ox = columns.first; ox <= columns.last; ++ox) {
        const std::int64_t from = place_out(w, image, oy, ox) + at.c;
        const int own =
            (at.y + w.pad_y - oy * w.stride_y) * w.kernel_x + at.x + w.pad_x - ox * w.stride_x;
        float value[L];
        int place[L];
        load<L>(dy + from, value);
        load_bytes<L>(places + from, place);
        for (int k = 0; k < L; ++k) sum[k] += place[k] == own ? value[k] : 0.0F;
      }
    }
    store<L>(dx + place_in(w, image, at.y, at.x) + at.c, sum);
  }
}

template <class E, int L>
__global__ void average_pool_kernel(Windows w, const E* x, E* y) {
  const Spot at = spot_of<L>(w.out_height, w.out_width, w.channels);
  if (!at.there) return;
  const Inside rows = inside(at.y, w.in_height, w.kernel_y, w.stride_y, w.pad_y);
  const Inside columns = inside(at.x, w.in_width, w.kernel_x, w.stride_x, w.pad_x);
  const float share = share_of(w, at.y, at.x);
  for (int image = static_cast<int>(blockIdx.y); image < w.images;
       image += static_cast<int>(gridDim.y)) {
    float sum[L] = {};
    for (int row = rows.first; row < rows.last; ++row) {
      for (int column = columns.first; column < columns.last; ++column) {
        float value[L];
        load<L>(x + place_in(w, image, row, column) + at.c, value);
        for (int k = 0; k < L; ++k) sum[k] += value[k];
      }
    }
    for (int k = 0; k < L; ++k) sum[k] *= share;
    store<L>(y + place_out(w, image, at.y, at.x) + at.c, sum);
  }
}

template <class E, int L>
__global__ void average_pool_gradient_kernel(Windows w, const E* dy, E* dx) {
  const Spot at = spot_of<L>(w.in_height, w.in_width, w.channels);
  if (!at.there) return;
  const Reach rows = outputs_that_see(at.y, w.out_height, w.kernel_y, w.stride_y, w.pad_y);
  const Reach columns = outputs_that_see(at.x, w.out_width, w.kernel_x, w.stride_x, w.pad_x);
  for (int image = static_cast<int>(blockIdx.y); image < w.images;
       image += static_cast<int>(gridDim.y)) {
    float sum[L] = {};
    for (int oy = rows.first; oy <= rows.last; ++oy) {
      for (int ox = columns.first; ox <= columns.last; ++ox) {
        const float share = share_of(w, oy, ox);
        float value[L];
        load<L>(dy + place_out(w, image, oy, ox) + at.c, value);
        for (int k = 0; k < L; ++k) sum[k] += share * value[k];
      }
    }
    store<L>(dx + place_in(w, image, at.y, at.x) + at.c, sum);
  }
}

template <class E, int L>
__global__ void upsample_kernel(Windows w, const E* x, E* y) {
  const Spot at = spot_of<L>(w.out_height, w.out_width, w.channels);
  if (!at.there) return;
  for (int image = static_cast<int>(blockIdx.y); image < w.images;
       image += static_cast<int>(gridDim.y)) {
    float value[L];
    load<L>(x + place_in(w, image, at.y / w.stride_y, at.x / w.stride_x) + at.c, value);
    store<L>(y + place_out(w, image, at.y, at.x) + at.c, value);
  }
}

template <class E, int L>
__global__ void upsample_gradient_kernel(Windows w, const E* dy, E* dx) {
  const Spot at = spot_of<L>(w.in_height, w.in_width, w.channels);
  if (!at.there) return;
  for (int image = static_cast<int>(blockIdx.y); image < w.images;
       image += static_cast<int>(gridDim.y)) {
    float sum[L] = {};
    for (int row = 0; row < w.stride_y; ++row) {
      for (int column = 0; column < w.stride_x; ++column) {
        float value[L];
        load<L>(
            dy + place_out(w, image, at.y * w.stride_y + row, at.x * w.stride_x + column) + at.c,
            value);
        for (int k = 0; k < L; ++k) sum[k] += value[k];
      }
    }
    store<L>(dx + place_in(w, image, at.y, at.x) + at.c, sum);
  }
}

// `count` numbers of a byte's, L at a time.
template <class E, int L>
__device__ unsigned rectify_some(const E* x, int count, E* y) {
  unsigned bits = 0;
  for (int i = 0; i < count; i += L) {
    float value[L];
    load<L>(x + i, value);
    for (int k = 0; k < L; ++k) {
      bits |= value[k] > 0 ? 1U << (i + k) : 0U;
      // Not a number stays what it is, and is found.
      value[k] = value[k] < 0 ? 0.0F : value[k];
    }
    store<L>(y + i, value);
  }
  return bits;
}

template <class E>
__global__ void rectify_kernel(const E* x, std::int64_t n, E* y, std::uint8_t* signs) {
  const std::int64_t byte = thread_index(), i = byte * kBits;
  if (i >= n) return;
  const unsigned bits = i + kBits <= n ? rectify_some<E, kLanes<E>>(x + i, kBits, y + i)
                                       : rectify_some<E, 1>(x + i, static_cast<int>(n - i), y + i);
  signs[byte] = static_cast<std::uint8_t>(bits);
}

template <class E, int L>
__device__ void keep_signed(unsigned bits, const E* dy, int count, E* dx) {
  for (int i = 0; i < count; i += L) {
    float value[L];
    load<L>(dy + i, value);
    for (int k = 0; k < L; ++k) value[k] = (bits >> (i + k) & 1U) != 0 ? value[k] : 0.0F;
    store<L>(dx + i, value);
  }
}

template <class E>
__global__ void rectify_gradient_kernel(const std::uint8_t* signs, const E* dy, std::int64_t n,
                                        E* dx) {
  const std::int64_t byte = thread_index(), i = byte * kBits;
  if (i >= n) return;
  if (i + kBits <= n) {
    keep_signed<E, kLanes<E>>(signs[byte], dy + i, kBits, dx + i);
  } else {
    keep_signed<E, 1>(signs[byte], dy + i, static_cast<int>(n - i), dx + i);
  }
}

template <class E, int L>
__device__ void add_some(const E* a, const E* b, std::int64_t i, E* y) {
  float sum[L], other[L];
  load<L>(a + i, sum);
  load<L>(b + i, other);
  for (int k = 0; k < L; ++k) sum[k] += other[k];
  store<L>(y + i, sum);
}

template <class E, int L>
__global__ void add_kernel(const E* a, const E* b, std::int64_t n, E* y) {
  std::int64_t i = thread_index() * L;
  if (i + L <= n) {
    add_some<E, L>(a, b, i, y);
  } else {
    for (; i < n; ++i) add_some<E, 1>(a, b, i, y);
  }
}

template <class E, int L>
__global__ void copy_columns_kernel(Columns c, const E* from, E* to) {
  const std::int64_t vectors = c.width / L, i = thread_index(), row = i / vectors;
  if (row >= c.rows) return;
  const std::int64_t j = i % vectors * L;
  from += row * c.from_row + c.from_offset + j;
  to += row * c.to_row + c.to_offset + j;
  if constexpr (L == 1) {
    *to = *from;
  } else {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  }
}

template <class From, class To>
__global__ void convert_kernel(const From* from, std::int64_t n, To* to) {
  const std::int64_t i = thread_index();
  if (i < n) to[i] = static_cast<To>(static_cast<float>(from[i]));
}

template <class E, class Launch>
void over_maps(const Windows& w, bool of_inputs, const E* a, const E* b, Launch launch) {
  const std::int64_t places =
      of_inputs ? std::int64_t{w.in_height} * w.in_width : std::int64_t{w.out_height} * w.out_width;
  with_lanes<E>(takes_vectors<E>(w.channels, a, b), [&](auto lanes) {
    launch(lanes, grid_of_maps(places, w.channels, lanes, w.images));
  });
}

}  // namespace

template <class E>
void max_pool(const Windows& w, const E* x, E* y, std::uint8_t* places, cudaStream_t stream) {
  over_maps<E>(w, false, x, y, [&](auto lanes, dim3 grid) {
    constexpr int L = lanes;
    max_pool_kernel<E, L><<<grid, kThreads, 0, stream>>>(w, x, y, places);
  });
  check_launch("max_pool");
}

template <class E>
void max_pool_gradient(const Windows& w, const std::uint8_t* places, const E* dy, E* dx,
                       cudaStream_t stream) {
  over_maps<E>(w, true, dy, dx, [&](auto lanes, dim3 grid) {
    constexpr int L = lanes;
    max_pool_gradient_kernel<E, L><<<grid, kThreads, 0, stream>>>(w, places, dy, dx);
  });
  check_launch("max_pool_gradient");
}

template <class E>
void average_pool(const Windows& w, const E* x, E* y, cudaStream_t stream) {
  over_maps<E>(w, false, x, y, [&](auto lanes, dim3 grid) {
    constexpr int L = lanes;
    average_pool_kernel<E, L><<<grid, kThreads, 0, stream>>>(w, x, y);
  });
  check_launch("average_pool");
}

template <class E>
void average_pool_gradient(const Windows& w, const E* dy, E* dx, cudaStream_t stream) {
  over_maps<E>(w, true, dy, dx, [&](auto lanes, dim3 grid) {
    constexpr int L = lanes;
    average_pool_gradient_kernel<E, L><<<grid, kThreads, 0, stream>>>(w, dy, dx);
  });
  check_launch("average_pool_gradient");
}

template <class E>
void upsample(const Windows& w, const E* x, E* y, cudaStream_t stream) {
  over_maps<E>(w, false, x, y, [&](auto lanes, dim3 grid) {
    constexpr int L = lanes;
    upsample_kernel<E, L><<<grid, kThreads, 0, stream>>>(w, x, y);
  });
  check_launch("upsample");
}

template <class E>
void upsample_gradient(const Windows& w, const E* dy, E* dx, cudaStream_t stream) {
  over_maps<E>(w, true, dy, dx, [&](auto lanes, dim3 grid) {
    constexpr int L = lanes;
    upsample_gradient_kernel<E, L><<<grid, kThreads, 0, stream>>>(w, dy, dx);
  });
  check_launch("upsample_gradient");
}

template <class E>
void rectify(const E* x, std::int64_t n, E* y, std::uint8_t* signs, cudaStream_t stream) {
  rectify_kernel<E><<<blocks_for(n, kThreads * kBits), kThreads, 0, stream>>>(x, n, y, signs);
  check_launch("rectify");
}

template <class E>
void rectify_gradient(const std::uint8_t* signs, const E* dy, std::int64_t n, E* dx,
                      cudaStream_t stream) {
  const unsigned blocks = blocks_for(n, kThreads * kBits);
  rectify_gradient_kernel<E><<<blocks, kThreads, 0, stream>>>(signs, dy, n, dx);
  check_launch("rectify_gradient");
}

template <class E>
void add(const E* a, const E* b, std::int64_t n, E* y, cudaStream_t stream) {
  const bool vectors = begins_on_16_bytes(a) && begins_on_16_bytes(b) && begins_on_16_bytes(y);
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    add_kernel<E, L><<<blocks_for(n, kThreads * L), kThreads, 0, stream>>>(a, b, n, y);
  });
  check_launch("add");
}

template <class E>
void copy_columns(const Columns& c, const E* from, E* to, cudaStream_t stream) {
  const std::int64_t apart = c.width | c.from_offset | c.from_row | c.to_offset | c.to_row;
  with_lanes<E>(takes_vectors<E>(apart, from, to), [&](auto lanes) {
    constexpr int L = lanes;
    const unsigned blocks = blocks_for(c.rows * (c.width / L));
    copy_columns_kernel<E, L><<<blocks, kThreads, 0, stream>>>(c, from, to);
  });
  check_launch("copy_columns");
}

template <class From, class To>
void convert(const From* from, std::int64_t n, To* to, cudaStream_t stream) {
  convert_kernel<From, To><<<blocks_for(n), kThreads, 0, stream>>>(from, n, to);
  check_launch("convert");
}
template void convert(const float*, std::int64_t, float*, cudaStream_t);
template void convert(const float*, std::int64_t, Bf16*, cudaStream_t);
template void convert(const Bf16*, std::int64_t, float*, cudaStream_t);

#define WEIR_MAP_KERNELS(E)                                                                      \
  template void max_pool(const Windows&, const E*, E*, std::uint8_t*, cudaStream_t);             \
  template void max_pool_gradient(const Windows&, const std::uint8_t*, const E*, E*,             \
                                  cudaStream_t);                                                 \
  template void average_pool(const Windows&, const E*, E*, cudaStream_t);                        \
  template void average_pool_gradient(const Windows&, const E*, E*, cudaStream_t);               \
  template void upsample(const Windows&, const E*, E*, cudaStream_t);                            \
  template void upsample_gradient(const Windows&, const E*, E*, cudaStream_t);                   \
  template void rectify(const E*, std::int64_t, E*, std::uint8_t*, cudaStream_t);                \
  template void rectify_gradient(const std::uint8_t*, const E*, std::int64_t, E*, cudaStream_t); \
  template void add(const E*, const E*, std::int64_t, E*, cudaStream_t);                         \
  template void copy_columns(const Columns&, const E*, E*, cudaStream_t)
WEIR_MAP_KERNELS(float);
WEIR_MAP_KERNELS(Bf16);
#undef WEIR_MAP_KERNELS

}  // namespace weir::cuda
