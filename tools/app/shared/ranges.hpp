// What the numbers of options may be: each range once, as the fields (tools/app/shared/field.hpp)
// of all use cases name them. What ends up in a plan file has the bounds of its reader
// (plan/job/plan_json.cpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace weir::app {

using Range = std::pair<double, double>;  // inclusive

inline constexpr Range kPositive{1, 1 << 20};     // samples, micro-batches, rows, stages
inline constexpr Range kRows{0, 1 << 20};         // to print
inline constexpr Range kRanks{1, 1 << 12};        // of one pipeline that is drawn
inline constexpr Range kChunks{1, 1 << 10};       // stages a rank
inline constexpr Range kSlices{1, 1 << 10};       // of a sequence
inline constexpr Range kDevicesHere{1, 1 << 10};  // of this machine
inline constexpr Range kDegree{1, 1 << 16};       // tensor, context, data parallel
inline constexpr Range kZeroStages{0, 3};
inline constexpr Range kBoundary{0, 1 << 20};  // a layer's place
inline constexpr Range kTokens{0, 1 << 24};    // a sample's
inline constexpr Range kSlots{0, 1 << 20};     // 0: unlimited
inline constexpr Range kLearningRate{0, 1e6};
inline constexpr Range kShare{0, 1};
inline constexpr Range kWeightDecay{0, 1e3};
inline constexpr Range kNorm{0, 1e9};                      // of gradients
inline constexpr Range kIterations{0, 1'099'511'627'776};  // 2^40
inline constexpr Range kTrainedTokens{1, 1e18};            // of a whole training
inline constexpr Range kSeed{0, 9007199254740992};         // 2^53: a JSON number that is exact
inline constexpr Range kWorkers{0, 256};                   // 0: all cores
inline constexpr Range kRounds{1, 10'000};                 // of layouts
inline constexpr Range kThreads{0, 1 << 12};               // 0: all cores
inline constexpr Range kSteps{1, 1'000'000};               // measured
inline constexpr Range kWarmup{0, 1'000'000};
inline constexpr Range kPlans{1, 1 << 16};      // of an evaluation, and their runs
inline constexpr Range kSamples{1, 1'000'000};  // drawn
inline constexpr Range kPatience{1, 1e6};       // seconds
inline constexpr Range kGpusPerNode{1, 1 << 12};

}  // namespace weir::app
