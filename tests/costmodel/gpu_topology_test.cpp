// What nvidia-smi says of how a node's GPUs are wired.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/gpu_topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::gpu_topology_test {
namespace {

using testing::HasSubstr;

// A DGX-1: hybrid cube mesh. Of the neighbours 0-1 ... 6-7 the worst is 3-4, one NVLink; 25 GB/s.
constexpr const char* kCubeMesh =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tmlx5_0\tCPU Affinity\tNUMA "
    "Affinity\x1b[0m\n"
    "GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tPIX\t0-19,40-59\t0\n"
    "GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tPIX\t0-19,40-59\t0\n"
    "GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\tPHB\t0-19,40-59\t0\n"
    "GPU3\tNV2\tNV1\tNV2\t X \tNV1\tSYS\tSYS\tNV1\tPHB\t0-19,40-59\t0\n"
    "GPU4\tNV2\tSYS\tSYS\tNV1\t X \tNV1\tNV1\tNV2\tSYS\t20-39,60-79\t1\n"
    "GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\tSYS\t20-39,60-79\t1\n"
    "GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\tSYS\t20-39,60-79\t1\n"
    "GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \tSYS\t20-39,60-79\t1\n"
    "mlx5_0\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\tSYS\tSYS\t X \n"
    "\nLegend:\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n";

TEST(GpuTopology, NeighboursDecide) {
  const GpuTopology topology = read_gpu_topology(kCubeMesh, "topo.txt");
  ASSERT_EQ(topology.gpus(), 8);
  EXPECT_EQ(topology.between[0][4].nvlinks, 2);
  EXPECT_EQ(topology.between[0][7].wire, Wire::sys);
  EXPECT_EQ(topology.worst_neighbours().nvlinks, 1);
  Cluster cluster;
  cluster.device.name = "V100-SXM2-32GB";
  EXPECT_THAT(apply_topology(topology, "topo.txt", cluster),
              HasSubstr("1 NVLinks between neighbours (topo.txt)"));
  EXPECT_EQ(cluster.devices_per_node, 8);
  EXPECT_EQ(cluster.intra.bandwidth.count(), 25e9);
  cluster.device.name = "abacus";
  EXPECT_EQ(complaint([&] { static_cast<void>(apply_topology(topology, "topo.txt", cluster)); }),
            "cluster: device.name: abacus: the rate of its NVLinks is not known");
}

TEST(GpuTopology, OverPcieTheLinkStaysAsItWas) {
  const GpuTopology topology = read_gpu_topology(
      "        GPU0    GPU1    NIC0    CPU Affinity    GPU NUMA ID\nGPU0     X      NODE    SYS    "
      " 0-19     N/A\n"
      "GPU1    NODE     X      SYS     0-19     N/A\nNIC0    SYS     SYS      X \n",
      "topo.txt");
  Cluster cluster;
  cluster.intra.bandwidth = BytesPerSecond(12e9);
  EXPECT_THAT(apply_topology(topology, "topo.txt", cluster),
              HasSubstr("neighbours meet over NODE"));
  EXPECT_EQ(cluster.intra.bandwidth.count(), 12e9);
  EXPECT_EQ(cluster.devices_per_node, 2);
}

TEST(GpuTopology, RefusesInOneLine) {
  const auto line = [](const std::string& text) {
    return complaint([&] { static_cast<void>(read_gpu_topology(text, "topo.txt")); });
  };
  EXPECT_EQ(line("no such device\n"), "topo.txt: holds no matrix of nvidia-smi topo -m");
  EXPECT_EQ(line(" GPU0 GPU1\nGPU0 X NV2\n"), "topo.txt: 1 rows for 2 GPUs");
  EXPECT_EQ(line(" GPU0 GPU1\nGPU0 X NV2\nGPU1 FAR X\n"),
            "topo.txt: GPU1: \"FAR\": expected X, NV and a number, PIX, PXB, PHB, NODE or SYS");
  EXPECT_EQ(line(" GPU0 GPU1\nGPU0 X NV2\nGPU1 NV2\n"),
            "topo.txt: GPU1: has fewer columns than the header");
  EXPECT_EQ(line(" GPU0 GPU1\nGPU0 X X\nGPU1 X X\n"),
            "topo.txt: GPU0: expected X just where a GPU meets itself");
}

}  // namespace
}  // namespace weir::gpu_topology_test
