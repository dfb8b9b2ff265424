// Counts of bytes by recipe.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/fp8_casts.hpp"

#include <variant>

namespace weir {
namespace {

// One scale for the whole tensor, from steps before or from the tensor itself.
bool one_scale(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::delayed || recipe == Fp8Recipe::tensorwise;
}

// A copy's byte and its share of a scale: 1 byte for 32 numbers, or 4 for 128.
double copy_bytes(Fp8Recipe recipe) { return one_scale(recipe) ? 1 : 1 + 1.0 / 32; }

constexpr double kRead = 2;  // of the 16 bits

}  // namespace

Fp8Recipe products_recipe(const Layer& layer, const Stack& stack, const Device& device) {
  if (!std::holds_alternative<TransformerShape>(layer.shape)) return Fp8Recipe::none;
  if (layer.treated.fp8 != Fp8Recipe::none) return layer.treated.fp8;
  // Its products run in 16 bits there (costmodel/layers/kernel_rates), so nothing is cast.
  if (device.peak_fp8.count() == 0) return Fp8Recipe::none;
  return stack.fp8 ? Fp8Recipe::delayed : Fp8Recipe::none;
}

Fp8Casts fp8_casts(Fp8Recipe recipe, const Device& device) {
  return {recipe, one_scale(recipe) && device.fp8_any_layout ? 1 : 2};
}

double cast_bytes(const Fp8Casts& casts, CastOf from, int copies) {
  const bool norm = from == CastOf::norm;
  switch (casts.recipe) {
    case Fp8Recipe::none:
      return 0;
    case Fp8Recipe::delayed:
      // Of one copy the norm saves a byte, which is left uncounted: it is no kernel.
      if (norm) return copies > 1 ? 1 : 0;
      return kRead + copies;
    case Fp8Recipe::tensorwise:
      // The largest number is looked for first, by a norm on its way.
      return (norm ? 0 : kRead) + kRead + copies;
    case Fp8Recipe::blockwise:
    case Fp8Recipe::mxfp8:
      break;
  }
  return kRead + copies * copy_bytes(casts.recipe);
}

bool columns_of_gathered_rows(const Fp8Casts& casts) {
  return one_scale(casts.recipe) && casts.copies > 1;
}

double turn_bytes(const Fp8Casts& casts) {
  return columns_of_gathered_rows(casts) || casts.recipe == Fp8Recipe::blockwise ? 2 : 0;
}

double weight_cast_bytes(const Fp8Casts& casts, bool kept_in_8_bits) {
  if (casts.recipe == Fp8Recipe::none) return 0;
  if (!kept_in_8_bits || casts.recipe == Fp8Recipe::mxfp8)
    return cast_bytes(casts, CastOf::other, casts.copies);
  return casts.copies > 1 ? 2 * copy_bytes(casts.recipe) : 0;
}

}  // namespace weir
