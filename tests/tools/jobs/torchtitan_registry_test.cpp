// torchtitan's Python registry: both spellings that it has had, small files written here.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::torchtitan_registry_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Job registry(const std::string& text, const std::string& config = "") {
  return read_torchtitan_job(text, "config_registry.py", {.dp = 2, .config = config});
}

// Batches in sequences, a mode for activation checkpointing: February to June 2026.
constexpr const char* kApril =
    "from torchtitan.trainer import Trainer\nfrom . import model_registry\n\n"
    "def llama3_8b() -> Trainer.Config:\n"
    "    \"\"\"Llama 3 8B.\"\"\"\n"
    "    return Trainer.Config(\n"
    "        hf_assets_path=\"./assets\",\n"
    "        metrics=MetricsProcessor.Config(log_freq=1),\n"
    "        model_spec=model_registry(\"8B\", attn_backend=\"flex\"),\n"
    "        optimizer=OptimizersContainer.Config(lr=3e-4, beta2=0.99),\n"
    "        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=5, decay_type=\"cosine\"),\n"
    "        training=TrainingConfig(local_batch_size=8, seq_len=4096, steps=50, max_norm=0.5),\n"
    "        parallelism=ParallelismConfig(\n"
    "            pipeline_parallel_degree=4, pipeline_parallel_microbatch_size=2,\n"
    "            data_parallel_shard_degree=2),\n"
    "        activation_checkpoint=ActivationCheckpointConfig(mode=\"full\"),\n"
    "        debug=DebugConfig(seed=77),\n"
    "    )\n\n"
    "def llama3_8b_compiled() -> Trainer.Config:\n"
    "    config = llama3_8b()\n"
    "    config.compile = CompileConfig(enable=True)\n"
    "    config.parallelism.pipeline_parallel_schedule = \"GPipe\"\n"
    "    return config\n";

