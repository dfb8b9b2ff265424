// Models by their names at Hugging Face's hub, from its cache as huggingface_hub lays it out, and
// by the folders of checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"
#include "tools/app/shared/hub.hpp"

namespace weir::hub_command_test {
namespace {

using Json = nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;

constexpr const char* kSwift =
    "NPROC_PER_NODE=2 megatron sft --model Qwen/Tiny --pipeline_model_parallel_size 2 "
    "--micro_batch_size 1 --global_batch_size 8 --max_length 64\n";

class HubCommand : public InFolder {
 protected:
  HubCommand() {
    cached("hub");
    cached("home/hub");
  }
  // Qwen/Tiny, of whose branch main the commit abc1 was fetched last, and an older one before.
  void cached(const std::filesystem::path& cache) {
    const std::filesystem::path model = folder_ / cache / "models--Qwen--Tiny";
    for (const char* folder : {"blobs", "refs", "snapshots/abc1", "snapshots/abc0"})
      std::filesystem::create_directories(model / folder);
    std::ofstream(model / "refs/main") << "abc1\n";
    std::ofstream(model / "snapshots/abc0/config.json") << "{}";
    std::filesystem::create_symlink("../../blobs/9f3a", model / "snapshots/abc1/config.json");
    std::ofstream(model / "blobs/9f3a")
        << R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
               "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 256,
               "max_position_embeddings": 64})";
  }
};

TEST(HubName, IsAnOwnerAndAName) {
  EXPECT_TRUE(app::is_hub_name("Qwen/Qwen2.5-7B_x"));
  for (const char* other : {"", "Qwen", "Qwen/", "/Qwen", "a/b/c", "../b", "a/..", "a/b..c", "a/.b",
                            "a b/c", "jobs/train.py", "models/tiny.json", "train.py:make/x"})
    EXPECT_FALSE(app::is_hub_name(other)) << other;
}

TEST_F(HubCommand, AModelByItsName) {
  for (const char* environment :
       {"HF_HUB_CACHE=hub", "HF_HUB_CACHE= HUGGINGFACE_HUB_CACHE= HF_HOME=home"}) {
    const CommandResult model = weir("--json model Qwen/Tiny", environment);
    ASSERT_EQ(model.code, 0) << model.out;
    const Json json = Json::parse(model.out);
    EXPECT_EQ(json["name"], "Tiny") << environment;
    EXPECT_EQ(json["layers"].size(), 7U) << environment;
  }
  // A plan keeps the file, and is read where nothing says the cache any more.
  ASSERT_EQ(weir("-q plan Qwen/Tiny -K 2 -M 4 -o plan.json", "HF_HUB_CACHE=hub").code, 0);
  EXPECT_THAT(Json::parse(read("plan.json"))["model"].get<std::string>(),
              EndsWith("hub/models--Qwen--Tiny/snapshots/abc1/config.json"));
  EXPECT_EQ(weir("-q simulate plan.json --cluster dgx-h100", "HF_HUB_CACHE=none").code, 0);
  // From another folder, too, and for a layout.
  ASSERT_EQ(weir("-q plan Qwen/Tiny -K 2 -M 4 -o out/plan.json", "HF_HUB_CACHE=hub").code, 0);
  EXPECT_EQ(Json::parse(read("out/plan.json"))["model"],
            "../hub/models--Qwen--Tiny/snapshots/abc1/config.json");
  EXPECT_EQ(weir("-q layout Qwen/Tiny --devices 2 --cluster dgx-h100", "HF_HUB_CACHE=hub").code, 0);
  const CommandResult home = weir("-q model Qwen/Tiny", "HF_HUB_CACHE='~/hub' HOME=.");
  EXPECT_EQ(home.code, 0) << home.out;
}

// What is read is not written over, by whatever name.
TEST_F(HubCommand, TheCacheIsNotWrittenOver) {
  write("swift.sh", kSwift);
  const std::string model = "hub/models--Qwen--Tiny/";
  const std::string before = read(model + "blobs/9f3a");
  for (const char* place : {"snapshots/abc1/config.json", "blobs/9f3a"}) {
    for (const char* job : {"plan Qwen/Tiny -K 2 -M 4", "plan swift.sh --from megatron --gpus 2"}) {
      const CommandResult over =
          weir(std::string(job) + " -o " + model + place, "HF_HUB_CACHE=hub");
      EXPECT_EQ(over.code, 2) << over.out;
      EXPECT_EQ(read(model + "blobs/9f3a"), before) << job << place;
    }
  }
}

TEST_F(HubCommand, AFolderIsItsConfiguration) {
  EXPECT_EQ(weir("model hub/models--Qwen--Tiny/snapshots/abc1").code, 0);
  EXPECT_THAT(weir("model hub").out, HasSubstr("weir: hub: is a folder, expected a file"));
  // What is there goes before a name at the hub.
  std::filesystem::create_directories(folder_ / "Qwen/Tiny");
  EXPECT_THAT(weir("model Qwen/Tiny", "HF_HUB_CACHE=hub").out, HasSubstr("is a folder"));
}

