// Every shipped example is read; every cluster says where its constants come from.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "plan/job/cluster.hpp"
#include "plan/model/readers/model_import.hpp"

namespace weir::examples_test {
namespace {

const std::filesystem::path kExamples = std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples";

TEST(Examples, EveryModelLoads) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples / "models")) {
    EXPECT_GT(parameter_count(load_model(entry.path())), 0) << entry.path();
    ++models;
  }
  EXPECT_GE(models, 15);
}

// Llama-3-70B: 80 (2 8192^2 + 2 8192 1024 + 3 8192 28672 + 2 8192) + 2 128256 8192 + 8192.
TEST(Examples, Llama3HasItsParameters) {
  EXPECT_EQ(parameter_count(load_model(kExamples / "models/llama-3-70b.json")), 70'553'706'496);
}

TEST(Examples, EveryClusterLoadsWithItsOrigin) {
  int clusters = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples / "clusters")) {
    const Cluster cluster = load_cluster(entry.path());
    EXPECT_FALSE(cluster.origins.empty()) << entry.path();
    EXPECT_GE(cluster.intra.bandwidth.count(), cluster.inter.bandwidth.count()) << entry.path();
    ++clusters;
  }
  EXPECT_GE(clusters, 3);
}

}  // namespace
}  // namespace weir::examples_test