TEST(TorchtitanRegistry, ReadsAsItsTomlDid) {
  const Job job = registry(kApril, "llama3_8b");
  EXPECT_EQ(parameter_count(job.model), 8'030'261'248);
  const Plan& plan = job.plan;
  EXPECT_THAT(plan.boundaries, ElementsAre(9, 18, 26));
  EXPECT_EQ(plan.microbatches, 4);
  EXPECT_EQ(plan.micro_batch_size, 2);
  EXPECT_EQ(plan.dp, 2);
  EXPECT_EQ(plan.zero, 1);
  EXPECT_EQ(plan.seq_length, 4096);
  EXPECT_EQ(plan.schedule, "1f1b");
  EXPECT_EQ(plan.recompute.mode, RecomputeMode::full);
  EXPECT_EQ(plan.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(plan.optimizer.beta2, 0.99);
  EXPECT_EQ(plan.optimizer.clip_norm, 0.5);
  EXPECT_EQ(plan.optimizer.rate, (RateSchedule{5, 50, DecayStyle::cosine, 0}));
  EXPECT_EQ(plan.seed, 77U);
  EXPECT_EQ(plan.attention, AttentionKind::fused);
  EXPECT_EQ(job.stack, "torchtitan-eager");
  EXPECT_EQ(names(job), "");
}

// Documents are told apart within rows but by PyTorch's own attention, which takes no mask.
TEST(TorchtitanRegistry, SaysHowDocumentsLieInRows) {
  const auto job = [](const std::string& packing, const std::string& backend) {
    return registry(
        "from torchtitan.trainer import Trainer\nfrom . import model_registry\n\n"
        "def llama3_8b() -> Trainer.Config:\n    packed = " +
            packing +
            "(dataset=DATASETS[\"c4\"])\n    return Trainer.Config(\n"
            "        model_spec=model_registry(\"8B\"" +
            backend +
            "),\n"
            "        training=TrainingConfig(local_batch_size=8, seq_len=4096),\n"
            "        dataloader=GrainDataLoader.Config(dataset=packed),\n    )\n",
        "llama3_8b");
  };
  const auto rows = [&](const std::string& packing, const std::string& backend) {
    return job(packing, backend).rows;
  };
  // What counts is not among what has no effect.
  const auto fate = [](const Job& of) {
    return std::ranges::find(of.arguments, "dataloader", &JobArgument::name)->fate;
  };
  EXPECT_NE(fate(job("FirstFitPackingConfig", ", attn_backend=\"varlen\"")), Fate::no_effect);
  EXPECT_EQ(fate(job("OtherPacking", "")), Fate::no_effect);
  EXPECT_EQ(rows("ConcatThenSplitPackingConfig", "").name, "dataloader");
  EXPECT_EQ(rows("ConcatThenSplitPackingConfig", "").rows, RowsOf::cut);
  EXPECT_EQ(rows("FirstFitPackingConfig", ", attn_backend=\"varlen\"").rows, RowsOf::packed);
  EXPECT_EQ(rows("FirstFitPackingConfig", ", attn_backend=\"sdpa\"").name, "");
  EXPECT_EQ(rows("OtherPacking", "").name, "");
}

// Products in 8 bits with scales by rows, adapters of rank 4 beside two layers, and one model
// converter that is not known; matrices by Muon, all else by AdamW.
TEST(TorchtitanRegistry, ConvertersAndGroupsOfMuon) {
  const std::string text =
      "from torchtitan.trainer import Trainer\nfrom . import model_registry\n\n"
      "def llama3_8b() -> Trainer.Config:\n    return Trainer.Config(\n"
      "        model_spec=model_registry(\"8B\", converters=[\n"
      "            Float8LinearConverter.Config(filter_fqns=[\"lm_head\"]),\n"
      "            LoRAConverter.Config(rank=4, alpha=8.0, target_modules=[\"wqkv\", \"w2\"]),\n"
      "            OtherConverter.Config(),\n        ]),\n"
      "        training=TrainingConfig(local_batch_size=8, seq_len=4096, steps=50),\n"
      "        optimizer=OptimizersContainer.Config(param_groups=[\n"
      "            ParamGroupConfig(pattern=\"layers\", optimizer_name=\"DistMuon\",\n"
      "                optimizer_kwargs={\"lr\": 1e-3, \"ns_steps\": 6}),\n"
      "            ParamGroupConfig(pattern=\".*\", optimizer_name=\"AdamW\",\n"
      "                optimizer_kwargs={\"lr\": 3e-4}),\n        ]),\n    )\n";
  const Job job = registry(text, "llama3_8b");
  EXPECT_EQ(job.plan.fp8, Fp8Recipe::tensorwise);
  EXPECT_EQ(job.plan.lora.rank, 4);
  EXPECT_EQ(to_string(job.plan.lora.targets), "linear_qkv+linear_fc2");
  EXPECT_EQ(job.plan.optimizer.kind, OptimizerKind::muon);
  EXPECT_EQ(job.plan.optimizer.newton_schulz, 6);
  EXPECT_THAT(names(job), HasSubstr("quantize.linear.float8.recipe_name"));
  EXPECT_THAT(names(job), HasSubstr("model.converters"));
  // Lists that are not followed are said; None is what a field is where nothing is said; 8 bits are
  // gathered where no recipe is named alone.
  const auto with = [&](const std::string& list) {
    const std::size_t from = text.find("converters=[") + 11, to = text.find("]),\n        tr") + 1;
    return registry(text.substr(0, from) + list + text.substr(to), "llama3_8b");
  };
  EXPECT_THAT(names(with("get_converters()")), HasSubstr("model.converters"));
  EXPECT_EQ(names(with("None")).find("model.converters"), std::string::npos);
  EXPECT_FALSE(
      with("[LoRAConverter.Config(rank=4, target_modules=None)]").plan.lora.targets.empty());
  EXPECT_EQ(names(with("[Float8LinearConverter.Config(recipe_name=None, "
                       "enable_fsdp_float8_all_gather=True)]"))
                .find("recipe_name"),
            std::string::npos);
  EXPECT_THAT(complaint([&] {
                static_cast<void>(
                    with("[Float8LinearConverter.Config(enable_fsdp_float8_all_gather=True)]"));
              }),
              HasSubstr("enable_fsdp_float8_all_gather: is refused by torchtitan beside"));
  // Formats of two kinds, one behind adapters, and adapters twice.
  const auto refused = [&](const std::string& list) {
    return complaint([&] { static_cast<void>(with(list)); });
  };
  EXPECT_THAT(refused("[Float8LinearConverter.Config(), MXFP8LinearConverter.Config()]"),
              HasSubstr("model.converters: quantize.linear.mx beside quantize.linear.float8: "));
  EXPECT_THAT(refused("[LoRAConverter.Config(rank=4), MXFP8LinearConverter.Config()]"),
              HasSubstr("quantize.linear.mx is expected before the adapters"));
  EXPECT_THAT(refused("[LoRAConverter.Config(rank=4), LoRAConverter.Config(rank=8)]"),
              HasSubstr("adapters are given twice"));
  EXPECT_THAT(names(with("[MXFP8LinearConverter.Config(fqns=[\"layers\"]), "
                         "MXFP8LinearConverter.Config(fqns=[\"layers\"])]")),
              HasSubstr("model.converters"));
  EXPECT_THAT(refused("[MXFP8GroupedExpertsConverter.Config(recipe_name=\"mxfp4\")]"),
              HasSubstr("quantize.grouped_mm.mx.recipe_name: mxfp4: expected one of mxfp8"));
  const std::string other =
      text.substr(0, text.find("wqkv")) + "w7" + text.substr(text.find("wqkv") + 4);
  EXPECT_THAT(complaint([&] { static_cast<void>(registry(other, "llama3_8b")); }),
              HasSubstr("w7: adapters beside it are not modelled"));
}

// A configuration made of another one; what is compiled is another stack.
TEST(TorchtitanRegistry, FollowsOneConfigurationIntoAnother) {
  const Job job = registry(kApril, "llama3_8b_compiled");
  EXPECT_EQ(job.plan.schedule, "gpipe");
  EXPECT_EQ(job.plan.seq_length, 4096);
  EXPECT_EQ(job.stack, "torchtitan");
  EXPECT_EQ(complaint([] { static_cast<void>(registry(kApril)); }),
            "config_registry.py: config: has 2, say which: llama3_8b, llama3_8b_compiled");
  EXPECT_EQ(complaint([] { static_cast<void>(registry(kApril, "llama3_9b")); }),
            "config_registry.py: llama3_9b: is no function of this file");
}

// Since August 2026 batches are counted in tokens: 2 x 8192 a micro-batch are 2 samples, and
// 2 x 6 x 2 x 2 of them are a step of two passes, of which the plan is one.
constexpr const char* kAugust =
    "from torchtitan.models.llama3 import model_registry\n\n"
    "def job() -> Trainer.Config:\n"
    "    model_spec = model_registry(\"70B\")\n"
    "    return Trainer.Config(\n"
    "        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(\n"
    "            global_vocab_size=decoder_vocab_size(model_spec))),\n"
    "        model_spec=model_spec,\n"
    "        optimizer=default_adamw(lr=1.5e-4, betas=(0.8, 0.9), weight_decay=0.0),\n"
    "        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192,\n"
    "            max_context_length=8192, steps=1000, num_tokens_per_train_step=48 * 8192),\n"
    "        parallelism=ParallelismConfig(pipeline_parallel_degree=2, num_pp_microbatches=6,\n"
    "            tensor_parallel_degree=8, pipeline_parallel_schedule=\"Interleaved1F1B\"),\n"
    "        activation_checkpoint=FullAC.Config(),\n"
    "        compile=CompileConfig(enable=True, components=[\"loss\"]),\n"
    "    )\n";

TEST(TorchtitanRegistry, CountsInTokens) {
  const Job job = registry(kAugust);
  EXPECT_EQ(job.plan.micro_batch_size, 2);
  EXPECT_EQ(job.plan.microbatches, 6);
  EXPECT_EQ(job.plan.seq_length, 8192);
  EXPECT_EQ(job.plan.vpp, 2);
  EXPECT_EQ(job.plan.recompute.mode, RecomputeMode::full);
  EXPECT_EQ(job.plan.optimizer.learning_rate, 1.5e-4);
  EXPECT_EQ(job.plan.optimizer.beta1, 0.8);
  EXPECT_EQ(job.plan.optimizer.beta2, 0.9);
  EXPECT_EQ(job.plan.optimizer.weight_decay, 0);
  EXPECT_EQ(job.stack, "torchtitan-eager");
  EXPECT_EQ(names(job), "compile.components training.global_batch_size loss ");
}

// Where batches are counted in tokens CUDA graphs are on unless the job says otherwise; a
// pipeline's job that says nothing does not start there, and has none. Earlier registries had none
// at all.
TEST(TorchtitanRegistry, GraphsGoWithoutSaying) {
  const auto graphs = [](const std::string& training, const std::string& parallelism = "") {
    return registry(
               "def llama3_job():\n    return Trainer.Config(\n"
               "        model_spec=model_registry('8B'), training=TrainingConfig(" +
               training + "),\n        parallelism=ParallelismConfig(" + parallelism + "))\n")
        .plan.cuda_graphs;
  };
  const std::string tokens = "max_context_length=4096, num_tokens_per_microbatch_per_dp_rank=8192";
  EXPECT_EQ(graphs(tokens), CudaGraphs::of_step());
  EXPECT_EQ(graphs(tokens + ", disable_cuda_graphs=False"), CudaGraphs::of_step());
  EXPECT_TRUE(graphs(tokens + ", disable_cuda_graphs=True").none());
  EXPECT_TRUE(graphs(tokens, "pipeline_parallel_degree=2").none());
  EXPECT_TRUE(graphs("seq_len=4096, local_batch_size=2").none());
}

// The last group of parameters is that of all others; a policy's class says what is rebuilt.
TEST(TorchtitanRegistry, PoliciesAndGroups) {
  const auto read = [](const std::string& fields) {
    return registry(
        "def llama3_job():\n    return Trainer.Config(model_spec=model_registry('8B'),\n"
        "        training=TrainingConfig(seq_len=8), " +
        fields + ")\n");
  };
  EXPECT_EQ(read("activation_checkpoint=None").plan.recompute.mode, RecomputeMode::none);
  const Job selective = read("activation_checkpoint=SelectiveAC.Config()");
  EXPECT_EQ(selective.plan.recompute.mode, RecomputeMode::selective);
  EXPECT_EQ(names(selective), "activation_checkpoint.mode ");
  EXPECT_EQ(read("activation_checkpoint=ActivationCheckpointConfig(selective_ac_option='1')")
                .plan.recompute.mode,
            RecomputeMode::full);
  const Job groups = read(
      "activation_checkpoint=None, optimizer=OptimizersContainer.Config(param_groups=[\n"
      "    ParamGroupConfig(pattern='x', optimizer_name='AdamW', optimizer_kwargs={'lr': 1.0}),\n"
      "    ParamGroupConfig(pattern='.*', optimizer_name='Adam', optimizer_kwargs={\n"
      "        'lr': 0.25, 'betas': (0.5, 0.75), 'eps': 1e-6})])");
  EXPECT_EQ(groups.plan.optimizer.kind, OptimizerKind::adam);
  EXPECT_EQ(groups.plan.optimizer.learning_rate, 0.25);
  EXPECT_EQ(groups.plan.optimizer.beta1, 0.5);
  EXPECT_EQ(names(groups), "optimizer.param_groups ");
}

// What would need running: refused where the plan hangs on it, else named.
TEST(TorchtitanRegistry, WhatIsNotKnownIsSaid) {
  const auto read = [](const std::string& body) {
    return registry(
        "def llama3_job():\n    c = Trainer.Config(model_spec=model_registry('8B'),\n"
        "        training=TrainingConfig(seq_len=8), activation_checkpoint=None)\n" +
        body + "    return c\n");
  };
  const auto line = [&](const std::string& body) {
    return complaint([&] { static_cast<void>(read(body)); });
  };
  EXPECT_THAT(line("    c.training.seq_len = int(os.environ['S'])\n"),
              HasSubstr("config_registry.py: training.seq_len: expected an integer from 1"));
  EXPECT_THAT(line("    c.model_spec = model_registry(FLAVOR)\n"),
              HasSubstr("model.flavor: the sizes of llama3 FLAVOR are not known here"));
  EXPECT_THAT(complaint([] {
                static_cast<void>(
                    registry("def graph_job():\n    c = to_graph(llama3_8b())\n"
                             "    c.compile = Compile(enable=True)\n    return c\n"));
              }),
              HasSubstr("model_spec: to_graph(...) makes it and is not followed"));
  EXPECT_THAT(line("    c.optimizer = make()\n    c.training.steps = STEPS\n"),
              HasSubstr("training.steps: expected an integer"));
  EXPECT_EQ(names(read("    c.loss = CrossEntropyLoss.Config(global_vocab_size=8)\n")), "");
  EXPECT_EQ(
      names(read("    c.loss = ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config())\n")),
      "loss ");
  EXPECT_EQ(names(read("    c.model_converters = Converters.Config(a=1)\n    tune(c)\n")),
            "llama3_job model_converters ");
  EXPECT_EQ(names(registry("def llama3_job():\n    c = llama3_8b()\n"
                           "    c.model_spec = model_registry('8B')\n"
                           "    c.activation_checkpoint = None\n    c.training.steps = 9\n"
                           "    return c\n")),
            "llama3_job ");
}

// A registry of a model's own folder does not say whose it is: the names of its functions do, and
// where they do not, no sizes are taken for another model's.
TEST(TorchtitanRegistry, AnotherModelsFlavourIsNoLlamas) {
  const auto named = [](const std::string& functions) {
    std::string text = "from torchtitan.trainer import Trainer\nfrom . import model_registry\n";
    std::string first;
    for (std::size_t at = 0; at < functions.size();) {
      const std::size_t end = std::min(functions.find(' ', at), functions.size());
      const std::string name = functions.substr(at, end - at);
      if (first.empty()) first = name;
      text += "\n\ndef " + name +
              "() -> Trainer.Config:\n    return Trainer.Config(\n"
              "        model_spec=model_registry(\"8B\"),\n"
              "        training=TrainingConfig(local_batch_size=1, seq_len=2048),\n"
              "        parallelism=ParallelismConfig(),\n    )\n";
      at = end + 1;
    }
    return registry(text, first);
  };
  EXPECT_EQ(named("llama3_8b").model.name, "llama3-8B");
  EXPECT_EQ(named("sft_8b llama3_8b llama3_70b").model.name, "llama3-8B");
  EXPECT_EQ(named("sft_qwen3_8b").model.name, "qwen3-8B");
  EXPECT_EQ(named("sft_8b qwen3_8b").model.name, "qwen3-8B");
  const auto refused = [&](const std::string& functions) {
    return complaint([&] { static_cast<void>(named(functions)); });
  };
  EXPECT_EQ(refused("new_model_8b"),
            "config_registry.py: model.flavor: the sizes of new_model_8b 8B are not known here: "
            "give its model");
}

}  // namespace
}  // namespace weir::torchtitan_registry_test
