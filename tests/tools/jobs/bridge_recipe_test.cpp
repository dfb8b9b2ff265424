// Megatron-Bridge recipes as plans: a small one written here, by way of Megatron's arguments.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tools/jobs/job/config_jobs.hpp"

namespace weir::bridge_recipe_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHead =
    "import torch\nfrom megatron.bridge.training.config import ConfigContainer\n\n"
    "def small_pretrain_config() -> ConfigContainer:\n    cfg = _pretrain_common()\n";
constexpr const char* kProvider =
    "    cfg.model = GPTModelProvider(seq_length=2048, num_layers=8, hidden_size=64,\n"
    "        ffn_hidden_size=256, num_attention_heads=8, hidden_dropout=0.0,\n"
    "        attention_dropout=0.0, tensor_model_parallel_size=2,\n"
    "        pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2,\n"
    "        sequence_parallel=True, num_query_groups=2, add_bias_linear=False,\n"
    "        share_embeddings_and_output_weights=False, normalization=\"RMSNorm\",\n"
    "        gated_linear_unit=True, activation_func=F.silu, position_embedding_type=\"rope\",\n"
    "        rotary_base=500000, pipeline_dtype=torch.bfloat16)\n";

Job recipe(const std::string& body, JobOptions options = {}) {
  options.gpus = 16;
  return read_nemo_job(kHead + body + "    return cfg\n", "recipe.py", options);
}

// 16 devices: tp 2 x pp 2 x 4 replicas; 32 samples (of _pretrain_common) in micro-batches of 2 are
// M = 4. Its optimizer is the common one's but for the rate.
TEST(BridgeRecipe, IsReadAsMegatronsArguments) {
  const Job job =
      recipe(std::string(kProvider) +
             "    cfg.tokenizer.vocab_size = DEFAULT_NULL_TOKENIZER_VOCAB_SIZE\n"
             "    cfg.optimizer.lr = 0.9e-4\n    cfg.optimizer.min_lr = 0.9e-5\n"
             "    cfg.scheduler.lr_warmup_iters = 2000\n    cfg.train.train_iters = 1_168_251\n"
             "    cfg.model.recompute_granularity = \"full\"\n    cfg.model.recompute_method = "
             "\"uniform\"\n"
             "    cfg.model.recompute_num_layers = 1\n    cfg.model.attention_backend = None\n"
             "    cfg.mixed_precision = get_mixed_precision_config(\"bf16_mixed\")\n"
             "    cfg.env_vars = {**COMMON}\n");
  const Plan& plan = job.plan;
  EXPECT_EQ(plan.tp, 2);
  EXPECT_EQ(plan.pp, 2);
  EXPECT_EQ(plan.vpp, 2);
  EXPECT_EQ(plan.dp, 4);
  EXPECT_EQ(plan.microbatches, 4);
  EXPECT_EQ(plan.micro_batch_size, 2);
  EXPECT_EQ(plan.seq_length, 2048);
  EXPECT_EQ(plan.zero, 1);
  EXPECT_TRUE(plan.sequence_parallel);
  EXPECT_TRUE(plan.overlap_grad_reduce);
  EXPECT_EQ(plan.dtype, Dtype::bf16);
  EXPECT_EQ(plan.attention, AttentionKind::fused);
  EXPECT_EQ(plan.recompute.mode, RecomputeMode::full);
  EXPECT_EQ(plan.optimizer.learning_rate, 0.9e-4);
  EXPECT_EQ(plan.optimizer.beta2, 0.95);
  EXPECT_EQ(plan.optimizer.clip_norm, 1);
  EXPECT_EQ(plan.optimizer.rate, (RateSchedule{2000, 1'168'251, DecayStyle::cosine, 0.9e-5}));
  const auto decoder = as_decoder(job.model);
  ASSERT_TRUE(decoder.has_value());
  EXPECT_EQ(decoder->blocks, 8);
  EXPECT_EQ(decoder->block.kv_heads, 2);
  EXPECT_TRUE(decoder->block.gated);
  EXPECT_EQ(decoder->block.angles.theta, 500000);
  EXPECT_FALSE(decoder->embedding.tied);
  EXPECT_EQ(decoder->embedding.vocabulary, 32000);
  EXPECT_EQ(names(job), "");
}

