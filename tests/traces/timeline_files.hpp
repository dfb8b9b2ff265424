// A folder of timelines as a trainer on Megatron dumps it: two ranks, two micro-batches, 1F1B, F 10
// ms, B 20 ms, messages 1 ms.
//   rank 0  F0 0-10  F1 10-20         B0 42-62          B1 72-92
//   rank 1          F0 11-21  B0 21-41  F1 41-51  B1 51-71
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weir {

struct TimelineFiles {
  nlohmann::json config{{"world_size", 2}, {"pp_size", 2}, {"vp_size", 1}, {"num_mbs", 2}};
  std::vector<nlohmann::json> ranks{nlohmann::json::object(), nlohmann::json::object()};

  // Every iteration but the first, which takes thrice as long, is the same.
  explicit TimelineFiles(int iterations = 3) {
    using Times = std::vector<double>;
    for (int i = 1; i <= iterations; ++i) {
      const double slow = i == 1 ? 3 : 1;
      const auto add = [&](std::size_t rank, double total, double memory, const Times& forward,
                           const Times& backward) {
        const auto scaled = [&](const Times& times, double later) {
          Times all;
          for (const double time : times) all.push_back(slow * (time + later));
          return all;
        };
        ranks[rank][std::to_string(i)] = {{"total", slow * total},
                                          {"memory", memory},
                                          {"fwd_start", scaled(forward, 0)},
                                          {"fwd_end", scaled(forward, 10)},
                                          {"bwd_start", scaled(backward, 0)},
                                          {"bwd_end", scaled(backward, 20)}};
      };
      add(0, 93, 3, {0, 10}, {42, 72});
      add(1, 72, 2, {11, 41}, {21, 51});
    }
  }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      std::ofstream(folder / ("pp_rank_" + std::to_string(r) + ".json")) << ranks[r];
  }
};

}  // namespace weir
