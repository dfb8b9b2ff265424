// What `weir model --kernels` lists is what the executor launches, kernel by kernel.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/executor_kernels.hpp"
#include "tests/exec/tiny_cnn.hpp"
#include "tests/exec_cuda/recorded/fixture.hpp"

namespace weir::recorded::kernels_test {
namespace {

using RecordedKernels = Recorded;
using Counts = std::map<std::string, std::int64_t>;

// By the name in the list. Products are one name; fused attention's forward is one kernel, its
// backward one of cuDNN's or three of our own, each of them once; what is launched only where
// nothing is kept between steps, or is no kernel, has none.
std::string listed_name(const std::string& name) {
  if (name == "a product" || name.starts_with("product")) return "a product";
  if (name == "cuDNN's forward" || name == "forward_kernel") return "fused attention";
  if (name == "cuDNN's backward" || name == "query_kernel") return "fused attention, backward";
  if (name == "row_sums_kernel" || name == "key_value_kernel") return "";
  if (name.starts_with("fused attention")) return name;
  return name.ends_with("_kernel") && name != "begin_step_kernel" ? name : "";
}

// In a step behind the first.
Counts launched(const ResolvedPlan& loaded) {
  Counts one, two;
  for (const int steps : {1, 2}) {
    machine().reset(1);
    static_cast<void>(train(loaded, steps_on_cuda(steps)));
    (steps == 1 ? one : two) = machine().ran;
  }
  Counts counts;
  for (const auto& [name, count] : two) {
    const std::string listed = listed_name(name);
    if (!listed.empty()) counts[listed] += count - one[name];
  }
  return counts;
}

void expect_launches_of_the_list(const ResolvedPlan& loaded) {
  const Plan& plan = loaded.plan;
  Counts listed;
  for (const KernelWork& kernel :
       executor_kernels(loaded.model, {.seq_length = plan.seq_length,
                                      .batch = plan.micro_batch_size,
                                      .dtype = plan.dtype,
                                      .optimizer = plan.optimizer.kind})) {
    const std::string name = listed_name(kernel.name);
    if (!name.empty()) listed[name] += kernel.calls;
  }
  EXPECT_EQ(launched(loaded), listed);
}

TEST_F(RecordedKernels, LaunchesAreThoseOfTheList) {
  for (const double dropout : {0.0, 0.1}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::sgd}) {
        SCOPED_TRACE(std::string(to_string(dtype)) + ", dropout " + std::to_string(dropout));
        // With AdamW 256 tokens, and 301, which bf16 pads.
        const TinyModel model(true, dropout, optimizer == OptimizerKind::adamw ? 301 : 32, 2, 4);
        Plan plan = model.plan({}, 1, "gpipe");
        plan.dtype = dtype;
        plan.optimizer.kind = optimizer;
        expect_launches_of_the_list(model.load(plan));
      }
    }
  }
}

// By cuDNN in bf16 without dropout, elsewhere by our own kernels.
TEST_F(RecordedKernels, LaunchesOfFusedAttentionAreThoseOfTheList) {
  for (const double dropout : {0.0, 0.1}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + ", dropout " + std::to_string(dropout));
      const TinyModel model(true, dropout, 32, 2, 4);
      Plan plan = model.plan({}, 1, "gpipe");
      plan.dtype = dtype;
      plan.attention = AttentionKind::fused;
      expect_launches_of_the_list(model.load(plan));
      const bool own = dropout > 0 || dtype == Dtype::fp32;
      EXPECT_EQ(machine().ran["key_value_kernel"], own ? 4 : 0);  // 2 blocks, 2 steps
#ifdef WEIR_HAS_CUDNN
      EXPECT_EQ(machine().ran["cuDNN's backward"], own ? 0 : 4);
#endif
    }
  }
}

// Llama's family: two heads of queries to one of keys, no biases or all, norms of heads, a gated
// MLP; heads of 6, whose pairs are turned one by one.
TEST_F(RecordedKernels, LaunchesOfLlamasFamilyAreThoseOfTheList) {
  const std::pair<const char*, const char*> families[] = {
      {"llama", R"(,"attention_dropout":0.1)"},
      {"llama", R"(,"attention_bias":true,"mlp_bias":true)"},
      {"qwen2", R"(,"tie_word_embeddings":true)"},
      {"qwen3", ""}};
  for (const auto& [family, more] : families) {
    const TinyModel model(tiny_llama(family, more, 2, 32, 4));
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused}) {
        SCOPED_TRACE(std::string(family) + more + " " + std::string(to_string(dtype)));
        Plan plan = model.plan({}, 1, "gpipe");
        plan.dtype = dtype;
        plan.attention = attention;
        expect_launches_of_the_list(model.load(plan));
      }
    }
  }
}

void expect_launches_of_the_list(const TinyConfig& config) {
  const TinyModel model(config);
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::string(to_string(attention)));
      Plan plan = model.plan({}, 1, "gpipe");
      plan.dtype = dtype;
      plan.attention = attention;
      expect_launches_of_the_list(model.load(plan));
    }
  }
}

// Norms behind the sums, a normalised embedding with types, and a head with a transform.
TEST_F(RecordedKernels, LaunchesOfABertAreThoseOfTheList) {
  for (const double dropout : {0.0, 0.1})
    expect_launches_of_the_list(tiny_bert(dropout, "", 2, 37, 4));
}

// Patches, and a head on the class token.
TEST_F(RecordedKernels, LaunchesOfAVitAreThoseOfTheList) {
  for (const double dropout : {0.0, 0.1}) expect_launches_of_the_list(tiny_vit(dropout, 2));
}

// Convolutions and norms, skips inside cells and past them; by AdamW, beside which running
// statistics are moved. Of two images of 64 x 64 gradients of weights are sums of 8192 rows, in two
// parts.
TEST_F(RecordedKernels, LaunchesOfCellsAreThoseOfTheList) {
  TinyConfig large = tiny_resnet();
  large.text.replace(large.text.find(R"("image":8)"), 9, R"("image":64)");
  for (const TinyConfig& config : {tiny_resnet(true), tiny_unet(), tiny_amoebanet(), large}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      const TinyModel model(config);
      SCOPED_TRACE(config.text + " " + std::string(to_string(dtype)));
      Plan plan = model.plan({}, 1, "gpipe");
      plan.dtype = dtype;
      expect_launches_of_the_list(model.load(plan));
    }
  }
}

}  // namespace
}  // namespace weir::recorded::kernels_test
