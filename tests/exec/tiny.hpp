// Models small enough to train in milliseconds, as plans in a temporary folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "exec/cpu/cpu_backend.hpp"
#include "exec/run/run.hpp"
#include "plan/job/resolve.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"

namespace weir {

inline Backends cpu_only() { return {{BackendKind::cpu, make_cpu_backend}}; }

// A config of its own: positions are its tokens.
struct TinyConfig {
  std::string text;
  int tokens = 8;
};

// Llama's family: 4 query heads of 6 on 2 keys, so that the heads together are wider than the
// residual stream of 16. `more` are further keys.
inline TinyConfig tiny_llama(const std::string& family, const std::string& more, int blocks = 3,
                             int vocabulary = 32, int tokens = 8) {
  return {
      R"({"model_type":")" + family +
          R"(","hidden_size":16,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":6,)" +
          R"("intermediate_size":20,"initializer_range":0.2,"num_hidden_layers":)" +
          std::to_string(blocks) + R"(,"vocab_size":)" + std::to_string(vocabulary) +
          R"(,"max_position_embeddings":)" + std::to_string(tokens) + more + "}",
      tokens};
}

// BERT's family: dropout of all kinds at one rate. `more` are further keys.
inline TinyConfig tiny_bert(double dropout, const std::string& more = "", int blocks = 4,
                            int vocabulary = 32, int tokens = 8) {
  const std::string rate = std::to_string(dropout);
  return {R"({"model_type":"bert","architectures":["BertForMaskedLM"],"hidden_size":16,)"
          R"("num_attention_heads":2,"intermediate_size":20,"initializer_range":0.2,)"
          R"("num_hidden_layers":)" +
              std::to_string(blocks) + R"(,"vocab_size":)" + std::to_string(vocabulary) +
              R"(,"max_position_embeddings":)" + std::to_string(tokens) +
              R"(,"hidden_dropout_prob":)" + rate + R"(,"attention_probs_dropout_prob":)" + rate +
              more + "}",
          tokens};
}

// A ViT of images of 3 channels, 9 x 9, of which patches of 4 x 4 leave a row and a column out:
// five positions. Five classes.
inline TinyConfig tiny_vit(double dropout, int blocks = 3) {
  const std::string rate = std::to_string(dropout);
  return {R"({"model_type":"vit","architectures":["ViTForImageClassification"],"hidden_size":16,)"
          R"("num_attention_heads":2,"intermediate_size":20,"initializer_range":0.2,)"
          R"("image_size":9,"patch_size":4,"num_labels":5,"num_hidden_layers":)" +
              std::to_string(blocks) + R"(,"hidden_dropout_prob":)" + rate +
              R"(,"attention_probs_dropout_prob":)" + rate + "}",
          5};
}

// Wavelengths of 6, 134 and 2900 tokens: left as they are, blended, slowed.
inline const char* const kLlama3Scaling =
    R"(,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,)"
    R"("high_freq_factor":4.0,"original_max_position_embeddings":256})";

class TinyModel {
 public:
  explicit TinyModel(const TinyConfig& config)
      : tokens_(config.tokens),
        folder_(std::filesystem::temp_directory_path() /
                ("weir-exec-test-" + std::to_string(::getpid()))),
        text_(config.text) {
    write_file_atomically(folder_ / "config.json", text_);
  }
  explicit TinyModel(bool tied = true, double dropout = 0.1, int vocabulary = 32, int blocks = 3,
                     int tokens = 8)
      : tokens_(tokens),
        folder_(std::filesystem::temp_directory_path() /
                ("weir-exec-test-" + std::to_string(::getpid()))) {
    const std::string rate = std::to_string(dropout);
    text_ = R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":)" + std::to_string(blocks) +
            R"(,"vocab_size":)" + std::to_string(vocabulary) + R"(,"n_positions":)" +
            std::to_string(tokens) + R"(,"initializer_range":0.2,"tie_word_embeddings":)" +
            (tied ? "true" : "false") + R"(,"embd_pdrop":)" + rate + R"(,"attn_pdrop":)" + rate +
            R"(,"resid_pdrop":)" + rate + "}";
    write_file_atomically(folder_ / "config.json", text_);
  }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;
  ~TinyModel() { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Plan plan(std::vector<int> boundaries, int microbatches,
                          const std::string& schedule = "1f1b") const {
    Plan plan;
    plan.model_path = "config.json";
    plan.model_sha256 = sha256_hex(text_);
    plan.seq_length = tokens_;
    plan.pp = static_cast<int>(boundaries.size()) + 1;
    plan.boundaries = std::move(boundaries);
    plan.microbatches = microbatches;
    plan.micro_batch_size = 2;
    plan.schedule = schedule;
    return plan;
  }
  [[nodiscard]] ResolvedPlan load(const Plan& plan) const { return resolve(plan, folder_); }

 private:
  int tokens_;
  std::filesystem::path folder_;
  std::string text_;
};

}  // namespace weir
