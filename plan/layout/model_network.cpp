// Writes the layers as their texts have them, and reads those.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/model_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "plan/layout/network_text.hpp"
#include "plan/model/layer_kinds.hpp"
#include "plan/words/indexed.hpp"

namespace weir::layout {
namespace {

[[noreturn]] void has_no_words(const std::string& layer, const std::string& what) {
  throw std::invalid_argument(
      fmt::format("{}: {} has no words in a layout's network", layer, what));
}

// One layer's texts.
class Writer {
 public:
  Writer(Network& network, std::string name, std::int64_t repeat) : network_(network) {
    layer_.name = std::move(name);
    layer_.repeat = repeat;
  }
  Writer& tensor(const std::string& text) {
    append_tensor(text, network_, layer_);
    return *this;
  }
  Writer& does(const std::string& text) {
    append_operation(text, network_, layer_);
    return *this;
  }
  // A new value and how it is made.
  std::string make(const std::string& name, const std::string& dimensions, const std::string& by) {
    tensor(fmt::format("{}[{}]", name, dimensions));
    does(fmt::format("{} = {}", name, by));
    return name;
  }
  std::string move(const std::string& name, const std::string& dimensions, const std::string& of) {
    return make(name, dimensions, fmt::format("move({})", of));
  }
  std::string add(const std::string& name, const std::string& dimensions, const std::string& a,
                  const std::string& b) {
    return make(name, dimensions, fmt::format("add({} {})", a, b));
  }
  std::string weight(const std::string& name, const std::string& dimensions,
                     const char* role = "weight") {
    const std::size_t hidden = dimensions.find("hidden");
    const bool shards = std::ranges::find(network_.dimensions, "shard", &Dimension::name) !=
                        network_.dimensions.end();
    if (!shards || hidden == std::string::npos) {
      tensor(fmt::format("{} {}[{}]", role, name, dimensions));
      return name;
    }
    std::string kept = dimensions;
    kept.replace(hidden, std::string_view("hidden").size(), "shard");
    tensor(fmt::format("{} {}_shard[{}]", role, name, kept));
    return move(name, dimensions, name + "_shard");
  }
  // A norm with its gains, and a layer norm's shifts.
  std::string norm(const std::string& name, const std::string& of, const std::string& dimensions,
                   NormKind kind) {
    std::string reads = of + " " + weight(name + "_gain", "hidden");
    if (kind == NormKind::layer_norm) reads += " " + weight(name + "_shift", "hidden");
    return make(name, dimensions, fmt::format("norm({}) over hidden", reads));
  }
  std::string biased(const std::string& name, const std::string& of, const std::string& dimensions,
                     const std::string& bias, bool has_bias) {
    if (!has_bias) return of;
    const std::string b = weight(name + "_bias", bias);
    return make(name, dimensions, fmt::format("add({} {})", of, b));
  }
  void finish() {
    finish_layer(network_, layer_);
    network_.layers.push_back(std::move(layer_));
  }

 private:
  Network& network_;
  NetworkLayer layer_;
};

const std::string kRows = "batch, rows, hidden";
const std::string kTokens = "batch, tokens, hidden";
const std::string kTable = "table";  // of the embedding, and of a head that is tied to it

std::string_view function_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::relu:
      return "relu";
    case Activation::silu:
      return "silu";
  }
  return "gelu";
}

// ---- embedding, norm and head ----

void write_embedding(Network& network, const Layer& layer, const EmbeddingShape& e) {
  if (e.patch > 0) has_no_words(layer.name, "an embedding of patches");
  Writer w(network, layer.name, 1);
  w.weight(kTable, "vocab, hidden");
  // Picked for all tokens, then moved to rows, of which a device keeps its own under sequence
  // parallelism.
  std::string sum = w.make("picked", kTokens, fmt::format("gather({}) over vocab", kTable));
  sum = w.make("scattered", kRows, "move(picked)");
  const auto also = [&](const std::string& name, const std::string& table,
                        const std::string& dimension) {
    w.weight(table, dimension + ", hidden");
    w.make(name, kRows, fmt::format("gather({}) over {}", table, dimension));
    sum = w.add(name + "_sum", kRows, sum, name);
  };
  if (e.positions > 0) also("position", "position_table", "positions");
  if (e.token_types > 0) also("type", "type_table", "types");
  if (e.norm) sum = w.norm("normed", sum, kRows, NormKind::layer_norm);
  w.finish();
}