// A model of a checkpoint's own configuration must be given; what is not followed is named.
TEST(BridgeRecipe, SizesThatStandElsewhereAreAskedFor) {
  const std::string body =
      "    cfg.model = AutoBridge.from_hf_pretrained(\"a/b\").get_model_config()\n"
      "    cfg.model.pipeline_model_parallel_size = 4\n    cfg.model.seq_length = 512\n"
      "    cfg.model.pipeline_model_parallel_layout = [[\"embedding\", \"decoder\"],\n"
      "        [\"decoder\"] * 2, [\"decoder\"], [\"loss\"]]\n    tweak(cfg)\n";
  EXPECT_THAT(
      complaint([&] { static_cast<void>(recipe(body)); }),
      HasSubstr("recipe.py: model: a/b: its sizes are not in this file: give its config.json"));
  // By a constant, an argument of a function of its own, and with the bridge in between.
  for (const char* made :
       {"    name = \"a/b\"\n    cfg.model = AutoBridge.from_hf_pretrained(name, "
        "revision=\"1\").to_megatron_provider(load_weights=False)\n",
        "    bridge = AutoBridge.from_hf_pretrained(\"a/b\")\n"
        "    cfg.model = bridge.to_megatron_provider()\n"}) {
    try {
      static_cast<void>(recipe(made));
      ADD_FAILURE() << made;
    } catch (const ModelNeeded& needed) {
      EXPECT_EQ(needed.model(), "a/b") << made;
    }
  }
  const Job small = recipe(std::string(kProvider));
  const Job job = recipe(body.substr(0, body.find("    cfg.model.pipeline_model_parallel_layout")) +
                             "    tweak(cfg)\n",
                         {.model = &small.model});
  EXPECT_EQ(job.plan.pp, 4);
  EXPECT_THAT(job.plan.boundaries, ElementsAre(3, 5, 7));
  EXPECT_EQ(names(job), "small_pretrain_config ");
}

// A given model whose blocks differ, as gpt-oss's by their window: the job's model is itself.
TEST(BridgeRecipe, AGivenModelsBlocksMayDiffer) {
  Model model = recipe(std::string(kProvider)).model;
  std::get<TransformerShape>(model.layers[2].shape).window = 128;
  const Job job = recipe(
      "    cfg.model = AutoBridge.from_hf_pretrained(\"a/b\").get_model_config()\n"
      "    cfg.model.pipeline_model_parallel_size = 4\n    cfg.model.seq_length = 512\n",
      {.model = &model});
  EXPECT_EQ(job.plan.pp, 4);
  ASSERT_EQ(job.model.layers.size(), 11U);
  EXPECT_EQ(std::get<TransformerShape>(job.model.layers[2].shape).window, 128);
}

// A given model's heads may be wider than its hidden size says, and it may predict: its positions
// are rotary.
TEST(BridgeRecipe, AGivenModelIsTakenAsItIs) {
  Model model = recipe(std::string(kProvider)).model;
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) {
      block->heads = 6;
      block->head_dim = 128;
    }
  }
  const Job job = recipe(
      "    cfg.model = AutoBridge.from_hf_pretrained(\"a/b\").get_model_config()\n"
      "    cfg.model.seq_length = 512\n    cfg.model.mtp_num_layers = 1\n",
      {.model = &model});
  EXPECT_TRUE(job.model_given);
  EXPECT_EQ(job.plan.prediction_layers, 1);
  EXPECT_EQ(std::get<TransformerShape>(job.model.layers[2].shape).heads, 6);
}

