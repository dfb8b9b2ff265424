// What modules cost that selective re-materialisation makes again, beside the attention core.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/model.hpp"

namespace weir {

// Of a block's products in F, the share that the modules' are: of the MLP 2 h (2 or 3) f k a token
// with k experts visited and those shared (or of those alone), of latent attention's up projections
// 2 l n d for each of queries, keys and values, with l numbers a latent and n heads of d. 0 of
// other layers.
[[nodiscard]] double rebuilt_share(const Layer& layer, std::int64_t seq_length, ModuleSet modules);

// Numbers that the modules' element-wise kernels read and write for one micro-batch on one device:
// 2 h a token for each norm that is a kernel of its own (of latent attention, and before experts),
// and what the experts' first product gives and their second one reads of every visit, shared
// experts aside.
[[nodiscard]] double rebuilt_numbers(const Layer& layer, const Plan& plan);

// The time of both in one block's backward: `forward` by the share, and the numbers in the plan's
// format at the memory's rate.
[[nodiscard]] Seconds rebuilt_time(const Layer& layer, const Plan& plan, Seconds forward,
                                   const Cluster& cluster);

}  // namespace weir
