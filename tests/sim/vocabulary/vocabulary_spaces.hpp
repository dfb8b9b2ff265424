// Small models whose vocabulary may be divided over the ranks, and searches of them, made from
// seeds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>

#include "costmodel/table/builtin.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "sim/search/space/open_choices.hpp"
#include "sim/search/sweep.hpp"

namespace weir::vocabulary_search_test {

class VocabularySpaces : public testing::Test {
 protected:
  VocabularySpaces()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-vocabulary-search-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~VocabularySpaces() override { std::filesystem::remove_all(folder_); }

  struct Space {
    SweepRequest request;
    Cluster cluster;
    Model model;
    Costs costs;
    [[nodiscard]] SweepResult search() const { return sweep(request, costs, cluster); }
    // Of what the request says now.
    void price() {
      costs = builtin_costs(with_shards(request, model), request.base.seq_length,
                            request.base.dtype, cluster, splits(request, model));
    }
  };

  // A llama of 2 to 5 blocks on one node of H100, by Weir's own software or Megatron-Core, with a
  // vocabulary that takes from a tenth of a block's time to several times as long.
  Space made(unsigned seed) {
    std::mt19937 random(seed);
    const auto any = [&](int low, int high) {
      return std::uniform_int_distribution(low, high)(random);
    };
    const std::string text = fmt::format(
        R"({{"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
            "num_attention_heads": 8, "num_hidden_layers": {}, "rms_norm_eps": 1e-5,
            "max_position_embeddings": 512, "vocab_size": {}, "tie_word_embeddings": {}}})",
        any(2, 5), any(1000, 60000), any(0, 1) == 0);
    write_file_atomically(folder_ / "model.json", text);
    Space space;
    const auto examples = std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples";
    space.cluster = load_cluster(examples / "clusters/dgx-h100.json");
    if (seed % 2 == 0) set_stack(space.cluster, load_stack(examples / "stacks/megatron-core.json"));
    SweepRequest& request = space.request;
    request.base.model_path = "model.json";
    request.base.model_sha256 = sha256_hex(text);
    request.base.seq_length = 512;
    request.base.dtype = Dtype::bf16;
    request.folder = folder_;
    request.pp = {1, 2, 3, 4};
    request.tp = {any(1, 2)};
    request.dp = {1, 2};
    request.zero = {any(0, 3)};
    request.global_batch_size = any(0, 1) == 0 ? 8 : 12;
    request.schedules = {"1f1b", "vocab-1", "vocab-2", "interlaced", "zb-h1"};
    std::ranges::shuffle(request.schedules, random);
    request.schedules.resize(3);
    if (std::ranges::none_of(request.schedules, divides_vocabulary))
      request.schedules.emplace_back("vocab-2");
    request.recompute = {{}, {.mode = RecomputeMode::full, .except_last = any(0, 1) == 0}};
    space.model = load_model(folder_ / "model.json");
    set_treatment(space.model, request.base);
    space.price();
    return space;
  }

  std::filesystem::path folder_;
};

}  // namespace weir::vocabulary_search_test