// Optimizer and scheduler of one call, as the recipes of 0.1 and 0.2 have them; what it leaves open
// is its function's own: a tenth of the rate at the end, betas 0.9 and 0.95, and decay 0.1.
TEST(BridgeRecipe, TwoSectionsOfOneCall) {
  const Job job = recipe(std::string(kProvider) +
                         "    opt, sched = distributed_fused_adam_with_cosine_annealing(\n"
                         "        lr_warmup_iters=20, lr_decay_iters=400, max_lr=2e-4)\n"
                         "    cfg.optimizer = opt\n    cfg.scheduler = sched\n");
  const Optimizer& o = job.plan.optimizer;
  EXPECT_EQ(o.rate, (RateSchedule{20, 400, DecayStyle::cosine, 2e-5}));
  EXPECT_EQ(o.learning_rate, 2e-4);
  EXPECT_EQ(o.weight_decay, 0.1);
  EXPECT_EQ(o.beta2, 0.95);
  EXPECT_EQ(o.epsilon, 1e-5);
  EXPECT_EQ(job.plan.zero, 1);
}

// Another family's provider has defaults that are not GPTModelProvider's.
TEST(BridgeRecipe, OtherProvidersAreAskedFor) {
  std::string body = kProvider;
  body.replace(body.find("GPTModelProvider"), 16, "LlamaModelProvider");
  EXPECT_EQ(complaint([&] { static_cast<void>(recipe(body)); }),
            "recipe.py: model: LlamaModelProvider: its defaults are not in this file: give its "
            "config.json");
}

// A layout as lists of layers' names.
TEST(BridgeRecipe, LayoutsAreLetters) {
  const Job job =
      recipe(std::string(kProvider) +
             "    cfg.model.virtual_pipeline_model_parallel_size = None\n"
             "    cfg.model.pipeline_model_parallel_layout = [[\"embedding\"] +\n"
             "        [\"decoder\", \"decoder\", \"decoder\"], [\"decoder\", \"decoder\",\n"
             "        \"decoder\", \"decoder\", \"decoder\", \"loss\"]]\n"
             "    cfg.tokenizer.vocab_size = 1024\n");
  EXPECT_EQ(job.plan.vpp, 1);
  EXPECT_THAT(job.plan.boundaries, ElementsAre(4));
}

std::string peft_recipe(const std::string& more) {
  return "from megatron.bridge.training.config import ConfigContainer\n\n"
         "def small_peft_config(peft_scheme: str = \"lora\") -> ConfigContainer:\n"
         "    cfg = _peft_common()\n" +
         std::string(kProvider) + "    cfg.tokenizer.vocab_size = 1024\n" + more +
         "    return cfg\n";
}

// Rank 32 beside all four products where nothing is said (_peft_common()), 128 samples of one each;
// the shipped recipes set the rank of a LoRA that a function of another file makes. What scales the
// adapters changes nothing.
TEST(BridgeRecipe, AdaptersAreRead) {
  const auto read = [](const std::string& more) {
    return read_nemo_job(peft_recipe(more), "recipe.py", {.gpus = 4});
  };
  const Job usual = read("");
  EXPECT_EQ(usual.plan.lora, (Adapters{32, all_products(), 0}));
  EXPECT_EQ(usual.plan.global_batch_size(), 128);
  EXPECT_EQ(usual.plan.micro_batch_size, 1);
  EXPECT_EQ(usual.plan.optimizer.beta2, 0.98);
  EXPECT_TRUE(usual.model.layers[1].treated.frozen);
  const Job shipped = read(
      "    peft_cfg = default_peft_config(peft_scheme)\n    cfg.peft = peft_cfg\n"
      "    if isinstance(peft_scheme, str) and peft_scheme.lower() in [\"lora\", \"dora\"]:\n"
      "        peft_cfg.dim = 16\n        peft_cfg.alpha = 32\n");
  EXPECT_EQ(shipped.plan.lora.rank, 16);
  EXPECT_EQ(names(shipped), names(usual)) << "all of it is followed";
  const Job some = read(
      "    cfg.peft = LoRA(target_modules=[\"linear_qkv\", \"linear_proj\"], dim=8, alpha=16,\n"
      "        dropout=0.1, dropout_position=\"post\")\n");
  EXPECT_EQ(to_string(some.plan.lora.targets), "linear_qkv+linear_proj");
  EXPECT_EQ(some.plan.lora.dropout, 0.1);
  EXPECT_THAT(names(some), HasSubstr("peft.dropout_position"));
  EXPECT_EQ(to_string(read("    cfg.peft = CanonicalLoRA(dim=8)\n").plan.lora.targets),
            "linear_q+linear_k+linear_v+linear_proj+linear_fc1_up+linear_fc1_gate+linear_fc2");
  EXPECT_EQ(read("    cfg.peft = None\n").plan.lora.rank, 0);
  EXPECT_THAT(complaint([&] { read("    cfg.peft = DoRA(dim=8)\n"); }),
              HasSubstr("recipe.py: peft: DoRA: adapters"));
  EXPECT_THAT(
      complaint([&] { read("    cfg.peft.target_modules = [\"*.layers.0.*.linear_qkv\"]\n"); }),
      HasSubstr("peft.target_modules: *.layers.0.*.linear_qkv: adapters beside it, or in some"));
  EXPECT_EQ(complaint([&] { read("    cfg.peft = LoRA(dim=3)\n"); }),
            "recipe.py: peft: tp = 2 does not divide the rank 3");
}

