// Tensor-parallel devices as processes: a reduce-scatter and an all-gather are messages between all
// of them, an all-reduce is both, so each sends 2 (T - 1) / T of the values, as a ring does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "exec/device/tensor_group.hpp"
#include "exec/processes/processes.hpp"

namespace weir {

class ProcessTensorGroup : public TensorGroup {
 public:
  // `members`: the processes of the group by place, this one among them. `processes` outlives it.
  ProcessTensorGroup(std::vector<int> members, Processes& processes);

  [[nodiscard]] int place() const override { return place_; }
  [[nodiscard]] int count() const override { return static_cast<int>(members_.size()); }
  void sum(std::span<float> values) override;
  void maximum(std::span<float> values) override;
  void sum_own(std::span<const float> values, std::span<float> own) override;
  void gather(std::span<const float> own, std::span<float> values) override;

 private:
  template <class Combine>
  void all_reduce(std::span<float> values, Combine combine);
  // Of what is staged: this device's slice becomes what all have of it, combined; and every slice
  // what its device has there.
  template <class Combine>
  void combine_own_slice(Combine combine);
  void exchange_slices();
  [[nodiscard]] std::span<float> slice(int place);
  void send(int place, std::span<const float> values);
  void receive(int place, std::span<float> values);
  void wait();  // for all that was started

  std::vector<int> members_;
  int place_ = 0;
  Processes& processes_;
  // Messages are of this memory, which stays when a failure has freed the caller's.
  std::vector<float> staged_, partials_;
  std::vector<Processes::Ticket> tickets_;
};

}  // namespace weir
