// Small files after public reports, where they are beside the checkout (shared/cases): each is read
// as its README there says, or refused by what is wrong with it. What each is an instance of has
// tests of its own beside the reader.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/commands/command.hpp"

namespace weir::cases_command_test {
namespace {

using testing::HasSubstr;

struct Case {
  std::string command;  // @ is the folder of the cases
  int code;
  std::string said;
};

class CasesCommand : public InFolder {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kCases)) GTEST_SKIP() << "no cases beside the checkout";
    write("tiny.json", R"({"model_type":"llama","hidden_size":256,"intermediate_size":512,)"
                       R"("num_hidden_layers":2,"num_attention_heads":4,"vocab_size":1000,)"
                       R"("max_position_embeddings":512})");
  }
  void expect(const Case& one) const {
    std::string command = one.command;
    const std::string folder = kCases.string() + "/";
    for (auto at = command.find('@'); at != std::string::npos; at = command.find('@'))
      command.replace(at, 1, folder);
    const CommandResult done = weir(command);
    EXPECT_EQ(done.code, one.code) << command << "\n" << done.out;
    EXPECT_THAT(done.out, HasSubstr(one.said)) << command;
  }
  const std::filesystem::path kCases =
      std::filesystem::path(WEIR_SOURCE_DIR) / ".." / "shared" / "cases";
};

TEST_F(CasesCommand, JobsAreReadAsTheyRun) {
  const std::string plan = " --gpus 8 -o p.json";
  for (const Case& one : std::vector<Case>{
           {"plan --from megatron @megatron_te_default_attention.sh" + plan, 0,
            "K2 tp2s dp2 zero1 M32 b1 1f1b fused [17]"},
           {"plan --from nemo @nemo_te.yaml" + plan, 0, "K2 dp4 M4 b1 1f1b fused [5]"},
           {"plan --from megatron @megatron_deepspeed_flash_v2.sh" + plan, 0, "b2 1f1b fused"},
           {"plan --from megatron @modellink_moe_sizes.sh" + plan, 0, "K1 dp8 M1 b1 1f1b"},
           {"plan --from megatron @megatron_recompute_modules_moe.sh --gpus 16 -o p.json", 0,
            "fused selective:layernorm+moe [9]"},
           {"plan --from megatron @megatron_sizes_without_seq_length.sh --seq-length 4096 -b 1 -M 8"
            " --attention fused" +
                plan,
            0, "K1 dp8 M8 b1 1f1b fused"},
           {"plan --from deepspeed @deepspeed_auto.json --model tiny.json -b 1 -M 4" + plan, 0,
            "K1 dp8 zero2 M4 b1 1f1b fused"},
           {"plan --from nemo @bridge_layout_and_vpp.py" + plan, 0,
            "K2 v2 dp4 zero1 M4 b1 interleaved-1f1b fused [3,6,9]"},
           {"plan --from nemo @bridge_peft_lora.py --config small_lora_config --gpus 4 -o p.json",
            0, "fused lora8 [5]"},
           {"plan --from megatron @megatron_account_for_with_layers_per_virtual_stage.sh" + plan, 0,
            "[4,8,12,16,20,24,28]"},
           {"plan --from megatron @megatron_argument_dump.txt --gpus 16 -o p.json", 0,
            "K2 tp4s dp2 zero1 M32 b1 1f1b fused full [17]"},
           {"model @hf_infinity.json", 0, "1824000 parameters"}})
    expect(one);
}

TEST_F(CasesCommand, WhatIsWrongIsSaid) {
  for (const Case& one : std::vector<Case>{
           {"plan --from nemo @bridge_base_of_another_file.py --gpus 8 -o p.json", 3,
            "begins with base_70b_config() of somewhere.recipes, which is not beside this file"},
           {"plan --from torchtitan @torchtitan_dp_degrees_against_gpus.toml --gpus 8 -o p.json", 3,
            "are 2 devices, not 8: torchtitan refuses that"},
           {"plan --from nemo @primus_like.yaml --gpus 8 -o p.json", 3, "Primus"},
           {"plan --from megatron @primus_like.yaml --gpus 8 -o p.json", 3,
            "some_8b.yaml is neither beside the file nor in primus/configs above it"},
           {"plan --from megatron @swift_like.sh --gpus 8 -o p.json", 3,
            "some/Model-7B: a job of ms-swift has its sizes in the checkpoint"},
           {"calibrate --nccl @nccl_table_without_header.txt --cluster dgx-h100", 3,
            "which name the devices, are missing"}})
    expect(one);
}

// Experts in all blocks but the first two, as the script's loop and printf -v say.
TEST_F(CasesCommand, AListThatTheShellPrints) {
  expect({"plan --from megatron @megatron_printf_v_list.sh --gpus 8 -o p.json", 0, "K1 dp8"});
  EXPECT_THAT(weir("model p.model.json").out, HasSubstr("3..6    block.0..3  transformer"));
}

// 4 blocks and, of these, 3 with 16 + 1 experts of 512: 3 (17 * 3 * 1024 * 512 + ...) and a dense
// one of 8192.
TEST_F(CasesCommand, SizesByAForksNames) {
  expect({"plan --from megatron @modellink_moe_sizes.sh --gpus 8 -o p.json", 0, "K1 dp8"});
  EXPECT_THAT(weir("model p.model.json").out, HasSubstr("146728448 parameters"));
}

// 611.7 TFLOP/s by Megatron's count of half of the attention are 10 s; a log of 96 layers is none
// of this job of 8.
TEST_F(CasesCommand, LogsAreOfTheirJob) {
  expect({"plan --from megatron @megatron_tflops_half_attention.sh --gpus 8 -o p.json", 0, "cp8"});
  expect({"explain p.json --measured 611.7TFLOPs --cluster dgx-h100 --gpus 8", 0,
          "measured 611.7TFLOPs: 10 s a step"});
  expect({"plan --from nemo @nemo_te.yaml --gpus 8 -o n.json", 0, "K2 dp4"});
  expect({"compare n.json @nemo_log_of_another_job.log --cluster dgx-a100", 3,
          "n.json: is of num_layers 8, the log's job of 96"});
}

}  // namespace
}  // namespace weir::cases_command_test
