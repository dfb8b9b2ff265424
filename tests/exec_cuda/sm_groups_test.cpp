// Groups of multiprocessors as the device gives them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/sm/sm_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "exec/cuda/driver/memory_pool.hpp"
#include "exec/cuda/sm/device_sharing.hpp"
#include "plan/words/error.hpp"
#include "tests/exec_cuda/device.hpp"
#include "tests/exec_cuda/running_on.hpp"

namespace weir::sm_groups_test {
namespace {

// Drivers that are made up: they split as a device would whose processing clusters hold 16
// multiprocessors, so that a group of more takes whole clusters; refuse configurations; or fail.
CUresult by_clusters(CUdevResource* parts, unsigned* groups, const CUdevResource* all,
                     CUdevResource*, unsigned, unsigned least) {
  const unsigned taken = least <= 16 ? least : (least + 15) / 16 * 16;
  *groups = std::min(*groups, all->sm.smCount / 16 * 16 / taken);
  for (unsigned i = 0; i < *groups; ++i) parts[i].sm.smCount = taken;
  return CUDA_SUCCESS;
}
CUresult only_eights(CUdevResource* parts, unsigned* groups, const CUdevResource* all,
                     CUdevResource* rest, unsigned flags, unsigned least) {
  if (least != 8) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  return by_clusters(parts, groups, all, rest, flags, least);
}
CUresult failing(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*, unsigned,
                 unsigned) {
  return CUDA_ERROR_INVALID_DEVICE;
}
CUresult words(CUresult, const char** text) {
  *text = "no such device";
  return CUDA_SUCCESS;
}

std::vector<CUdevResource> parts_of(PFN_cuDevSmResourceSplitByCount_v12040 split, int groups) {
  DriverApi api;
  api.split_by_count = split;
  api.get_error_string = words;
  CUdevResource all{};
  all.sm.smCount = 132;
  return equal_parts(api, all, groups, {8, 8});
}

// 132 in three is 44, and 40 of them take three clusters each, of which there are eight: two
// groups. 32 take two: three groups are there. Halves of 64 are there at once. Nine groups of 8 are
// there where only groups of 8 are taken.
TEST(EqualParts, SmallerGroupsWhereTheClustersGiveTooFew) {
  EXPECT_EQ(parts_of(by_clusters, 3).size(), 3U);
  EXPECT_EQ(parts_of(by_clusters, 3).front().sm.smCount, 32U);
  EXPECT_EQ(parts_of(by_clusters, 2).front().sm.smCount, 64U);
  EXPECT_EQ(parts_of(only_eights, 9).size(), 9U);
  EXPECT_TRUE(parts_of(by_clusters, 17).empty());
}

TEST(EqualParts, AnErrorIsTheDriversWords) {
  try {
    static_cast<void>(parts_of(failing, 2));
    FAIL() << "an error of the driver went unnoticed";
  } catch (const RunFailed& failed) {
    EXPECT_THAT(failed.what(),
                testing::HasSubstr("CUDA driver: no such device in cuDevSmResourceSplitByCount"));
  }
}

// Kernels of two groups that run at the same time are on different multiprocessors, and on no more
// than their group has; but on capability 9.x, once a library has loaded a module with dynamic
// parallelism, groups may use and share two more (cuda.h, green contexts).
TEST(CudaSmGroups, KernelsStayInTheirGroup) {
  WEIR_NEEDS_DEVICE();
  constexpr int kGroups = 2, kBlocks = 2048;
  const SmGroupsResult divided = divide_device(0, kGroups);
  if (!divided.groups) GTEST_SKIP() << divided.why;
  const SmSplit& split = divided.groups->split();
  EXPECT_EQ(split.groups, kGroups);
  EXPECT_GE(split.left(), 0);
  std::vector<StreamHandle> streams;
  const std::vector<std::uint32_t> zeros(kMostMultiprocessors, 0);
  DeviceArray<std::uint32_t> first(zeros), second(zeros);
  for (int group = 0; group < kGroups; ++group)
    streams.push_back(divided.groups->make_stream_handle(group, 0));
  note_multiprocessors(first.get(), kBlocks, streams[0].get());
  note_multiprocessors(second.get(), kBlocks, streams[1].get());
  for (const StreamHandle& stream : streams) CUDA_CHECK(cudaStreamSynchronize(stream.get()));
  const std::vector<std::uint32_t> a = first.host(), b = second.host();
  const int more = cuda_facts().device->major == 9 ? 2 : 0;
  int in_first = 0, in_second = 0, in_both = 0;
  std::uint32_t blocks = 0;
  for (std::size_t m = 0; m < a.size(); ++m) {
    in_both += a[m] > 0 && b[m] > 0 ? 1 : 0;
    in_first += a[m] > 0 ? 1 : 0;
    in_second += b[m] > 0 ? 1 : 0;
    blocks += a[m] + b[m];
  }
  EXPECT_EQ(blocks, 2U * kBlocks);
  EXPECT_LE(in_both, more);
  EXPECT_LE(in_first, split.size + more);
  EXPECT_LE(in_second, split.size + more);
}

// More groups than the smallest size allows are refused with a reason, not with an error, and ranks
// share by streams.
TEST(CudaSmGroups, TooManyGroupsAreAnAnswer) {
  WEIR_NEEDS_DEVICE();
  const SmGroupsResult divided = divide_device(0, 1000);
  EXPECT_EQ(divided.groups, nullptr);
  EXPECT_NE(divided.why, "");
  DeviceSharing sharing;
  const Seat seat = sharing.seat(999, 1000);
  EXPECT_EQ(seat.groups, nullptr);
  EXPECT_TRUE(seat.label.starts_with("streams with priorities on ")) << seat.label;
  EXPECT_TRUE(seat.make_stream_handle(Seat::Use::compute));
}

// Ranks of one run get different groups of one division, and the next run with as many ranks the
// same division.
TEST(CudaSmGroups, ADeviceIsDividedOnce) {
  WEIR_NEEDS_DEVICE();
  DeviceSharing sharing;
  const Seat a = sharing.seat(0, 4), b = sharing.seat(3, 4);
  EXPECT_EQ(a.label, b.label);
  EXPECT_EQ(a.multiprocessors, b.multiprocessors);
  EXPECT_NE(std::pair(a.place.device, a.place.group), std::pair(b.place.device, b.place.group));
  EXPECT_EQ(a.groups, sharing.seat(0, 4).groups);
  // Processes take turns, each with all of the device.
  const Seat alone = sharing.seat(999, 1000, RanksAre::processes);
  EXPECT_EQ(alone.groups, nullptr);
  EXPECT_EQ(alone.multiprocessors, alone.device_multiprocessors);
}

// 1 MiB, then another beside it, then both released and one again: never more than 2 MiB in use at
// once.
TEST(CudaMemoryPool, ItsPeakIsTheMostInUseAtOnce) {
  WEIR_NEEDS_DEVICE();
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
  MemoryPool pool(0);
  const StreamHandle stream = DeviceSharing().seat(0, 1).make_stream_handle(Seat::Use::compute);
  void* a = pool.allocate(kMebibyte, stream.get());
  EXPECT_EQ(pool.peak(), Bytes(kMebibyte));
  void* b = pool.allocate(kMebibyte, stream.get());
  pool.release(a, stream.get());
  pool.release(b, stream.get());
  void* c = pool.allocate(kMebibyte, stream.get());
  EXPECT_EQ(pool.peak(), Bytes(2 * kMebibyte));
  EXPECT_GE(pool.reserved(), Bytes(2 * kMebibyte));
  pool.release(c, stream.get());
  CUDA_CHECK(cudaStreamSynchronize(stream.get()));
}

}  // namespace
}  // namespace weir::sm_groups_test
