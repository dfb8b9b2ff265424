// The arguments that shape layers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

#include "plan/model/expert_groups.hpp"
#include "plan/model/limits.hpp"
#include "plan/text/cells.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {

// Tokens of the tokenizers that are named rather than counted, by how their names begin in small
// letters; the file's own numbers come first. Llama's are those of its papers (Touvron et al. 2023;
// Dubey et al. 2024: 128,256 with the reserved ones), Mistral's and Mixtral's of their first
// versions (Jiang et al. 2023, 2024).
struct Tokenizer {
  std::string_view name;
  std::int64_t tokens;
};
constexpr std::int64_t kMostExperts = 1 << 16;
constexpr std::int64_t kGpt2Tokens = 50257;
constexpr std::array<Tokenizer, 8> kTokenizers{{{"gpt2", kGpt2Tokens},
                                                {"t5-small", 32100},
                                                {"meta-llama/llama-2", 32000},
                                                {"meta-llama/meta-llama-3", 128256},
                                                {"meta-llama/llama-3", 128256},
                                                {"mistralai/mistral-7b-v0.1", 32000},
                                                {"mistralai/mistral-7b-instruct-v0.1", 32000},
                                                {"mistralai/mixtral-8x7b", 32000}}};

std::int64_t tokens(Arguments& a, const JobOptions& options, std::vector<Remark>& remarks) {
  const auto given = a.maybe_integer("vocab-size", 1, kLargestSize);
  const std::string type = a.text_or("tokenizer-type", "");
  const std::string name =
      a.text("tokenizer-name-or-path").value_or(a.text("tokenizer-model").value_or(std::string()));
  const bool merges = a.flag("merge-file");
  static_cast<void>(a.flag("vocab-file"));
  if (options.vocabulary) return *options.vocabulary;
  if (given) return *given;
  // NeMo's YAML has the name in the place of the type.
  for (std::string given_name : {name, type}) {
    std::ranges::transform(given_name, given_name.begin(),
                           [](unsigned char c) { return std::tolower(c); });
    for (const Tokenizer& known : kTokenizers) {
      if (given_name.starts_with(known.name)) return known.tokens;
    }
  }
  if (type == "Llama2Tokenizer") return 32000;
  if (type == "GPT2BPETokenizer" || (type.empty() && merges)) return kGpt2Tokens;
  remarks.push_back(
      {"vocab-size", fmt::format("neither it nor a known tokenizer is given: {} supposed, GPT-2's; "
                                 "vocab_size says otherwise",
                                 kGpt2Tokens)});
  return kGpt2Tokens;
}

// Megatron pads the vocabulary so that every tensor-parallel rank holds a multiple of
// make-vocab-size-divisible-by.
std::int64_t padded_vocabulary(Arguments& a, const JobOptions& options,
                               std::vector<Remark>& remarks) {
  const std::int64_t divisor = a.integer_or("make-vocab-size-divisible-by", 128, 1, kLargestSize) *
                               a.integer_or("tensor-model-parallel-size", 1, 1, 1 << 16);
  const auto whole = a.maybe_integer("padded-vocab-size", 1, kLargestSize);
  if (const auto to = a.maybe_integer("pad-vocab-size-to", 1, kLargestSize);
      const auto padded = whole ? whole : to) {
    static_cast<void>(a.flag("vocab-size"));
    for (const char* name : {"tokenizer-type", "tokenizer-name-or-path", "tokenizer-model",
                             "merge-file", "vocab-file"})
      static_cast<void>(a.flag(name));
    return *padded;
  }
  const std::int64_t count = tokens(a, options, remarks);
  return ceil_div(count, divisor) * divisor;
}

