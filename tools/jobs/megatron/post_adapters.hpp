// What tools that train ready models by Megatron train of them: adapters of low rank, as ms-swift,
// verl and Primus say them, or all but frozen layers, as ms-swift says these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/model/model.hpp"
#include "plan/model/treatment.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir {

using PostTrainerValues = std::map<std::string, std::string, std::less<>>;

// ms-swift's --tuner-type (or --train-type) lora with what goes with it, which is taken out of the
// values; nullopt: all weights are trained. Throws InputError for another kind, and for products
// that are not those of a block.
[[nodiscard]] std::optional<Adapters> take_swift_adapters(PostTrainerValues& values,
                                                          const std::string& file);

// The layers that its --freeze_parameters, --freeze_parameters_ratio and --trainable_parameters
// leave as they are, ascending; all such words are taken out of the values. Throws InputError where
// that is no whole number of layers, or no language model's training. `adapters`: the job trains
// these, where those words have no effect.
[[nodiscard]] std::vector<LayerRange> take_swift_frozen(PostTrainerValues& values,
                                                        const Model& model, bool adapters,
                                                        const std::string& file,
                                                        std::vector<Remark>& remarks);

// verl's actor_rollout_ref.model.lora; `text` gives a path's value, or the second where there is
// none.
using PathText = std::function<std::string(const std::string&, const std::string&)>;
[[nodiscard]] std::optional<Adapters> verl_adapters(const PathText& text, const std::string& file);

// Primus's section lora, by the names in it (AMD-AGI/Primus@fd1eeabb, primus/configs/modules/
// megatron/sft_trainer.yaml); nullopt where it is not enabled.
[[nodiscard]] std::optional<Adapters> primus_adapters(const PostTrainerValues& section,
                                                      const std::string& file);

}  // namespace weir