void write_norm(Network& network, const Layer& layer, const NormShape& n) {
  Writer w(network, layer.name, 1);
  w.tensor(fmt::format("x[{}]", kRows));
  w.norm("normed", "x", kRows, n.kind);
  w.finish();
}

void write_head(Network& network, const Layer& layer, const HeadShape& head) {
  if (head.vocabulary == 0 || head.pooled || head.places > 0 || head.dense != HeadDense::none)
    has_no_words(layer.name, "a head that is not a projection of every token");
  Writer w(network, layer.name, 1);
  w.tensor(fmt::format("x[{}]", kRows));
  // A tied one is the embedding's, by its name.
  const std::string projection = head.tied ? w.weight(kTable, "vocab, hidden", "tied")
                                           : w.weight("projection", "vocab, hidden");
  // All tokens again, because the vocabulary may be divided.
  w.make("gathered", kTokens, "move(x)");
  std::string logits = w.make("logits", "batch, tokens, vocab", "gathered " + projection);
  logits = w.biased("biased", logits, "batch, tokens, vocab", "vocab", head.bias);
  w.make("losses", "batch, tokens", fmt::format("loss({}) over vocab", logits));
  w.finish();
}

// ---- a block ----

class Block {
 public:
  Block(Network& network, const Layer& layer, const TransformerShape& shape, std::int64_t repeat,
        bool experts_apart)
      : b_(shape), w_(network, layer.name, repeat), experts_apart_(experts_apart) {
    if (b_.latent.key_value > 0) has_no_words(layer.name, "latent attention");
    if (b_.cross_attention) has_no_words(layer.name, "cross attention");
    if (b_.relative_buckets > 0) has_no_words(layer.name, "a table of relative positions");
    if (b_.sinks) has_no_words(layer.name, "a learned score beside the keys'");
    if (b_.wide_qk_norm) has_no_words(layer.name, "norms of all heads together");
    if (b_.values_are_keys) has_no_words(layer.name, "values that are keys");
  }

  void write() {
    w_.tensor(fmt::format("x[{}]", kRows));
    if (b_.parallel) {
      write_parallel();
    } else if (b_.pre_norm) {
      write_pre_norm();
    } else {
      write_post_norm();
    }
    w_.finish();
  }

 private:
  void write_pre_norm() {
    const std::string n1 = w_.norm("normed", "x", kRows, b_.norm);
    const std::string a = answer("attention", home("attention", attention(tokens_of(n1))));
    const std::string y = w_.add("between", kRows, "x", a);
    const std::string n2 = w_.norm("mlp_normed", y, kRows, b_.norm);
    const std::string m = answer("mlp", mlp(n2));
    w_.add("y", kRows, y, m);
  }
  void write_post_norm() {
    const std::string a = home("attention", attention(tokens_of("x")));
    const std::string sum = w_.add("attention_sum", kRows, "x", a);
    const std::string n1 = w_.norm("normed", sum, kRows, b_.norm);
    const std::string m = mlp(n1);
    const std::string both = w_.add("mlp_sum", kRows, n1, m);
    w_.norm("y", both, kRows, b_.norm);
  }
  // Both read x, and their partial sums are added up before they are made whole.
  void write_parallel() {
    if (b_.experts > 1) has_no_words("a parallel block", "a mixture of experts");
    const std::string n1 = w_.norm("normed", "x", kRows, b_.norm);
    const std::string t1 = tokens_of(n1);
    const std::string t2 =
        b_.single_norm ? t1 : tokens_of(w_.norm("mlp_normed", "x", kRows, b_.norm));
    const std::string a = attention(t1), m = dense(t2);
    const std::string sum = w_.add("both", kTokens, a, m);
    std::string moved = w_.move("both_rows", kRows, sum);
    moved = w_.biased("attention_answer", moved, kRows, "hidden", b_.output_bias);
    moved = w_.biased("mlp_answer", moved, kRows, "hidden", b_.mlp_bias);
    w_.add("y", kRows, "x", moved);
  }

