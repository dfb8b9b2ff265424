// What a plan makes of a layer beside dividing it: which of its numbers are trained, and in which
// format its products run. Frozen weights get no gradients and no optimizer state; adapters of low
// rank (LoRA: Hu et al., ICLR 2022, section 4.1) stand beside products whose weights are frozen,
// y = x W' + (alpha / r) (x A') B', and are trained in their place. What stands before the first
// thing that is trained has no backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/model/layer_shape.hpp"
#include "plan/words/names.hpp"

namespace weir {

// Products of a block, by the names that Megatron has for them; those that make queries, keys and
// values, or gate and rest, may have an adapter together or each its own.
enum class BlockProduct : std::uint8_t {
  linear_qkv,
  linear_q,
  linear_k,
  linear_v,
  linear_proj,
  linear_fc1,
  linear_fc1_up,
  linear_fc1_gate,
  linear_fc2,
};
inline constexpr Names<BlockProduct, 9> kBlockProducts{
    {{BlockProduct::linear_qkv, "linear_qkv"},
     {BlockProduct::linear_q, "linear_q"},
     {BlockProduct::linear_k, "linear_k"},
     {BlockProduct::linear_v, "linear_v"},
     {BlockProduct::linear_proj, "linear_proj"},
     {BlockProduct::linear_fc1, "linear_fc1"},
     {BlockProduct::linear_fc1_up, "linear_fc1_up"},
     {BlockProduct::linear_fc1_gate, "linear_fc1_gate"},
     {BlockProduct::linear_fc2, "linear_fc2"}}};

class ProductSet {
 public:
  constexpr ProductSet() = default;
  constexpr void add(BlockProduct product) {
    bits_ = static_cast<std::uint16_t>(bits_ | bit(product));
  }
  [[nodiscard]] constexpr bool has(BlockProduct product) const {
    return (bits_ & bit(product)) != 0;
  }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  bool operator==(const ProductSet&) const = default;

 private:
  static constexpr unsigned bit(BlockProduct product) {
    return 1U << static_cast<unsigned>(product);
  }
  std::uint16_t bits_ = 0;
};
// "linear_qkv+linear_proj", in the table's order.
[[nodiscard]] std::string to_string(const ProductSet& products);
// Its inverse, in any order; nullopt for another word, or none.
[[nodiscard]] std::optional<ProductSet> parse_products(std::string_view text);
// Of every block's four: what LoRA stands beside where nothing is said (Megatron-Bridge's default).
[[nodiscard]] ProductSet all_products();

struct Adapters {
  std::int64_t rank = 0;  // r; 0: none
  ProductSet targets;
  double dropout = 0;  // of what goes into A
  bool operator==(const Adapters&) const = default;
};

// How scales of products in 8 bits are found (Transformer Engine, common/recipe; Megatron's
// --fp8-recipe): of a tensor from the steps before, of the tensor itself, of its blocks of 128, or
// of 32 numbers in a row, which the device's matrix units take with them (MXFP8). none: products
// are in the number format, or as the stack has them.
enum class Fp8Recipe : std::uint8_t { none, delayed, tensorwise, blockwise, mxfp8 };
[[nodiscard]] std::string_view to_string(Fp8Recipe recipe);
[[nodiscard]] std::optional<Fp8Recipe> parse_fp8_recipe(std::string_view text);

struct Treatment {
  bool frozen = false;              // its own weights stay as they are
  bool backward = true;             // it or something before it is trained
  Fp8Recipe fp8 = Fp8Recipe::none;  // of a block's products
  Adapters adapters;                // with frozen; of a block
  bool operator==(const Treatment&) const = default;
  [[nodiscard]] bool trains() const { return !frozen || adapters.rank > 0; }
};
// In a layer's key of costs; empty where all is trained in the number format.
[[nodiscard]] std::string treatment_key(const Treatment& treatment);

// Which tokens an adapter sees.
enum class AdapterTokens : std::uint8_t { all, visits };

// One device's part of an adapter, which tensor parallelism divides as it divides the product
// beside it (Megatron-Bridge, peft/utils.py, ParallelLinearAdapter): beside a product whose output
// is divided A's outputs are, and gathered; beside one whose input is divided A's inputs are, and
// its answers summed; B's outputs always are, in the second case to be gathered.
struct AdapterPart {
  BlockProduct beside = BlockProduct::linear_qkv;
  std::string name;            // "attention.qkv.adapter"
  std::string reads;           // "attention.normed": adapters beside each other read the same
  std::int64_t in = 0;         // numbers of a token that A reads on this device
  std::int64_t made = 0;       // that it makes of them here
  std::int64_t rank = 0;       // that B reads
  std::int64_t out = 0;        // that B makes here
  std::int64_t whole_out = 0;  // and all devices together
  bool input_divided = false;
  AdapterTokens tokens = AdapterTokens::all;
  bool expert = false;  // of a device's experts together, which other devices do not hold
  [[nodiscard]] std::int64_t parameters() const { return made * in + out * rank; }
};

// Those of a block, `part` on one of `tp` devices (and `expert_tp` that divide each expert).
[[nodiscard]] std::vector<AdapterPart> adapters_of(const TransformerShape& part,
                                                   const Adapters& adapters, int tp, int expert_tp);

}  // namespace weir
