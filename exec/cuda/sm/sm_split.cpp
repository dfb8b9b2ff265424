// The arithmetic of equal groups.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/sm/sm_split.hpp"

#include <cassert>

namespace weir {

SmGranularity sm_granularity(int major) {
  if (major >= 9) return {8, 8};
  if (major == 8) return {4, 2};
  return {2, 2};
}

std::optional<SmSplit> equal_split(int multiprocessors, int groups, SmGranularity granularity) {
  assert(groups > 0 && granularity.least > 0 && granularity.multiple > 0 &&
         "a split has groups of something");
  const int share = multiprocessors / groups;
  const int size = share - share % granularity.multiple;
  if (size < granularity.least) return std::nullopt;
  return SmSplit{groups, size, multiprocessors};
}

RankPlace place_rank(int rank, int ranks, int devices) {
  assert(0 <= rank && rank < ranks && devices > 0 &&
         "a rank of the process, on a device that is there");
  return {rank % devices, rank / devices, (ranks + devices - 1) / devices};
}

}  // namespace weir
