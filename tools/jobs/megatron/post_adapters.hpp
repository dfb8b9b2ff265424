// Adapters of low rank as tools that train ready models by Megatron say them: ms-swift's, verl's
// and Primus's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "plan/model/treatment.hpp"

namespace weir {

using PostTrainerValues = std::map<std::string, std::string, std::less<>>;

// ms-swift's --tuner-type (or --train-type) lora with what goes with it, which is taken out of the
// values; nullopt: all weights are trained. Throws InputError for another kind, and for products
// that are not those of a block.
[[nodiscard]] std::optional<Adapters> take_swift_adapters(PostTrainerValues& values,
                                                          const std::string& file);

// verl's actor_rollout_ref.model.lora; `text` gives a path's value, or the second where there is
// none.
using PathText = std::function<std::string(const std::string&, const std::string&)>;
[[nodiscard]] std::optional<Adapters> verl_adapters(const PathText& text, const std::string& file);

// Primus's section lora, by the names in it (AMD-AGI/Primus@fd1eeabb, primus/configs/modules/
// megatron/sft_trainer.yaml); nullopt where it is not enabled.
[[nodiscard]] std::optional<Adapters> primus_adapters(const PostTrainerValues& section,
                                                      const std::string& file);

}  // namespace weir
