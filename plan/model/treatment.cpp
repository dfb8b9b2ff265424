// Adapters' words, and what one device has of them.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/treatment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weir {

namespace {

constexpr Names<Fp8Recipe, 5> kFp8Recipes{{{Fp8Recipe::none, "none"},
                                           {Fp8Recipe::delayed, "delayed"},
                                           {Fp8Recipe::tensorwise, "tensorwise"},
                                           {Fp8Recipe::blockwise, "blockwise"},
                                           {Fp8Recipe::mxfp8, "mxfp8"}}};

}  // namespace

std::string_view to_string(Fp8Recipe recipe) { return name_of(kFp8Recipes, recipe); }

std::optional<Fp8Recipe> parse_fp8_recipe(std::string_view text) {
  return named(kFp8Recipes, text);
}

std::string to_string(const ProductSet& products) {
  std::string text;
  for (const auto& [product, name] : kBlockProducts) {
    if (!products.has(product)) continue;
    if (!text.empty()) text += '+';
    text += name;
  }
  return text;
}

std::optional<ProductSet> parse_products(std::string_view text) {
  ProductSet products;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t plus = std::min(text.find('+', from), text.size());
    const auto product = named(kBlockProducts, text.substr(from, plus - from));
    if (!product) return std::nullopt;
    products.add(*product);
    from = plus + 1;
  }
  return products;
}

ProductSet all_products() {
  ProductSet all;
  for (const BlockProduct product : {BlockProduct::linear_qkv, BlockProduct::linear_proj,
                                     BlockProduct::linear_fc1, BlockProduct::linear_fc2})
    all.add(product);
  return all;
}

std::string treatment_key(const Treatment& treatment) {
  std::string key;
  if (treatment.frozen) key += " frozen";
  if (!treatment.backward) key += " forward";
  if (treatment.adapters.rank > 0) {
    key +=
        fmt::format(" lora={}:{}{}", treatment.adapters.rank, to_string(treatment.adapters.targets),
                    treatment.adapters.dropout > 0 ? ":dropout" : "");
  }
  if (treatment.fp8 != Fp8Recipe::none) key += fmt::format(" fp8={}", to_string(treatment.fp8));
  return key;
}

namespace {

class AdapterList {
 public:
  explicit AdapterList(const Adapters& adapters) : adapters_(adapters) {}

  // Beside a product that makes `out` of its numbers here, and reads all of `in`.
  void output_divided(BlockProduct beside, std::string name, std::int64_t in, std::int64_t out) {
    if (!adapters_.targets.has(beside)) return;
    // A makes its part of the r numbers, and B reads all of them, gathered.
    add({beside, std::move(name), "normed", in, adapters_.rank / tp_, adapters_.rank, out,
         out * tp_, false});
  }
  // Beside one that reads `in` of its numbers here.
  void input_divided(BlockProduct beside, std::string name, std::int64_t in, std::int64_t out) {
    if (!adapters_.targets.has(beside)) return;
    // A's r numbers are partial sums here, and B makes its part of the output.
    add({beside, std::move(name), "activated", in, adapters_.rank, adapters_.rank, out / tp_, out,
         true});
  }
  // What comes next is of this part of the block, ...
  void of(std::string module, int tp) {
    module_ = std::move(module);
    tp_ = tp;
    expert_ = false;
    tokens_ = AdapterTokens::all;
  }
  // ... or of experts, which so many devices divide.
  void of_experts(int tp, bool apart) {
    of("mlp.experts", tp);
    expert_ = apart;
    tokens_ = AdapterTokens::visits;
  }
  std::vector<AdapterPart> all;

 private:
  void add(AdapterPart part) {
    if (part.in == 0 || part.out == 0) return;  // no shared experts
    part.reads = fmt::format("{}.adapters.{}", module_, part.reads);
    part.expert = expert_;
    part.tokens = tokens_;
    part.name = fmt::format("{}.{}.adapter", module_, part.name);
    all.push_back(std::move(part));
  }
  const Adapters& adapters_;
  std::string module_;
  int tp_ = 1;
  bool expert_ = false;
  AdapterTokens tokens_ = AdapterTokens::all;
};

void add_mlp(AdapterList& list, const TransformerShape& b, std::int64_t ffn) {
  using P = BlockProduct;
  list.output_divided(P::linear_fc1, "up", b.hidden, (b.gated ? 2 : 1) * ffn);
  list.output_divided(P::linear_fc1_up, "up.rest", b.hidden, ffn);
  if (b.gated) list.output_divided(P::linear_fc1_gate, "up.gate", b.hidden, ffn);
  list.input_divided(P::linear_fc2, "down", ffn, b.hidden);
}

}  // namespace

std::vector<AdapterPart> adapters_of(const TransformerShape& b, const Adapters& adapters, int tp,
                                     int expert_tp) {
  if (adapters.rank == 0) return {};
  using P = BlockProduct;
  AdapterList list(adapters);
  list.of("attention", tp);
  const std::int64_t q = b.heads * b.head_dim, kv = b.kv_heads * b.head_dim;
  // Latent attention makes them by other products.
  if (b.latent.key_value == 0) {
    list.output_divided(P::linear_qkv, "qkv", b.hidden, q + (b.values_are_keys ? 1 : 2) * kv);
    list.output_divided(P::linear_q, "query", b.hidden, q);
    list.output_divided(P::linear_k, "key", b.hidden, kv);
    if (!b.values_are_keys) list.output_divided(P::linear_v, "value", b.hidden, kv);
  }
  list.input_divided(P::linear_proj, "output", b.heads * value_dim(b), b.hidden);
  list.of(b.experts > 1 ? "mlp.shared" : "mlp", tp);
  add_mlp(list, b, b.experts > 1 ? b.shared_ffn : b.ffn);
  if (b.experts == 1) return std::move(list.all);
  list.of_experts(expert_tp, experts_apart(b));
  add_mlp(list, b, b.ffn);
  return std::move(list.all);
}

}  // namespace weir