void set_width(Arguments& a, TransformerShape& block) {
  block.hidden = a.integer("hidden-size", 1, kLargestSize);
  block.heads = a.integer("num-attention-heads", 1, kLargestSize);
  if (const auto channels = a.maybe_integer("kv-channels", 1, kLargestSize)) {
    block.head_dim = *channels;
  } else if (block.hidden % block.heads != 0) {
    a.fail("num-attention-heads", fmt::format("does not divide hidden-size {}", block.hidden));
  } else {
    block.head_dim = block.hidden / block.heads;
  }
  block.kv_heads = block.heads;
  const auto groups = a.maybe_integer("num-query-groups", 1, kLargestSize);
  if (a.flag("group-query-attention")) block.kv_heads = groups.value_or(1);
  if (a.flag("multi-query-attention")) block.kv_heads = 1;
  // Megatron-DeepSpeed's name for it
  block.kv_heads = a.integer_or("num-key-value-heads", block.kv_heads, 1, kLargestSize);
  if (block.heads % block.kv_heads != 0)
    a.fail("num-query-groups", "does not divide num-attention-heads");
}

// Megatron's defaults; its inner norms are there with --qk-layernorm.
void set_latent_attention(Arguments& a, TransformerShape& block, std::vector<Remark>& remarks) {
  if (!a.flag("multi-latent-attention")) return;
  if (block.kv_heads != block.heads)
    a.fail("multi-latent-attention", "excludes group-query-attention");
  LatentAttention& latent = block.latent;
  latent.query = a.maybe_integer("q-lora-rank", 1, kLargestSize).value_or(0);
  latent.key_value = a.integer_or("kv-lora-rank", 32, 1, kLargestSize);
  latent.rotary = a.integer_or("qk-pos-emb-head-dim", 64, 1, kLargestSize);
  latent.value = a.integer_or("v-head-dim", 128, 1, kLargestSize);
  block.head_dim = a.integer_or("qk-head-dim", 128, 1, kLargestSize) + latent.rotary;
  if (!a.flag("qk-layernorm")) {
    remarks.push_back(
        {"qk-layernorm", "not given: the norms within latent attention are in the model"});
  }
}

// A list of zeros and ones as Python writes it, "([0]*3+[1]*58)", one for each block.
std::vector<bool> listed_blocks(Arguments& a, std::string_view name, const std::string& text,
                                std::int64_t blocks) {
  std::vector<bool> listed;
  const std::string expected = "expected a number, or a list as ([0]*3+[1]*58)";
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto next = rest.find_first_not_of("()+ ");
    if (next == std::string_view::npos) break;
    rest.remove_prefix(next);
    const auto close = rest.find(']');
    if (rest.front() != '[' || close == std::string_view::npos) a.fail(name, expected);
    std::vector<bool> part;
    for (const char c : rest.substr(1, close - 1)) {
      if (c == '0' || c == '1') part.push_back(c == '1');
      if (c != '0' && c != '1' && c != ',' && c != ' ') a.fail(name, expected);
    }
    rest.remove_prefix(close + 1);
    int times = 1;
    if (rest.starts_with('*')) {
      const auto end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
      const auto count = whole_number<int>(rest.substr(1, end - 1));
      if (!count || *count > kMostLayers) a.fail(name, expected);
      times = *count;
      rest.remove_prefix(end);
    }
    for (int i = 0; i < times; ++i) listed.insert(listed.end(), part.begin(), part.end());
  }
  if (static_cast<std::int64_t>(listed.size()) != blocks)
    a.fail(name, fmt::format("holds {} layers of num-layers {}", listed.size(), blocks));
  return listed;
}

// Which blocks have experts: every n-th from the first, or a list.
std::vector<bool> sparse_blocks(Arguments& a, std::int64_t blocks) {
  constexpr std::string_view kName = "moe-layer-freq";
  const std::string text = a.text_or(kName, "1");
  const auto every = whole_number<int>(text);
  if (!every) return listed_blocks(a, kName, text, blocks);
  if (*every < 1) a.fail(kName, "expected 1 or more, or a list");
  const std::int64_t dense = a.integer_or("first-k-dense-replace", 0, 0, blocks);  // ModelLink's
  std::vector<bool> sparse;
  for (std::int64_t i = 0; i < blocks; ++i) sparse.push_back(i >= dense && i % *every == 0);
  return sparse;
}