TEST_F(HubCommand, WhatTheCacheHasNotSaysHowItComesThere) {
  const CommandResult other = weir("model Qwen/Other", "HF_HUB_CACHE=hub");
  EXPECT_EQ(other.code, 3);
  EXPECT_EQ(other.out,
            "weir: Qwen/Other: is no file, and no model that Hugging Face's cache has (hub): "
            "`hf download Qwen/Other config.json` fetches its sizes\n");
  EXPECT_THAT(weir("model Qwen/Other.json", "HF_HUB_CACHE=hub").out, HasSubstr("no such file"));
  // A reference that leads out of the cache is none.
  write("config.json", "{}");
  std::ofstream(folder_ / "hub/models--Qwen--Tiny/refs/main") << "../../..";
  EXPECT_EQ(weir("model Qwen/Tiny", "HF_HUB_CACHE=hub").code, 3);
}

// Jobs that name a checkpoint: a recipe of Megatron-Bridge, and a script of ms-swift.
TEST_F(HubCommand, AJobsModelIsFoundByTheNameThatItSays) {
  write("recipe.py",
        "from megatron.bridge import AutoBridge\n_MODEL_ID = 'Qwen/Tiny'\n\n"
        "def tiny_pretrain_config() -> ConfigContainer:\n    cfg = _pretrain_common()\n"
        "    cfg.model = AutoBridge.from_hf_pretrained(_MODEL_ID).to_megatron_provider()\n"
        "    cfg.model.pipeline_model_parallel_size = 2\n    cfg.model.seq_length = 64\n"
        "    cfg.train.global_batch_size = 8\n    cfg.train.micro_batch_size = 1\n"
        "    return cfg\n");
  write("swift.sh", kSwift);
  for (const char* job : {"recipe.py --from nemo --gpus 2", "swift.sh --from megatron --gpus 2"}) {
    const std::string plan = "plan " + std::string(job) + " -o plan.json";
    const CommandResult found = weir(plan, "HF_HUB_CACHE=hub");
    ASSERT_EQ(found.code, 0) << found.out;
    EXPECT_THAT(found.out, HasSubstr(": model: Qwen/Tiny is hub/models--Qwen--Tiny/")) << job;
    const Json made = Json::parse(read("plan.json"));
    EXPECT_EQ(made["pp"], 2) << job;
    EXPECT_THAT(made["model"].get<std::string>(), EndsWith("abc1/config.json")) << job;
    const CommandResult missing = weir(plan, "HF_HUB_CACHE=none");
    EXPECT_EQ(missing.code, 3) << missing.out;
    EXPECT_THAT(missing.out, HasSubstr(", or `hf download Qwen/Tiny config.json`\n")) << job;
  }
  // A pipe is read once.
  const CommandResult piped = shell("cat swift.sh | HF_HUB_CACHE=hub " WEIR_COMMAND
                                    " -q plan - --from megatron --gpus 2 -o piped.json");
  EXPECT_EQ(piped.code, 0) << piped.out;
  const std::string fits = "-q fits swift.sh --gpus 2 --cluster dgx-h100";
  EXPECT_EQ(weir(fits, "HF_HUB_CACHE=hub").code, 0);
  EXPECT_EQ(weir(fits + " --model hub/models--Qwen--Tiny/snapshots/abc1", "HF_HUB_CACHE=none").code,
            0);
}

// Blocks that differ, a dense one in front, are the model's own: there is nothing to compare.
TEST_F(HubCommand, AModelOfUnequalBlocksIsTaken) {
  write("swift.sh", kSwift);
  std::filesystem::create_directories(folder_ / "Qwen/Tiny");
  write("Qwen/Tiny/config.json",
        R"({"model_type": "qwen2_moe", "hidden_size": 64, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128,
            "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64, "num_experts": 4,
            "num_experts_per_tok": 2, "mlp_only_layers": [0], "vocab_size": 256,
            "max_position_embeddings": 64})");
  const CommandResult made = weir("-q plan swift.sh --from megatron --gpus 2 -o plan.json");
  EXPECT_EQ(made.code, 0) << made.out;
}

// A checkpoint beside the job is its model before any name; one without blocks alone is refused.
TEST_F(HubCommand, AModelThatIsNoLanguageModelIsRefused) {
  write("swift.sh", kSwift);
  std::filesystem::create_directories(folder_ / "Qwen/Tiny");
  std::filesystem::copy_file(WEIR_SOURCE_DIR "/tools/examples/models/t5-base.json",
                             folder_ / "Qwen/Tiny/config.json");
  const CommandResult other =
      weir("-q plan swift.sh --from megatron --gpus 2 -o plan.json", "HF_HUB_CACHE=hub");
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.out, HasSubstr("weir: swift.sh: model: Tiny: expected a table of tokens, "));
  // A job that is not there is no model.
  EXPECT_THAT(weir("plan jobs/train --from megatron -o plan.json").out,
              HasSubstr("jobs/train: cannot be read: no such file"));
}

}  // namespace
}  // namespace weir::hub_command_test
