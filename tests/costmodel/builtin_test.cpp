// Built-in costs take the rate of the number format that the device has.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/builtin.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "costmodel/table/costs.hpp"
#include "plan/words/error.hpp"

namespace weir::builtin_test {
namespace {

// A block of products only: its time is FLOPs over the peak. A V100 does 125 TFLOP/s in fp16, 15.7
// in fp32, and has neither bf16 nor tf32, so these take fp32's.
TEST(BuiltinCosts, Fp16HasAPeakOfItsOwn) {
  const std::filesystem::path file =
      std::filesystem::path(WEIR_SOURCE_DIR) / "tools" / "examples" / "clusters" / "dgx1-v100.json";
  const Cluster v100 = load_cluster(file);
  Model model;
  model.layers = {
      {"block",
       TransformerShape{.hidden = 8192, .heads = 64, .kv_heads = 64, .head_dim = 128, .ffn = 32768},
       ""}};
  const auto time = [&](Dtype dtype) {
    return builtin_costs(model, 1024, dtype, v100).layers.front().by_batch.at(1).f.count();
  };
  EXPECT_NEAR(time(Dtype::fp32) / time(Dtype::fp16), 125 / 15.7, 1e-9);
  EXPECT_DOUBLE_EQ(time(Dtype::bf16), time(Dtype::fp32));
  EXPECT_DOUBLE_EQ(time(Dtype::tf32), time(Dtype::fp32));
}

// What is divided by a rate that is not there is infinite: said before, by the key that is missing.
TEST(BuiltinCosts, ADeviceWithoutARateIsRefused) {
  Cluster cluster;
  cluster.name = "mine";
  cluster.device.name = "X1";
  Model model;
  model.layers = {{"norm", NormShape{.hidden = 8}, ""}};
  try {
    static_cast<void>(builtin_costs(model, 16, Dtype::fp32, cluster));
    FAIL() << "was taken";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "mine: device.peak_fp32_tflops: is missing, and X1 has no other rate for fp32");
  }
}

}  // namespace
}  // namespace weir::builtin_test