  // Behind its norm, where what attention and MLP give is normalised too.
  std::string answer(const std::string& of, const std::string& what) {
    return b_.post_norms ? w_.norm(of + "_post", what, kRows, b_.norm) : what;
  }
  std::string tokens_of(const std::string& rows) {
    return w_.move(rows + "_tokens", kTokens, rows);
  }
  // From a product's tokens to rows, and its bias.
  std::string home(const std::string& of, const std::string& product) {
    // The bias comes behind the move, once, and not to each partial sum.
    const std::string moved = w_.move(of + "_rows", kRows, product);
    const bool bias = of == "mlp" ? b_.mlp_bias : b_.output_bias;
    return w_.biased(of + "_answer", moved, kRows, "hidden", bias);
  }

  std::string head_norm(const std::string& name, const std::string& of,
                        const std::string& dimensions) {
    if (!b_.qk_norm) return of;
    const std::string gain = w_.weight(name + "_gain", "head_dim");
    return w_.make(name + "_normed", dimensions,
                   fmt::format("rms_norm({} {}) over head_dim", of, gain));
  }
  std::string turned(const std::string& of, const std::string& dimensions) {
    return b_.rotary ? w_.make(of + "_turned", dimensions, fmt::format("turn({}) over tokens", of))
                     : of;
  }
  std::string projected(const std::string& name, const std::string& from,
                        const std::string& dimensions, const std::string& widths) {
    const std::string weight = w_.weight(name + "_weight", "hidden, " + widths);
    const std::string product = w_.make(name + (b_.qkv_bias ? "_product" : ""), dimensions,
                                        fmt::format("{} {}", from, weight));
    return w_.biased(name, product, dimensions, widths, b_.qkv_bias);
  }
  // The last product's partial sum.
  std::string attention(const std::string& from) {
    const std::string queries = "heads, group, head_dim", one = "heads, head_dim";
    const std::string q_dims = "batch, tokens, " + queries, k_dims = "batch, tokens, " + one;
    const std::string seen = "batch, keys, " + one;
    std::string q = projected("query", from, q_dims, queries);
    std::string k = projected("key", from, k_dims, one);
    const std::string v = projected("value", from, k_dims, one);
    q = turned(head_norm("query", q, q_dims), q_dims);
    k = turned(head_norm("key", k, k_dims), k_dims);
    // By another name, because scores have tokens twice: the queries' and the keys'.
    const std::string keys = w_.move("keys_seen", seen, k);
    const std::string values = w_.move("values_seen", seen, v);
    if (b_.attention == AttentionKind::fused) {
      w_.make("context", q_dims, fmt::format("attention({} {} {}) over keys", q, keys, values));
    } else {
      const std::string scores = "batch, heads, group, tokens, keys";
      w_.make("scores", scores, fmt::format("{} {}", q, keys));
      w_.make("probabilities", scores, "softmax(scores) over keys");
      w_.make("context", q_dims, fmt::format("probabilities {}", values));
    }
    w_.weight("output_weight", queries + ", hidden");
    return w_.make("attention_sum_part", kTokens, "context output_weight");
  }