// Megatron-Core, transformer/utils.py (is_layer_window_attention): a query sees so many keys before
// it, and itself, in all blocks, in all but every n-th, or in those that a list names.
void set_windows(Arguments& a, std::int64_t blocks, Model& model) {
  constexpr std::string_view kSize = "window-size", kSkip = "window-attn-skip-freq";
  const std::string skip = a.text_or(kSkip, "");
  std::string size = a.values(kSize);
  if (!a.flag(kSize)) return;
  for (char& c : size) {
    if (c == ',' || c == '(' || c == ')') c = ' ';
  }
  std::istringstream words(size);
  std::int64_t before = 0, behind = 0;
  if (!(words >> before >> behind) || before < -1 || before > kLargestSize)
    a.fail(kSize, "expected keys before a query and behind it, as 128,0");
  if (before == -1) return;  // all of them
  const auto every = whole_number<int>(skip);
  if (every && *every < 1) a.fail(kSkip, "expected 1 or more, or a list");
  const std::vector<bool> listed =
      skip.empty() || every ? std::vector<bool>() : listed_blocks(a, kSkip, skip, blocks);
  for (std::int64_t i = 0; i < blocks; ++i) {
    const auto block = static_cast<std::size_t>(i);
    const bool within = every ? (i + 1) % *every != 0 : listed.empty() || listed[block];
    if (within) std::get<TransformerShape>(model.layers[block + 1].shape).window = before + 1;
  }
}

// What the softmax of the scores has beside the keys: nothing, a zero, or a learned score a head.
void set_softmax(Arguments& a, TransformerShape& block) {
  const std::string type = a.text_or("softmax-type", "vanilla");
  if (type != "vanilla" && type != "off-by-one" && type != "learnable")
    a.fail("softmax-type", fmt::format("{}: expected vanilla, off-by-one or learnable", type));
  block.sinks = type == "learnable";
}

void set_mlp(Arguments& a, TransformerShape& block, std::vector<Remark>& remarks) {
  // The gated units of Megatron-DeepSpeed's earlier forks, by name.
  const std::string unit = a.text_or("glu-activation", "");
  const bool swiglu = a.flag("swiglu") || unit == "swiglu", squared = a.flag("squared-relu");
  const bool quick = a.flag("quick-geglu");
  const bool gated = swiglu || quick || !unit.empty();
  const bool tanh_form =
      !a.flag("no-bias-gelu-fusion") || a.flag("openai-gelu");  // the fused kernel computes it
  block.gated = gated;
  block.activation = swiglu      ? Activation::silu
                     : tanh_form ? Activation::gelu_tanh
                                 : Activation::gelu;
  if (squared) {
    block.activation = Activation::relu;
    remarks.push_back({"squared-relu", "timed as ReLU"});
  }
  if (quick) remarks.push_back({"quick-geglu", "x sigmoid(1.702 x): timed as GELU"});
  if (unit == "reglu") block.activation = Activation::relu;
  if (unit == "liglu")
    remarks.push_back({"glu-activation", "liglu: timed with an activation; it has none"});
  // Megatron's default: 4 h, or two thirds of it, in whole 64s, where the MLP has three matrices.
  const std::int64_t usual =
      a.flag("swiglu") ? 4 * block.hidden * 2 / 3 / 64 * 64 : 4 * block.hidden;
  block.ffn = a.integer_or("ffn-hidden-size", usual, 1, kLargestSize);
}

// How many experts each block has; 1: none.
std::vector<std::int64_t> experts_of_blocks(Arguments& a, std::int64_t blocks) {
  const std::int64_t experts = a.integer_or("num-experts", 1, 1, kMostExperts);
  std::vector<std::int64_t> all;
  for (const bool sparse : sparse_blocks(a, blocks)) all.push_back(sparse ? experts : 1);
  return all;
}