// The recipe of a mixed precision is in its name, and what mixed_precision.py sets beside it.
TEST(BridgeRecipe, PrecisionsSayHowScalesAreFound) {
  const auto plan = [](const std::string& precision) {
    return recipe(std::string(kProvider) + "    cfg.mixed_precision = " + precision + "\n").plan;
  };
  EXPECT_EQ(plan("\"bf16_mixed\"").fp8, Fp8Recipe::none);
  const Plan current = plan("\"bf16_with_fp8_current_scaling_mixed\"");
  EXPECT_EQ(current.fp8, Fp8Recipe::tensorwise);
  EXPECT_TRUE(current.fp8_parameters);
  EXPECT_EQ(plan("bf16_with_mxfp8_mixed()").fp8, Fp8Recipe::mxfp8);
  const Plan blocks = plan("\"bf16_with_fp8_subchannel_scaling_mixed\"");
  EXPECT_EQ(blocks.fp8, Fp8Recipe::blockwise);
  EXPECT_FALSE(blocks.fp8_parameters);
  EXPECT_EQ(plan("bf16_with_fp8_delayed_scaling_mixed()").fp8, Fp8Recipe::delayed);
}

// Of a checkpoint's model whose blocks have rotary positions; what the recipe's own arguments leave
// open, learned ones in Megatron, are not its.
TEST(BridgeRecipe, PredictsByTheModelThatIsNamed) {
  const Model model = llama_like(8);
  const Job job = recipe(
      "    cfg.model = AutoBridge.from_hf_pretrained(\"a/b\").get_model_config()\n"
      "    cfg.model.seq_length = 128\n    cfg.model.mtp_num_layers = 1\n"
      "    cfg.model.virtual_pipeline_model_parallel_size = None\n",
      {.model = &model});
  EXPECT_EQ(job.plan.prediction_layers, 1);
  EXPECT_EQ(job.model.layers.size(), model.layers.size() + 1);
}

TEST(BridgeRecipe, RefusesInOneLine) {
  EXPECT_THAT(complaint([] {
                static_cast<void>(read_nemo_job(
                    "from nemo.collections import llm\ndef f():\n    pass\n", "r.py", {}));
              }),
              HasSubstr("r.py: is a NeMo 2 recipe, which is not read: give the Megatron-Bridge"));
  EXPECT_EQ(
      complaint([] { static_cast<void>(read_nemo_job("import torch\nx = 1\n", "r.py", {})); }),
      "r.py: config: has no function that returns a ConfigContainer");
  EXPECT_THAT(
      complaint([] {
        static_cast<void>(recipe(std::string(kProvider) + "    cfg.model.num_layers = N\n"));
      }),
      HasSubstr("num-layers"));
}

}  // namespace
}  // namespace weir::bridge_recipe_test