  // Up, activation and down, over tokens or visits; the last product's partial sum. `experts` is
  // put before the dimensions of weights.
  std::string pass(const std::string& name, const std::string& from, const std::string& experts,
                   const std::string& places, const std::string& width, bool bias) {
    const std::string up_width = b_.gated ? "gates, " + width : width;
    const std::string up_dims = places + ", " + up_width;
    w_.weight(name + "_up_weight", experts + "hidden, " + up_width);
    std::string up = w_.make(name + "_up" + (bias ? "_product" : ""), up_dims,
                             fmt::format("{} {}_up_weight", from, name));
    up = w_.biased(name + "_up", up, up_dims, experts + up_width, bias);
    const std::string by = b_.gated ? fmt::format("glu({}) over gates", up)
                                    : fmt::format("{}({})", function_of(b_.activation), up);
    const std::string active = w_.make(name + "_activated", places + ", " + width, by);
    w_.weight(name + "_down_weight", experts + width + ", hidden");
    return w_.make(name + "_down", places + ", hidden",
                   fmt::format("{} {}_down_weight", active, name));
  }
  std::string dense(const std::string& from) {
    return pass("mlp", from, "", "batch, tokens", "ffn", b_.mlp_bias);
  }
  std::string mlp(const std::string& rows) {
    if (b_.experts == 1) return home("mlp", dense(tokens_of(rows)));
    // Experts that stand apart take rows as they lie; all tokens are for the shared ones.
    const std::string tokens = experts_apart_ && b_.shared_ffn == 0 ? "" : tokens_of(rows);
    std::string sum =
        experts_apart_ ? experts(rows, "batch, rows") : experts(tokens, "batch, tokens");
    if (b_.shared_ffn > 0) {
      const std::string shared = shared_experts(tokens);
      if (!experts_apart_) {
        sum = w_.add("all_experts", kTokens, sum, shared);
        return w_.move("mlp_rows", kRows, sum);
      }
      const std::string moved = w_.move("shared_rows", kRows, shared);
      return w_.add("all_experts", kRows, sum, moved);
    }
    return experts_apart_ ? sum : w_.move("mlp_rows", kRows, sum);
  }
  // The router's shares, the visits, and their answers weighed.
  std::string experts(const std::string& from, const std::string& tokens) {
    w_.weight("router", "hidden, choices");
    std::string choices = w_.make("router_product", tokens + ", choices", from + " router");
    choices = w_.biased("router_sum", choices, tokens + ", choices", "choices", b_.router_bias);
    w_.make("router_shares", tokens + ", choices",
            fmt::format("softmax({}) over choices", choices));
    w_.make("shares", tokens + ", visit", "choose(router_shares) over choices");
    // To the experts' devices, gathered among those that divide an expert, and home again.
    w_.make("visits", "experts, slots, hidden", fmt::format("route({})", from));
    w_.make("gathered", "experts, places, hidden", "move(visits)");
    std::string down =
        pass("expert", "gathered", "experts, ", "experts, places", "ffn", b_.mlp_bias);
    down = w_.move("expert_sum", "experts, slots, hidden", down);
    down =
        w_.biased("expert_answer", down, "experts, slots, hidden", "experts, hidden", b_.mlp_bias);
    w_.make("answers", tokens + ", visit, hidden", fmt::format("back({})", down));
    return w_.make("weighed", tokens + ", hidden", "weigh(shares answers)");
  }
  std::string shared_experts(const std::string& tokens) {
    std::string down = pass("shared", tokens, "", "batch, tokens", "shared_ffn", false);
    if (!b_.shared_gate) return down;
    w_.weight("shared_gate", "hidden, one");
    w_.make("shared_open", "batch, tokens, one", fmt::format("{} shared_gate", tokens));
    return w_.make("shared_weighed", kTokens, fmt::format("weigh(shared_open {})", down));
  }

  const TransformerShape& b_;
  Writer w_;
  bool experts_apart_;
};

// ---- dimensions ----

// Of one size for all layers that have it, in the order of the list.
class Sizes {
 public:
  explicit Sizes(Network& network) : network_(network) {}
  void set(const char* name, const char* symbol, std::int64_t size, const std::string& layer) {
    // A name has one size in the whole network.
    for (const Dimension& known : network_.dimensions) {
      if (known.name != name) continue;
      if (known.size != size)
        has_no_words(layer, fmt::format("a {} of {} beside one of {}", name, size, known.size));
      return;
    }
    network_.dimensions.push_back({name, symbol, size});
  }

 private:
  Network& network_;
};

std::int64_t padded(std::int64_t size, std::int64_t to) { return (size + to - 1) / to * to; }

void set_block_sizes(Sizes& sizes, const Layer& layer, const TransformerShape& b,
                     const NetworkOf& of) {
  const auto set = [&](const char* name, const char* symbol, std::int64_t size) {
    sizes.set(name, symbol, size, layer.name);
  };
  set("hidden", "h", b.hidden);
  if (b.heads % b.kv_heads != 0) has_no_words(layer.name, "heads that share keys unevenly");
  set("keys", "k", of.seq_length);
  set("heads", "a", b.kv_heads);
  set("group", "g", b.heads / b.kv_heads);
  set("head_dim", "c", b.head_dim);
  if (b.gated) set("gates", "two", 2);
  set("ffn", "f", b.ffn);
  if (b.experts == 1) return;
  set("experts", "E", b.experts);
  set("choices", "Er", b.experts);
  set("visit", "v", b.experts_per_token);
  // Places of an expert at even routing; where they do not divide they are rounded up.
  const std::int64_t visits = of.batch * of.seq_length * b.experts_per_token;
  if (visits % b.experts != 0)
    has_no_words(layer.name, fmt::format("{} visits among {} experts", visits, b.experts));
  set("slots", "sl", visits / b.experts);
  set("places", "pl", visits / b.experts);
  if (b.shared_ffn > 0) set("shared_ffn", "fs", b.shared_ffn);
  if (b.shared_gate) set("one", "one", 1);
}