// Megatron-DeepSpeed (megatron/model/transformer.py, get_num_experts_per_layer): every
// --expert-interval-th block has experts, one number for all of them or one for each.
std::vector<std::int64_t> experts_by_interval(Arguments& a, std::int64_t blocks) {
  const std::int64_t interval = a.integer_or("expert-interval", 2, 1, kMostLayers);
  static_cast<void>(a.integer_or("num-experts", 1, 1, kMostExperts));
  std::vector<std::int64_t> given;
  std::istringstream words(a.values("num-experts"));
  for (std::string word; words >> word;) {
    const auto number = whole_number<std::int64_t>(word);
    if (!number || *number < 1 || *number > kMostExperts)
      a.fail("num-experts", fmt::format("expected numbers from 1 to {}", kMostExperts));
    given.push_back(*number);
  }
  if (given.empty()) given.push_back(1);
  const std::int64_t sparse = blocks / interval;
  if (given.size() == 1) given.resize(static_cast<std::size_t>(sparse), given[0]);
  if (std::ssize(given) != sparse) {
    a.fail("num-experts", fmt::format("{} numbers: expected one, or one for each of the {} blocks "
                                      "with experts",
                                      given.size(), sparse));
  }
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < blocks; ++i) {
    all.push_back((i + 1) % interval == 0 ? given[static_cast<std::size_t>(i / interval)] : 1);
  }
  if (a.text_or("mlp-type", "standard") != "standard" && std::ranges::max(all) > 1)
    a.fail("mlp-type", "residual: an MLP beside the experts is not modelled");
  return all;
}

// The block with so many experts.
void set_experts(Arguments& a, TransformerShape& block, std::int64_t experts, bool deepspeed) {
  block.experts = experts;
  block.experts_per_token = deepspeed ? a.integer_or("topk", 1, 1, experts)
                                      : a.integer_or("moe-router-topk", 2, 1, experts);
  block.expert_groups = a.integer_or("moe-router-num-groups", 0, 0, experts);
  block.groups_per_token = a.integer_or("moe-router-group-topk", 0, 0, experts);
  // One group of all experts limits nothing.
  if (block.expert_groups == 1) block.expert_groups = block.groups_per_token = 0;
  if (const auto why = cannot_group(block)) a.fail("moe-router-num-groups", *why);
  block.ffn = a.integer_or("moe-ffn-hidden-size", block.ffn, 1, kLargestSize);
  // ModelLink counts shared experts, of the others' width.
  const std::int64_t shared = a.integer_or("n-shared-experts", 0, 0, kMostExperts) * block.ffn;
  block.shared_ffn = a.integer_or("moe-shared-expert-intermediate-size", shared, 0, kLargestSize);
  block.router_pre_softmax = a.flag("moe-router-pre-softmax");
  block.shared_gate = a.flag("moe-shared-expert-gate") && block.shared_ffn > 0;
  // Kept for balance, or learned where all products have biases (moe/router.py).
  block.router_bias = a.flag("moe-router-enable-expert-bias") || (block.mlp_bias && !deepspeed);
}

// Megatron-Core 0.12, models/common/embeddings/rotary_pos_embedding.py: Llama 3.1's scaling with
// its own frequencies and 8192 positions, or positions divided by a factor.
void set_rotary_angles(Arguments& a, RotaryAngles& angles) {
  constexpr std::int64_t kLlama3Positions = 8192;
  const double base = a.number_or("rope-theta", angles.theta, 1e-3, 1e12);
  angles.theta = a.number_or("rotary-base", base, 1e-3, 1e12);
  const double factor = a.number_or("rope-scaling-factor", 8, 1, 1e6);
  const double divided = a.number_or("rotary-seq-len-interpolation-factor", 1, 1, 1e6);
  if (a.flag("use-rope-scaling")) {
    angles.scaling = RotaryScaling::llama3;
    angles.factor = factor;
    angles.original_positions = kLlama3Positions;
  } else if (divided > 1) {
    angles.scaling = RotaryScaling::linear;
    angles.factor = divided;
  }
}

