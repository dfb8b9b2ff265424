// cuDNN's opinion of our attention graphs, for a device that is described and not there: they are
// ones it has kernels for. Needs cuDNN, no GPU and no driver.
// SPDX-License-Identifier: Apache-2.0
#ifdef WEIR_HAS_CUDNN
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "exec/cuda/cudnn/cudnn_attention.hpp"
#include "exec/cuda/cudnn/cudnn_library.hpp"

namespace weir::cuda::cudnn_graph_test {
namespace {

// A Hopper device with the sizes of an H200, in the words of
// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION.
constexpr const char* kHopper =
    R"({"deviceName":"described","cudaDeviceId":0,"pciDeviceId":0,"deviceVer":900,)"
    R"("driverVer":13000,)"
    R"("multiProcessorCount":132,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,)"
    R"(1024,64],)"
    R"("warpSize":32,"regsPerBlock":65536,"maxRegistersPerSM":65536,)"
    R"("maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,)"
    R"("maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"maxCtasPerSM":32,"smClockRateKHz":1980000,)"
    R"("memClockRateKHz":3201000,)"
    R"("l2CacheSize":62914560,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("totalGlobalMem":150754820096})";

AttentionShape both_sides(AttentionShape shape) {
  shape.causal = false;
  return shape;
}

// Widths of 16, 64, 80 and 128; sequences that are no multiple of a tile; GPT-2's; Llama's, of
// which several heads of queries share one of keys; one with a window; and BERT's and ViT's, whose
// queries see all keys.
const AttentionShape kShapes[] = {{2, 1024, 12, 64, Dtype::bf16, false},
                                  {1, 77, 4, 16, Dtype::bf16, false},
                                  {3, 100, 4, 80, Dtype::bf16, false},
                                  {1, 200, 4, 128, Dtype::bf16, false},
                                  {2, 4096, 32, 64, Dtype::bf16, false, 8},
                                  {1, 77, 6, 128, Dtype::bf16, false, 1},
                                  {1, 4096, 32, 128, Dtype::bf16, false, 8, 1024},
                                  both_sides({8, 512, 12, 64, Dtype::bf16, false}),
                                  both_sides({8, 197, 12, 64, Dtype::bf16, false})};

std::string last_words() {
  std::array<char, 8192> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  return words.data();
}

// Whether cuDNN sees its attention in a graph: it proposes a deterministic engine, or, where not
// even the toolkit's stub of the driver's library is found, only misses that, which compiles the
// engine's kernel.
bool is_recognised(const CudnnGraph& graph, const CudnnTarget& target) {
  static_cast<void>(last_words());  // of earlier calls
  if (!deterministic_engines(graph.finish(nullptr), target).empty()) return true;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver != nullptr) {
    dlclose(driver);
    return false;
  }
  const std::string words = last_words();
  return words.find("RUNTIME_PREREQUISITE_MISSING") != std::string::npos &&
         words.find("libcuda") != std::string::npos;
}

#define WEIR_NEEDS_CUDNN()                                             \
  if (const std::string missing = cudnn_missing(); !missing.empty()) { \
    GTEST_SKIP() << missing;                                           \
  }                                                                    \
  static_assert(true)

TEST(CudnnLibrary, WhereItIsMissingOneLineSaysSo) {
  EXPECT_EQ(why_no_cudnn({"libcudnn.so.none", "/nowhere/libcudnn.so.none"}),
            "no libcudnn.so.none on this machine");
  EXPECT_EQ(why_no_cudnn({"libm.so.6"}), "this library has no cudnnGetVersion");
  EXPECT_GE(cudnn_libraries().size(), 3U);  // the search path, the runtime's folder, Python's
}

TEST(CudnnGraph, ForwardAndBackwardAreRecognised) {
  WEIR_NEEDS_CUDNN();
  const CudnnTarget target{std::string(kHopper)};
  for (const AttentionShape& shape : kShapes) {
    ASSERT_TRUE(CudnnAttention::suits(shape));
    CudnnGraph forward, backward;
    static_cast<void>(build_forward(shape, forward));
    static_cast<void>(build_backward(shape, backward));
    EXPECT_TRUE(is_recognised(forward, target)) << "s " << shape.s << " d " << shape.d;
    EXPECT_TRUE(is_recognised(backward, target)) << "s " << shape.s << " d " << shape.d;
  }
}

// That the answer can be no: two products with half a softmax between them are nobody's attention.
TEST(CudnnGraph, HalfASoftmaxIsNot) {
  WEIR_NEEDS_CUDNN();
  const CudnnDims heads{2, 12, 1024, 64}, scores{2, 12, 1024, 1024}, rows{2, 12, 1024, 1};
  CudnnGraph g;
  const CudnnTensor q = g.in_memory(heads, packed(heads), CUDNN_DATA_BFLOAT16);
  const CudnnTensor k =
      g.in_memory({2, 12, 64, 1024}, {12 * 1024 * 64, 1024 * 64, 1, 64}, CUDNN_DATA_BFLOAT16);
  const CudnnTensor products = g.matmul(q, k, g.intermediate(scores));
  const CudnnTensor largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, products, g.intermediate(rows));
  const CudnnTensor below = g.pointwise(CUDNN_POINTWISE_SUB, products, largest,
                                        g.intermediate(scores, CUDNN_DATA_BFLOAT16));
  g.matmul(below, q, g.in_memory(heads, packed(heads), CUDNN_DATA_BFLOAT16));
  EXPECT_FALSE(is_recognised(g, CudnnTarget{std::string(kHopper)}));
}

// Heads of 12 values would not begin on 16 bytes; cuDNN's dropout has other random numbers; fp32
// has no fused kernels.
TEST(CudnnGraph, OddWidthsAndDropoutAreOurs) {
  EXPECT_FALSE(CudnnAttention::suits({1, 64, 2, 12, Dtype::bf16, false}));
  EXPECT_FALSE(CudnnAttention::suits({1, 64, 2, 136, Dtype::bf16, false}));
  EXPECT_FALSE(CudnnAttention::suits({1, 64, 2, 64, Dtype::bf16, true}));
  EXPECT_FALSE(CudnnAttention::suits({1, 64, 2, 64, Dtype::fp32, false}));
}

}  // namespace
}  // namespace weir::cuda::cudnn_graph_test
#endif