// As wide as the model.
void set_shards(Sizes& sizes, const Model& model) {
  for (const Layer& layer : model.layers) {
    if (const auto* e = std::get_if<EmbeddingShape>(&layer.shape))
      sizes.set("shard", "z", e->hidden, layer.name);
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block != nullptr && block->experts > 1)
      has_no_words(layer.name, "a shard of an expert's weights");
    if (block != nullptr) sizes.set("shard", "z", block->hidden, layer.name);
  }
}

void set_sizes(Network& network, const Model& model, const NetworkOf& of) {
  Sizes sizes(network);
  sizes.set("batch", "b", of.batch, "");
  sizes.set("rows", "r", of.seq_length, "");
  sizes.set("tokens", "s", of.seq_length, "");
  if (of.shards) set_shards(sizes, model);
  for (const Layer& layer : model.layers) {
    if (const auto* e = std::get_if<EmbeddingShape>(&layer.shape)) {
      sizes.set("hidden", "h", e->hidden, layer.name);
      if (e->vocabulary > 0)
        sizes.set("vocab", "V", padded(e->vocabulary, of.vocabulary_of), layer.name);
      if (e->positions > 0) sizes.set("positions", "P", e->positions, layer.name);
      if (e->token_types > 0) sizes.set("types", "T", e->token_types, layer.name);
    } else if (const auto* block = std::get_if<TransformerShape>(&layer.shape)) {
      set_block_sizes(sizes, layer, *block, of);
    } else if (const auto* head = std::get_if<HeadShape>(&layer.shape)) {
      if (head->vocabulary > 0)
        sizes.set("vocab", "V", padded(head->vocabulary, of.vocabulary_of), layer.name);
    }
  }
}

std::string block_key(const Layer& layer) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  return block == nullptr ? "" : kinds::work_key(*block);
}

}  // namespace

std::int64_t padded_to(Dtype dtype, std::int64_t processors) {
  constexpr std::int64_t kRowsOf16Bits = 8;
  return bytes_per_element(dtype) == 2 ? kRowsOf16Bits * processors : processors;
}

Network model_network(const Model& model, const NetworkOf& of) {
  Network network;
  network.name = model.name;
  if (!model.skips.empty() || !model.stashes.empty())
    has_no_words(model.name, "a skip between layers");
  set_sizes(network, model, of);
  for (std::size_t l = 0; l < model.layers.size();) {
    const Layer& layer = model.layers[l];
    // Blocks that compute alike are one layer, repeated.
    std::size_t alike = 1;
    const std::string key = block_key(layer);
    while (!key.empty() && l + alike < model.layers.size() &&
           block_key(model.layers[l + alike]) == key)
      ++alike;
    if (const auto* e = std::get_if<EmbeddingShape>(&layer.shape)) {
      write_embedding(network, layer, *e);
    } else if (const auto* block = std::get_if<TransformerShape>(&layer.shape)) {
      Block(network, layer, *block, static_cast<std::int64_t>(alike), of.experts_apart).write();
    } else if (const auto* norm = std::get_if<NormShape>(&layer.shape)) {
      write_norm(network, layer, *norm);
    } else if (const auto* head = std::get_if<HeadShape>(&layer.shape)) {
      write_head(network, layer, *head);
    } else {
      has_no_words(layer.name, "a layer known by its times, sizes or convolutions");
    }
    l += alike;
  }
  if (all_elements(network) > kMostNumbers)
    throw std::invalid_argument("all tensors together have more than 2^53 numbers");
  return network;
}

}  // namespace weir::layout
