// Reduce-scatters and all-gathers as messages between all devices of a group.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/group.hpp"

#include <vector>

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/training/replica_share.hpp"

namespace weir::cuda {
namespace {

// Of as many numbers as devices can have equal runs of, these; else slices of whole cache lines.
Slice slice_of_group(std::int64_t count, int place, int places) {
  const std::int64_t each = count / places;
  if (each * places == count) return {place * each, each};
  return replica_slice(count, place, places);
}

template <class E>
Tensor tensor_of(const E* values, const Slice& slice) {
  auto* first = const_cast<E*>(values + slice.first);  // a message's sender is not written to
  return {reinterpret_cast<std::byte*>(first), slice.count * std::int64_t{sizeof(E)}};
}

}  // namespace

std::int64_t Group::room_bytes(std::int64_t count, std::int64_t element_bytes) const {
  return (places - 1) * aligned_bytes(slice_of_group(count, 0, places).count * element_bytes);
}

template <class E>
void Group::combine_slice(Together how, E* values, std::int64_t count, E* to) const {
  const Slice own = slice_of_group(count, place, places);
  const std::int64_t stride =
      aligned_bytes(slice_of_group(count, 0, places).count * std::int64_t{sizeof(E)}) /
      std::int64_t{sizeof(E)};
  auto* const others = static_cast<E*>(room);
  std::vector<TensorLinks::Part> sends, receives;
  std::int64_t before = 0;  // numbers in the room
  for (int other = 0; other < places; ++other) {
    if (other == place) continue;
    const Slice theirs = slice_of_group(count, other, places);
    if (theirs.count > 0) sends.push_back({other, tensor_of(values, theirs)});
    if (own.count > 0) receives.push_back({other, tensor_of(others + before, {0, own.count})});
    before += stride;
  }
  links->exchange(sends, receives);
  combine<E>(how, {values + own.first, others, own.count, to}, {places, place, stride}, stream);
}

template <class E>
void Group::gather_slices(const E* own, E* values, std::int64_t count) const {
  const Slice mine = slice_of_group(count, place, places);
  std::vector<TensorLinks::Part> sends, receives;
  for (int other = 0; other < places; ++other) {
    if (other == place) continue;
    const Slice theirs = slice_of_group(count, other, places);
    if (mine.count > 0) sends.push_back({other, tensor_of(own, {0, mine.count})});
    if (theirs.count > 0) receives.push_back({other, tensor_of(values, theirs)});
  }
  links->exchange(sends, receives);
}

template <class E>
void Group::sum(E* values, std::int64_t count) const {
  E* const own = values + slice_of_group(count, place, places).first;
  combine_slice(Together::sum, values, count, own);
  gather_slices<E>(own, values, count);
}
template void Group::sum(float*, std::int64_t) const;
template void Group::sum(Bf16*, std::int64_t) const;

void Group::largest(float* values, std::int64_t count) const {
  float* const own = values + slice_of_group(count, place, places).first;
  combine_slice(Together::largest, values, count, own);
  gather_slices<float>(own, values, count);
}

template <class E>
void Group::sum_parts(E* values, std::int64_t count, E* own) const {
  if (divides_rows) return combine_slice(Together::sum, values, count, own);
  if (divided()) sum(values, count);
}
template void Group::sum_parts(float*, std::int64_t, float*) const;
template void Group::sum_parts(Bf16*, std::int64_t, Bf16*) const;

template <class E>
const E* Group::all_rows(const E* own, std::int64_t count, E* to) const {
  if (!divides_rows) return own;
  const Slice mine = slice_of_group(count, place, places);
  CUDA_CHECK(cudaMemcpyAsync(to + mine.first, own, static_cast<std::size_t>(mine.count) * sizeof(E),
                             cudaMemcpyDeviceToDevice, stream));
  gather_slices(own, to, count);
  return to;
}
template const float* Group::all_rows(const float*, std::int64_t, float*) const;
template const Bf16* Group::all_rows(const Bf16*, std::int64_t, Bf16*) const;

}  // namespace weir::cuda
