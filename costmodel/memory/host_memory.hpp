// What a plan keeps in the memory of its nodes' hosts: the optimizer's state that they update, and
// what blocks leave there from their forward to their backward (costmodel/links/offload).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "costmodel/memory/fits.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/model/model_part.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Of one node, for all devices of the plan that stand there.
struct HostHeld {
  Bytes optimizer{0};
  Bytes activations{0};  // each device's at its own worst moment
  Bytes memory{0};       // that the node has

  [[nodiscard]] Bytes held() const { return optimizer + activations; }
  // Pinned memory comes in powers of two, of which each buffer takes the next one, so all of them
  // less than twice what they hold (pytorch, aten/src/ATen/core/CachingHostAllocator.h: allocate
  // rounds by PowerOf2Ceil). What the system and the loaders of data take is not counted.
  [[nodiscard]] MemoryBand band() const { return {held(), held() * 2}; }
  [[nodiscard]] Fits fits() const { return weir::fits(band(), memory); }
};

// The host of which the largest share is taken, the first of equal ones; none: nothing is kept with
// hosts. Activations are of the blocks as `part` keeps them, and of as many micro-batches as the
// order of a rank's actions leaves between their forward and their backward. Precondition: the
// cluster has hosts where the plan keeps anything there (lacks_host).
[[nodiscard]] std::optional<HostHeld> fullest_host(const ResolvedPlan& loaded,
                                                   const ModelPart& part, const Cluster& cluster);

}  // namespace weir
