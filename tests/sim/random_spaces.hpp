// Spaces of plans to search, small ones that are made from seeds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "costmodel/table/builtin.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "sim/search/sweep.hpp"

namespace weir {

class RandomSpaces : public testing::Test {
 protected:
  struct Space {
    SweepRequest request;
    Cluster cluster;
    Costs costs;
    [[nodiscard]] SweepResult search() const { return sweep(request, costs, cluster); }
  };

  RandomSpaces()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-spaces-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~RandomSpaces() override { std::filesystem::remove_all(folder_); }

  static int any(std::mt19937& random, int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  }

  // From `fewest` to `most` layers of random times and tensors, layers.csv, on four devices with
  // random links. What is searched of their plans is the test's to say.
  Space timed(std::mt19937& random, int fewest, int most) {
    const auto some = [&](int low, int high) { return any(random, low, high); };
    std::string text =
        "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n";
    const int layers = some(fewest, most);
    for (int l = 0; l < layers; ++l)
      text += fmt::format("l{},table,{},{},{},{},{},{},1\n", l, some(0, 9000), some(1, 6),
                          some(1, 6), some(0, 5), some(64, 40000), some(64, 4000));
    write_file_atomically(folder_ / "layers.csv", text);
    Space space;
    space.cluster.device.name = "cpu-core";
    space.cluster.devices_per_node = 4;
    space.cluster.intra = {Seconds(some(1, 900) * 1e-6), BytesPerSecond(some(1, 50) * 1e6)};
    space.costs = builtin_costs(load_model(folder_ / "layers.csv"), 1, Dtype::fp32, space.cluster);
    SweepRequest& request = space.request;
    request.base.model_path = "layers.csv";
    request.base.model_sha256 = sha256_hex(text);
    request.base.seq_length = 1;
    request.folder = folder_;
    return space;
  }

  static std::vector<std::string> schedules(std::mt19937& random, std::size_t count) {
    std::vector<std::string> names;
    for (const Generator& generator : generators()) names.emplace_back(generator.name);
    std::ranges::shuffle(names, random);
    names.resize(count);
    return names;
  }

  std::filesystem::path folder_;
};

}  // namespace weir
