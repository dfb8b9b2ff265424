// The JSON form that nccl-tests writes with -J.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/nccl_tests_json.hpp"

#include <cstdint>
#include <optional>
#include <set>

#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// One half of a row. Numbers that are none are texts there ("nan"); a half that was not run is
// null.
void add_half(JsonObject& row, std::string_view key, Bytes size, NcclTest& test) {
  if (!row.has(key) || row.is_null(key)) return;
  JsonObject half = row.object(key);
  if (half.has("cpu_time"))
    half.fail("cpu_time", "the CPU's time says nothing of a link: run without -C");
  if (half.has("nwrong") && half.at("nwrong").is_number() && half.number("nwrong") > 0) {
    half.fail("nwrong", "the test found wrong values: nothing is learnt from such a link");
  }
  const double microseconds = half.number("time", 0, 1e12);
  if (microseconds <= 0) half.fail("time", "expected microseconds above 0");
  if (size.count() > 0) test.samples.push_back({size, Seconds(microseconds * 1e-6)});
}

}  // namespace

std::vector<NcclTest> read_nccl_tests_json(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  NcclTest test;
  std::set<std::string> hosts;
  JsonObject config = top.object("config");
  std::optional<std::int64_t> group;
  for (JsonObject& device : config.objects("devices")) {
    // NCCL_TESTS_SPLIT runs several communicators at once: the first stands for all.
    if (device.has("group")) {
      const std::int64_t its = device.integer("group", 0, 1 << 24);
      if (its != group.value_or(its)) continue;
      group = its;
    }
    hosts.insert(device.text("hostname"));
    test.device = device.text("device_info");
    ++test.ranks;
  }
  if (test.ranks == 1) {  // without MPI only the first device is listed
    test.ranks = static_cast<int>(config.integer("nthreads", 1, 1 << 16) *
                                  config.integer("ngpus", 1, 1 << 16));
  }
  const Json& arguments = top.at("args");
  if (!arguments.is_array() || arguments.empty() || !arguments.front().is_string()) {
    top.fail("args", "expected the command, a list of texts");
  }
  const std::string name = collective_of(arguments.front().get<std::string>());
  for (JsonObject& row : top.objects("results")) {
    const Bytes size(row.integer("size", 0, std::int64_t{1} << 50));
    add_half(row, "out_of_place", size, test);
    add_half(row, "in_place", size, test);
  }
  if (test.samples.empty()) top.fail("results", name + " has no results");
  complete_test(test, static_cast<int>(hosts.size()), name, file);
  return {test};
}

}  // namespace weir
