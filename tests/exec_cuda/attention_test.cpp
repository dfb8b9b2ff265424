// Fused attention on a device against double precision, by cuDNN's kernels and by our own: random
// inputs, every output and all scratch memory poisoned first, and the same bits twice.
//
// Tolerances, of the largest value: fp32 sums of some hundreds of products of order 1 err by about
// 20 x 6e-8, and the exponential adds as much: 1e-5. bf16 rounds each result to 2^-9; cuDNN rounds
// probabilities and their gradients too, errors that partly cancel in the sums: 2e-2.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/attention.hpp"

#include <algorithm>
#include <bit>
#include <thread>

#include "tests/exec/cpu/attention_reference.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::attention_test {
namespace {

std::uint16_t to_bf16(float x) {  // to nearest, ties to even
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}
float from_bf16(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

struct Outputs {
  std::vector<float> context, statistics, d_qkv;
  bool operator==(const Outputs&) const = default;
};

// T: how an element lies in memory; float, or the bits of a bf16.
template <class T>
std::vector<T> packed_values(const std::vector<float>& values) {
  std::vector<T> packed;
  for (const float value : values) {
    if constexpr (sizeof(T) == 2) {
      packed.push_back(to_bf16(value));
    } else {
      packed.push_back(value);
    }
  }
  return packed;
}
template <class T>
std::vector<float> unpacked(const std::vector<T>& values) {
  std::vector<float> floats;
  for (const T value : values) {
    if constexpr (sizeof(T) == 2) {
      floats.push_back(from_bf16(value));
    } else {
      floats.push_back(value);
    }
  }
  return floats;
}

template <class T>
Outputs run(Attention& attention, const AttentionShape& shape, const DropoutMask& mask,
            const std::vector<float>& qkv, const std::vector<float>& d_context) {
  const DeviceArray<T> q(packed_values<T>(qkv)), dc(packed_values<T>(d_context));
  const DeviceArray<T> context(d_context.size()), d_qkv(qkv.size());
  const auto rows = static_cast<std::size_t>(shape.rows());
  const DeviceFloats statistics(rows), row_sums(rows);
  const DeviceArray<std::byte> scratch(static_cast<std::size_t>(attention.scratch_bytes()) + 16);
  // The step is the device's to know: the mask's own is another.
  const DeviceArray<std::uint32_t> step(std::vector<std::uint32_t>{mask.step});
  DropoutMask elsewhere = mask;
  elsewhere.step += 5;
  attention.forward(shape, {q.get(), {elsewhere, step.get()}, context.get(), statistics.get()},
                    scratch.get(), nullptr);
  attention.backward(shape,
                     {q.get(),
                      context.get(),
                      statistics.get(),
                      dc.get(),
                      {elsewhere, step.get()},
                      d_qkv.get(),
                      row_sums.get()},
                     scratch.get(), nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  return {unpacked(context.host()), statistics.host(), unpacked(d_qkv.host())};
}

void expect_near(const std::vector<double>& expected, const std::vector<float>& found,
                 double tolerance, const char* what) {
  ASSERT_EQ(expected.size(), found.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * largest) << what << "[" << i << "]";
  }
}

template <class T>
void check(Attention::Choice choice, const AttentionShape& shape, double probability,
           const char* kernels) {
  SCOPED_TRACE("s " + std::to_string(shape.s) + " d " + std::to_string(shape.d) + " kv " +
               std::to_string(shape.kv_heads) + " window " + std::to_string(shape.window) +
               (shape.causal ? " causal " : " ") + std::string(to_string(shape.dtype)) +
               " dropout " + std::to_string(probability) + " " + kernels);
  const std::int64_t rows = shape.batch * shape.s;
  // As the device will read them.
  const std::vector<float> qkv =
      unpacked(packed_values<T>(random_floats(size(rows * shape.qkv_width()), 1)));
  const std::vector<float> d_context =
      unpacked(packed_values<T>(random_floats(size(rows * shape.width()), 2)));
  const DropoutMask mask = dropout_mask(probability, 11, 3, 1, 2, DropoutSite::attention);
  const reference::AttentionResult expected =
      reference::attention({shape.batch, shape.s, shape.heads, shape.d, mask, shape.causal,
                            shape.kv_heads, shape.window},
                           qkv, d_context);
  CudnnLibraries libraries;
  Attention attention(choice, libraries.of_this_thread({0}));
  attention.prepare(shape, nullptr);
  EXPECT_EQ(attention.kernels_of(shape), kernels) << attention.label();
  const Outputs found = run<T>(attention, shape, mask, qkv, d_context);
  const double tolerance = sizeof(T) == 2 ? 2e-2 : 1e-5;
  expect_near(expected.context, found.context, tolerance, "context");
  expect_near(expected.statistics, found.statistics, sizeof(T) == 2 ? 1e-3 : 1e-5, "statistics");
  expect_near(expected.d_qkv, found.d_qkv, tolerance, "d_qkv");
  EXPECT_EQ(run<T>(attention, shape, mask, qkv, d_context), found) << "other bits the second time";
}

// A plan takes half a second to make and may not be run by two threads: one library a thread and a
// device, and no more.
TEST(CudnnLibraries, AreOneAThreadAndADevice) {
  CudnnLibraries libraries;
  const auto first = libraries.of_this_thread({0});
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(libraries.of_this_thread({0}), first);
  EXPECT_NE(libraries.of_this_thread({1}), first);
  std::shared_ptr<CudnnLibrary> of_another;
  std::thread([&] { of_another = libraries.of_this_thread({0}); }).join();
  EXPECT_NE(of_another, first);
  EXPECT_NE(CudnnLibraries().of_this_thread({}), first);
}

// What our own kernels do is not asked of cuDNN, and the label says why. Needs no device: no handle
// is made.
TEST(AttentionLabel, SaysWhoseKernelsAndWhy) {
  CudnnLibraries libraries;
  Attention best(Attention::Choice::best, libraries.of_this_thread({0}));
  Attention own(Attention::Choice::own, libraries.of_this_thread({0}));
  const AttentionShape with_dropout{1, 64, 2, 64, Dtype::bf16, true};
  EXPECT_EQ(best.label(), "");
  best.prepare(with_dropout, nullptr);
  own.prepare(with_dropout, nullptr);
  EXPECT_TRUE(best.label().starts_with("own (")) << best.label();
  EXPECT_EQ(own.label(), "own");
  EXPECT_EQ(best.kernels_of(with_dropout), "own");
  EXPECT_EQ(best.scratch_bytes(), 0);
}

// Tiles are of 16 rows: sequences of one row, of whole tiles, and of a ragged last one.
TEST(CudaAttention, OurKernelsAreTheDefinition) {
  WEIR_NEEDS_DEVICE();
  for (const double probability : {0.0, 0.3}) {
    const bool dropout = probability > 0;
    for (const std::int64_t d : {5, 16, 64, 80, 128}) {
      for (const std::int64_t s : {1, 32, 77}) {
        check<float>(Attention::Choice::own, {2, s, 3, d, Dtype::fp32, dropout}, probability,
                     "own");
        check<std::uint16_t>(Attention::Choice::own, {2, s, 3, d, Dtype::bf16, dropout},
                             probability, "own");
      }
    }
  }
}

// Several heads of queries to one of keys and values. Windows of one key, of less than a tile, that
// begin within one, and of whole tiles; each of them leaves tiles that some rows see nothing of.
TEST(CudaAttention, OurKernelsShareKeysAndHaveWindows) {
  WEIR_NEEDS_DEVICE();
  for (const double probability : {0.0, 0.3}) {
    const bool dropout = probability > 0;
    for (const std::int64_t kv_heads : {1, 2, 4}) {
      for (const std::int64_t window : {0, 1, 5, 16, 33}) {
        check<float>(Attention::Choice::own, {2, 77, 4, 16, Dtype::fp32, dropout, kv_heads, window},
                     probability, "own");
      }
    }
    check<std::uint16_t>(Attention::Choice::own, {2, 77, 6, 64, Dtype::bf16, dropout, 2, 20},
                         probability, "own");
  }
}

AttentionShape of_both_sides(AttentionShape shape) {
  shape.causal = false;
  return shape;
}

// Every query sees every key: tiles on both sides of the diagonal, whole and ragged.
TEST(CudaAttention, OurKernelsSeeBothSides) {
  WEIR_NEEDS_DEVICE();
  for (const double probability : {0.0, 0.3}) {
    const bool dropout = probability > 0;
    for (const std::int64_t s : {1, 32, 77}) {
      for (const std::int64_t kv_heads : {4, 2}) {
        check<float>(Attention::Choice::own,
                     of_both_sides({2, s, 4, 20, Dtype::fp32, dropout, kv_heads}), probability,
                     "own");
        check<std::uint16_t>(Attention::Choice::own,
                             of_both_sides({2, s, 4, 64, Dtype::bf16, dropout, kv_heads}),
                             probability, "own");
      }
    }
  }
}

#ifdef WEIR_HAS_CUDNN
TEST(CudaAttention, CudnnsKernelsAreTheDefinition) {
  WEIR_NEEDS_DEVICE();
  if (cuda_facts().device->major < 8)
    GTEST_SKIP() << "cuDNN has no fused attention before capability 8.0";
  if (const CudnnFacts cudnn = cudnn_facts(); !cudnn.present) GTEST_SKIP() << cudnn.why;
  for (const std::int64_t d : {16, 64, 80, 128}) {
    for (const std::int64_t s : {77, 256}) {
      check<std::uint16_t>(Attention::Choice::best, {2, s, 3, d, Dtype::bf16, false}, 0, "cuDNN");
      check<std::uint16_t>(Attention::Choice::best, {2, s, 6, d, Dtype::bf16, false, 2}, 0,
                           "cuDNN");
      check<std::uint16_t>(Attention::Choice::best, of_both_sides({2, s, 3, d, Dtype::bf16, false}),
                           0, "cuDNN");
      check<std::uint16_t>(Attention::Choice::best, {2, s, 6, d, Dtype::bf16, false, 2, 50}, 0,
                           "cuDNN");
    }
  }
}
#endif

}  // namespace
}  // namespace weir::cuda::attention_test
