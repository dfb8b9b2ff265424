// How ranks share GPUs: a device each where there are enough, otherwise, in one process, groups of
// its multiprocessors (sm_groups), and where a device cannot be divided, streams. The kernels of
// several processes are never on a device at once, so each has all of it in its turn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/cuda/driver/stream_handle.hpp"
#include "exec/cuda/sm/sm_groups.hpp"
#include "exec/cuda/sm/sm_split.hpp"

namespace weir {

// Where a rank computes, and where its streams come from.
struct Seat {
  RankPlace place;
  int devices = 1;          // that the process uses
  int multiprocessors = 0;  // this rank's share; the same for every rank of the run
  int device_multiprocessors = 0;
  int capability_major = 0;
  std::string
      label;  // "SM-partitioned: 2 groups of 64 of 132 multiprocessors"; the same for every rank
  // Shared among the ranks of a device, which end in no order; null: the whole device, or shared by
  // streams.
  std::shared_ptr<const SmGroups> groups;

  // A stream of this rank's multiprocessors that does not wait for the default stream.
  // Communication goes before compute where both could run: what it brings or takes away, somebody
  // else waits for.
  enum class Use { compute, communication };
  [[nodiscard]] StreamHandle make_stream_handle(Use use) const;
};

enum class RanksAre : std::uint8_t { threads, processes };

class DeviceSharing {
 public:
  // Sets CUDA_DEVICE_MAX_CONNECTIONS where it is not set: make one before the first CUDA call, and
  // before other threads.
  DeviceSharing();

  // The place of `rank` among `ranks` ranks of this process, or of this host's processes. Any
  // thread may ask; all ranks of a run must ask for the same number of ranks. Throws RunFailed
  // where a CUDA call fails, and needs a device (cuda_facts).
  [[nodiscard]] Seat seat(int rank, int ranks, RanksAre are = RanksAre::threads);

 private:
  void divide(int groups, int devices);

  std::mutex mutex_;
  int divided_into_ = 0, devices_ = 0;
  std::vector<std::shared_ptr<const SmGroups>>
      groups_;       // by device; kept for the next run with as many ranks
  std::string why_;  // not divided
};

// The label of a run: what its times are times of. `split`: none where the devices are not divided,
// and then `why`.
[[nodiscard]] std::string sharing_label(int ranks, int devices, const std::optional<SmSplit>& split,
                                        const std::string& why);

}  // namespace weir