void set_biases_and_norm(Arguments& a, TransformerShape& block) {
  const bool biases = !a.flag("disable-bias-linear");
  block.output_bias = block.mlp_bias = biases;
  block.qkv_bias = a.flag("add-qkv-bias") || biases;
  const std::string norm = a.text_or("normalization", a.flag("rmsnorm") ? "RMSNorm" : "LayerNorm");
  const bool root = norm == "RMSNorm" || norm == "rmsnorm";  // Megatron-DeepSpeed writes it small
  if (!root && norm != "LayerNorm" && norm != "layernorm")
    a.fail("normalization", "expected LayerNorm or RMSNorm");
  block.norm = root ? NormKind::rms_norm : NormKind::layer_norm;
  static_cast<void>(a.flag("apply-layernorm-1p"));  // the same work
  block.norm_epsilon =
      a.number_or("norm-epsilon", a.number_or("layernorm-epsilon", 1e-5, 1e-12, 1), 1e-12, 1);
  block.attention_dropout = a.number_or("attention-dropout", 0.1, 0, 0.999);
  block.residual_dropout = a.number_or("hidden-dropout", 0.1, 0, 0.999);
  if (a.flag("apply-residual-connection-post-layernorm")) {
    a.fail("apply-residual-connection-post-layernorm", "not modelled");
  }
}

}  // namespace

Model megatron_model(Arguments& a, const JobOptions& options, std::vector<Remark>& remarks) {
  TransformerShape block;
  set_width(a, block);
  set_latent_attention(a, block, remarks);
  set_mlp(a, block, remarks);
  set_biases_and_norm(a, block);
  set_softmax(a, block);
  const std::int64_t blocks = a.integer("num-layers", 1, kMostLayers);
  const std::int64_t seq_length = a.integer("seq-length", 1, kLargestSize);
  const std::int64_t positions =
      a.integer_or("max-position-embeddings", seq_length, 1, kLargestSize);
  std::string kind = a.text_or("position-embedding-type", "learned_absolute");
  if (a.flag("use-rotary-position-embeddings")) kind = "rope";
  block.rotary = kind == "rope" || kind == "rotary";
  if (block.rotary) set_rotary_angles(a, block.angles);
  // Of latent attention the same argument means its inner norms.
  block.qk_norm = a.flag("qk-layernorm") && block.latent.key_value == 0;
  if (a.number_or("rotary-percent", 1, 0, 1) != 1) {
    remarks.push_back({"rotary-percent", "turns only a part of each head; not timed"});
  }
  const bool learned = kind == "learned_absolute" || kind == "absolute";
  // What positions have is said by their kind: Megatron takes the flag beside rotary ones alone.
  if (a.flag("no-position-embedding") && learned) {
    remarks.push_back({"no-position-embedding",
                       "Megatron takes it beside rotary positions alone: learned in the plan"});
  }
  if (kind == "alibi") {
    remarks.push_back(
        {"position-embedding-type", "alibi: its bias on the attention scores is not timed"});
  } else if (!learned && !block.rotary && kind != "none") {
    a.fail("position-embedding-type",
           fmt::format("{}: expected learned_absolute, rope, alibi or none", kind));
  }
  if (learned && positions < seq_length) a.fail("max-position-embeddings", "is below seq-length");
  const std::int64_t vocabulary = padded_vocabulary(a, options, remarks);
  const bool tied = !a.flag("untie-embeddings-and-output-weights");
  const EmbeddingShape embedding{.vocabulary = vocabulary,
                                 .hidden = block.hidden,
                                 .positions = learned ? positions : 0,
                                 .norm = a.flag("embed-layernorm"),
                                 .dropout = block.residual_dropout,
                                 .tied = tied};
  Model model = decoder_model(usual_decoder(embedding, block, blocks), seq_length);
  const bool deepspeed = a.flag("deepspeed") || a.flag("expert-interval");
  const std::vector<std::int64_t> experts =
      deepspeed ? experts_by_interval(a, blocks) : experts_of_blocks(a, blocks);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] == 1) continue;
    TransformerShape sparse = block;
    set_experts(a, sparse, experts[i], deepspeed);
    model.layers[i + 1].shape = sparse;
  }
  set_windows(a, blocks, model);
  model.initializer_range = a.number_or("init-method-std", 0.02, 0, 10);
  return model;
}

}  // namespace weir
