// Which parts of a block Megatron leaves with the host (--offload-modules), as shares of what a
// plan counts: all that blocks keep from their forward to their backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "plan/job/recompute.hpp"
#include "plan/model/model.hpp"

namespace weir {

[[nodiscard]] bool is_offload_module(std::string_view word);

// Of what all blocks of a model keep beside a re-materialisation the share of the modules' inputs,
// from 0 to 1; 0 of words that are no modules, and of a model without blocks. Blocks that are
// rebuilt as a whole count as if none were: Megatron offloads nothing of theirs.
[[nodiscard]] double offloaded_share(const std::set<std::string, std::less<>>& modules,
                                     const Model& model, const Recompute& recompute);

// The largest share that Megatron's modules hold, and those that keep something in some block, as
// --offload-modules takes them.
[[nodiscard]] double offloadable_share(const Model& model, const Recompute& recompute);
[[nodiscard]] std::string offload_modules(const Model& model, const Recompute& recompute);

}  // namespace weir
