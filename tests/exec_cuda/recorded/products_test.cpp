// Which algorithm and which epilogues products get, on a recorded machine whose cuBLASLt takes the
// times and refuses what it is told to.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/blas/matmul.hpp"
#include "exec/cuda/driver/stream_handle.hpp"
#include "tests/exec_cuda/recorded/fixture.hpp"

namespace weir::recorded::products_test {
namespace {

using cuda::Epilogue;
using cuda::Gemm;
using cuda::LaunchTimer;
using cuda::Linear;
using cuda::Matmul;
using cuda::Spread;
using cuda::SumOverK;
using ::testing::HasSubstr;

using RecordedProducts = Recorded;

const Gemm kGemm = Linear{8, 16, 16}.forward(Epilogue::none);

// The library's order is kept, and of an algorithm that the share refuses the next one is taken;
// never the first on the few multiprocessors that it was chosen for.
TEST_F(RecordedProducts, WhatTheShareRefusesIsChosenAgainAndSaid) {
  const auto chosen = [](int refused) {
    machine().faults.refused_algorithm = refused;
    Matmul matmul(Dtype::bf16, 16, SumOverK::whole, 132);
    matmul.prepare(kGemm);
    return std::pair(matmul.choices().front(), matmul.remarks());
  };
  EXPECT_EQ(chosen(0).first.algorithm, 2);  // the first that does not cut its sums
  EXPECT_EQ(chosen(0).first.candidates, 2);
  EXPECT_EQ(chosen(0).second, "");
  EXPECT_EQ(chosen(2).first.algorithm, 3);
  EXPECT_EQ(chosen(2).second,
            "1 of 1 products chosen again for 132 multiprocessors, so bits may differ over K");
  EXPECT_EQ(chosen(3).first.algorithm, 2);
  EXPECT_EQ(chosen(3).first.spread, Spread::as_chosen);
  // All are refused: the best that is made for the share.
  EXPECT_EQ(chosen(-1).first.spread, Spread::as_chosen);
  machine().faults.most_multiprocessors = 16;
  EXPECT_EQ(chosen(-1).first.spread, Spread::confined);
  EXPECT_EQ(chosen(-1).second, "1 of 1 products run on 16 of 132 multiprocessors alone");
}

// Of the candidates the one that takes least, cut sums among them where these are allowed; found
// once, and then the same for all that share it.
TEST_F(RecordedProducts, TheFastestCandidateIsKept) {
  const StreamHandle stream = make_stream_handle();
  LaunchTimer timer(0, stream.get());
  for (const auto& [sum, quick] : {std::pair(SumOverK::whole, 3), std::pair(SumOverK::whole, 2),
                                   std::pair(SumOverK::cut, 1), std::pair(SumOverK::cut, 3)}) {
    machine().slow.clear();
    for (const int id : {1, 2, 3}) {
      if (id != quick) machine().slow["algorithm " + std::to_string(id)] = 500;
    }
    cuda::FixedChoices fixed;
    Matmul matmul(Dtype::bf16, 132, sum), later(Dtype::bf16, 132, sum);
    matmul.prepare(kGemm);
    matmul.keep_fastest(timer, fixed);
    EXPECT_EQ(matmul.choices().front().algorithm, quick);
    EXPECT_FLOAT_EQ(static_cast<float>(matmul.time(kGemm).count()), 1e-6F);
    const std::int64_t products = machine().ran["a product"];
    machine().slow = {{"algorithm " + std::to_string(quick), 9000}};
    later.prepare(kGemm);
    later.keep_fastest(timer, fixed);
    EXPECT_EQ(later.choices().front().algorithm, quick);
    EXPECT_EQ(machine().ran["a product"], products) << "timed once";
  }
}

// A fused epilogue is taken where it beats the product with a pass behind it, and only there; two
// runs have the same bits.
TEST_F(RecordedProducts, AnEpilogueThatLosesIsLeftApart) {
  const TinyModel model(true, 0.0, 32, 1, 4);
  Plan plan = model.plan({}, 2, "gpipe");
  plan.dtype = Dtype::bf16;
  const ResolvedPlan loaded = model.load(plan);
  RunOptions options = steps_on_cuda(1);
  options.fastest = true;
  const std::string slope = "epilogue " + std::to_string(CUBLASLT_EPILOGUE_DGELU),
                    sums = "epilogue " + std::to_string(CUBLASLT_EPILOGUE_BGRADB);
  std::string losing;
  for (const bool loses : {false, true, true}) {
    machine().reset(1);
    if (loses) machine().slow = {{slope, 5000}, {sums, 50'000}};
    const RunResult found = train(loaded, options);
    EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
    // Beyond what was timed: 4 runs of each candidate, or of a pass, at each shape's first mention.
    const std::int64_t passes = machine().ran["activate_kernel"];
    machine().reset(1);
    if (loses) machine().slow = {{slope, 5000}, {sums, 50'000}};
    RunOptions more = options;
    more.steps = 2;
    static_cast<void>(train(loaded, more));
    EXPECT_EQ(machine().ran["activate_kernel"] > passes, loses);
    EXPECT_EQ(found.devices.front().products, "");
    if (loses && !losing.empty()) {
      EXPECT_EQ(found.parameters_sha256, losing);
    }
    if (loses) losing = found.parameters_sha256;
  }
}

// Arithmetic gives two groups of 64 of 132 multiprocessors; the device makes none above 56.
TEST_F(RecordedProducts, GroupsThatUnevenClustersMakeSmallerAreSaid) {
  const TinyModel model(true, 0.0, 32, 1, 4);
  const ResolvedPlan loaded = model.load(model.plan({2}, 2, "1f1b"));
  machine().faults.largest_group = 56;
  const RunResult found = train(loaded, steps_on_cuda(1));
  EXPECT_THAT(found.devices.front().sharing,
              HasSubstr("2 groups of 56 of 132 multiprocessors, 20 in none (its clusters are "
                        "uneven: even ones would give 64 each)"));
}

}  // namespace
}  // namespace weir::recorded::products_test
