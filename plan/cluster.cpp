// SPDX-License-Identifier: Apache-2.0
#include "plan/cluster.hpp"

#include <fmt/format.h>

#include "plan/strict_json.hpp"
#include "plan/text_file.hpp"

namespace weir {
namespace {

Bytes bytes_of(JsonObject& object, std::string_view key) {
  const auto value = parse_bytes(object.text(key));
  if (!value) object.fail(key, "expected an amount with its unit, as \"80 GiB\"");
  return *value;
}

Link link_of(JsonObject object) {
  const auto latency = parse_duration(object.text("latency"));
  if (!latency) object.fail("latency", "expected a duration with its unit, as \"5 us\"");
  const auto bandwidth = parse_rate(object.text("bandwidth"));
  if (!bandwidth || bandwidth->count() <= 0) object.fail("bandwidth", "expected a rate with its unit, as \"300 GB/s\"");
  object.finish();
  return {*latency, *bandwidth};
}

Device device_of(JsonObject object) {
  Device device;
  device.name = object.text("name");
  device.memory = bytes_of(object, "memory");
  device.peak_fp32 = FlopsPerSecond(object.number_or("peak_fp32_tflops", 0) * 1e12);
  device.peak_tf32 = FlopsPerSecond(object.number_or("peak_tf32_tflops", 0) * 1e12);
  device.peak_bf16 = FlopsPerSecond(object.number_or("peak_bf16_tflops", 0) * 1e12);
  const auto bandwidth = parse_rate(object.text("memory_bandwidth"));
  if (!bandwidth || bandwidth->count() <= 0) object.fail("memory_bandwidth", "expected a rate, as \"3.35 TB/s\"");
  device.memory_bandwidth = *bandwidth;
  device.multiprocessors = static_cast<int>(object.integer_or("multiprocessors", 0, 0, 100'000));
  if (object.has("allocator")) {
    const std::string allocator = object.text("allocator");
    if (allocator != "arena" && allocator != "pytorch") object.fail("allocator", "expected arena or pytorch");
    device.allocator = allocator == "pytorch" ? Allocator::pytorch : Allocator::arena;
  }
  if (object.has("process_overhead")) device.process_overhead = bytes_of(object, "process_overhead");
  object.finish();
  return device;
}

}  // namespace

Cluster load_cluster(const std::filesystem::path& file) {
  const Json json = parse_json(read_text_file(file), file.string());
  JsonObject top(json, file.string(), "");
  top.expect_schema("weir.cluster/1");
  Cluster cluster;
  cluster.name = top.text("name");
  cluster.device = device_of(top.object("device"));
  cluster.devices_per_node = static_cast<int>(top.integer("devices_per_node", 1, 4096));
  cluster.nodes = static_cast<int>(top.integer("nodes", 1, 100'000));
  cluster.intra = link_of(top.object("intra"));
  cluster.inter = cluster.nodes > 1 || top.has("inter") ? link_of(top.object("inter")) : cluster.intra;
  cluster.origin = top.texts("origin");  // where each constant comes from
  top.finish();
  return cluster;
}

}  // namespace weir
