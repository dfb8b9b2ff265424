// Cluster files there and back.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/cluster.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::cluster_test {
namespace {

using testing::HasSubstr;

Cluster parsed(const std::string& text) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("weir-cluster-test-" + std::to_string(::getpid()) + ".json");
  write_file_atomically(file, text);
  try {
    Cluster cluster = load_cluster(file);
    std::filesystem::remove(file);
    return cluster;
  } catch (const InputError&) {
    std::filesystem::remove(file);
    throw;
  }
}

// Every example has an origin for each constant, and its text reads back as the same text.
TEST(Clusters, ExamplesReadBackAndSayWhereTheyAreFrom) {
  const std::filesystem::path folder =
      std::filesystem::path(WEIR_SOURCE_DIR) / "tools" / "examples" / "clusters";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const Cluster cluster = load_cluster(entry.path());
    EXPECT_EQ(cluster.name, entry.path().stem());
    EXPECT_EQ(to_json(parsed(to_json(cluster))), to_json(cluster)) << entry.path();
    // What was read is written back, every key of it.
    const Json file = Json::parse(read_text_file(entry.path()));
    const Json written = Json::parse(to_json(cluster));
    for (const char* part : {"", "/device"}) {
      const Json::json_pointer at(part);
      for (const auto& [key, value] : file[at].items())
        EXPECT_TRUE(written[at].contains(key)) << entry.path() << ": " << key;
    }
    EXPECT_EQ(file["device"].value("kernels", Json()), written["device"].value("kernels", Json()));
    EXPECT_FALSE(cluster.origins.empty()) << entry.path();
    for (const Constant& constant : constants_of(file, cluster.origins)) {
      ASSERT_NE(constant.origin, nullptr) << entry.path() << ": " << constant.path;
      EXPECT_FALSE(constant.origin->source.empty()) << entry.path() << ": " << constant.path;
      EXPECT_GE(constant.origin->rows.value_or(3), 3) << entry.path() << ": " << constant.path;
    }
    ++files;
  }
  EXPECT_GE(files, 3);
}

// What one process can have, as PyTorch reports it, within what drivers differ by: an "80 GB" card
// has 81,559 MiB of which 79.1 GiB are left. Read as 80e9 bytes it was 74.5 GiB, and layouts that
// NVIDIA and Meta trained with were refused.
TEST(Clusters, MemoryIsWhatOneProcessCanHave) {
  const auto gib = [](const std::string& name) {
    const std::filesystem::path folder =
        std::filesystem::path(WEIR_SOURCE_DIR) / "tools" / "examples" / "clusters";
    return static_cast<double>(load_cluster(folder / (name + ".json")).device.memory.count()) /
           (1 << 30);
  };
  EXPECT_NEAR(gib("dgx-a100"), 79.20, 0.07);
  EXPECT_NEAR(gib("dgx-h100"), 79.15, 0.06);
  EXPECT_NEAR(gib("dgx-h200"), 139.77, 0.06);
  EXPECT_NEAR(gib("dgx-b200"), 178.35, 0.01);
  EXPECT_NEAR(gib("gb200-nvl72"), 184.31, 0.01);
  EXPECT_NEAR(gib("gb300-nvl72"), 276.50, 0.01);
  EXPECT_NEAR(gib("dgx-b300"), 276.50, 0.01);
  EXPECT_NEAR(gib("mi300x"), 191.83, 0.15);
  EXPECT_NEAR(gib("mi325x"), 255.98, 0.01);
  EXPECT_NEAR(gib("mi355x"), 287.98, 0.01);
  EXPECT_NEAR(gib("hgx-h20"), 95.00, 0.01);
  EXPECT_NEAR(gib("l40s-pcie"), 44.40, 0.01);
  EXPECT_NEAR(gib("rtx4090-pcie"), 23.64, 0.04);
  EXPECT_NEAR(gib("rtx5090-pcie"), 31.365, 0.01);
  EXPECT_NEAR(gib("rtx6000-ada-pcie"), 44.43, 0.01);
  EXPECT_NEAR(gib("a6000-pcie"), 47.53, 0.01);
  EXPECT_NEAR(gib("tpu-v5p"), 95.74, 0.01);
  EXPECT_NEAR(gib("tpu-v6e"), 31.25, 0.01);
  EXPECT_NEAR(gib("dgx1-v100"), 31.75, 0.03);
  EXPECT_NEAR(gib("p100-pcie"), 15.90, 0.01);
  EXPECT_NEAR(gib("p40-pcie"), 22.38, 0.01);
}

// Devices of data sheets alone have a measured device's shares of their own peaks: H100's and
// A100's; those of AMD and Intel what they hold of the best shape that was measured on them, as an
// A100 that trains holds 0.796 / 0.869 of its own.
TEST(Clusters, DataSheetsCarryTheSharesOfAMeasuredDevice) {
  const auto efficiency = [](const std::string& name) {
    const std::filesystem::path folder =
        std::filesystem::path(WEIR_SOURCE_DIR) / "tools" / "examples" / "clusters";
    return load_cluster(folder / (name + ".json")).device.kernels->products.efficiency;
  };
  for (const char* name : {"hgx-h800", "hgx-h20", "tpu-v5p", "tpu-v6e", "trainium2"})
    EXPECT_EQ(efficiency(name), efficiency("dgx-h100")) << name;
  for (const char* name :
       {"hgx-a800", "l40s-pcie", "rtx4090-pcie", "rtx5090-pcie", "rtx6000-ada-pcie", "a6000-pcie"})
    EXPECT_EQ(efficiency(name), efficiency("dgx-a100")) << name;
  const double held = 0.796 / (271.2 / 312);
  EXPECT_NEAR(efficiency("mi325x"), held * 784.9 / 1307.4, 5e-4);
  EXPECT_NEAR(efficiency("mi355x"), held * 1565 / 2516.6, 5e-4);
  EXPECT_NEAR(efficiency("gaudi3"), held * 1243 / 1677, 5e-4);
}

// As files before 0.2 say it, in lines; with an object, every constant of the file has its entry.
TEST(Clusters, OriginsByConstantOrInLines) {
  const std::string head =
      R"({"schema":"weir.cluster/1","name":"x","device":{"name":"H100","memory":"80 GB",)"
      R"("memory_bandwidth":"1 TB/s"},"devices_per_node":1,"nodes":1,)"
      R"("intra":{"latency":"9 us","bandwidth":"300 GB/s","efficiency":0.5},)";
  EXPECT_TRUE(parsed(head + R"("origin":["all: a guess"]})").origins.empty());
  const std::string all =
      R"("origins":{"device":{"source":"datasheet"},"intra":{"source":"rows","rows":12},)"
      R"("devices_per_node":{"source":"a choice"})";
  const Cluster cluster = parsed(head + all + R"(,"nodes":{"source":"a choice"}}})");
  EXPECT_EQ(origin_of(cluster.origins, "intra.latency")->rows, 12);
  EXPECT_EQ(cluster.intra.bandwidth.count(), 150e9);
  EXPECT_EQ(to_json(parsed(to_json(cluster))), to_json(cluster));
  const auto refusal = [&](const std::string& text) {
    return complaint([&] { static_cast<void>(parsed(text)); });
  };
  EXPECT_THAT(refusal(head + all + "}}"), HasSubstr("nothing says where nodes comes from"));
  EXPECT_THAT(refusal(head + R"("origins":{"nodes":{"source":"a fit","rows":2}}})"),
              HasSubstr("origins.nodes.rows"));
}

// A price is the user's, so it needs no origin beside those of the file's constants.
TEST(Clusters, AnHourOfADeviceMayHaveAPrice) {
  const auto with = [](const std::string& price) {
    Json json =
        Json::parse(read_text_file(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json"));
    json["price_per_gpu_hour"] = Json::parse(price);
    return json.dump();
  };
  const Cluster cluster = parsed(with("\"2.50 USD\""));
  EXPECT_EQ(cluster.price_per_gpu_hour, (Price{2.5, "USD"}));
  EXPECT_EQ(to_json(parsed(to_json(cluster))), to_json(cluster));
  EXPECT_THAT(to_json(cluster), HasSubstr(R"("price_per_gpu_hour": "2.5 USD")"));
  for (const char* bad : {"\"-1 USD\"", "\"nan USD\"", "\"2.5\"", "\"much\"", "\"1e999 USD\""})
    EXPECT_THAT(complaint([&] { static_cast<void>(parse_cluster(with(bad), "mine.json")); }),
                HasSubstr("mine.json: price_per_gpu_hour: expected an amount with its currency"))
        << bad;
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_cluster(with("2.5"), "mine.json")); }),
              HasSubstr("mine.json: price_per_gpu_hour: "));
}

// A step at such rates would be longer than times can be: the constant is named, not the time.
TEST(Clusters, RatesAtWhichNothingTrainsAreRefused) {
  const Json whole = Json::parse(to_json(load_cluster(std::filesystem::path(WEIR_SOURCE_DIR) /
                                                      "tools/examples/clusters/dgx-h100.json")));
  const auto refusal = [&](const char* at, const Json& value) {
    Json changed = whole;
    changed[Json::json_pointer(at)] = value;
    return complaint([&] { static_cast<void>(parse_cluster(changed.dump(), "oc.json")); });
  };
  const std::string share = "expected a number from 0.001 to 1";
  EXPECT_EQ(refusal("/device/peak_bf16_tflops", 1e-300),
            "oc.json: device.peak_bf16_tflops: expected a number of at least 0.001");
  EXPECT_EQ(refusal("/device/peak_bf16_tflops", 0.001), "no complaint");
  EXPECT_EQ(refusal("/device/memory_bandwidth", "1e-300 GB/s"),
            "oc.json: device.memory_bandwidth: expected at least 1000 B/s");
  EXPECT_EQ(refusal("/device/kernels/matrix_efficiency", 1e-300),
            "oc.json: device.kernels.matrix_efficiency: " + share);
  EXPECT_EQ(refusal("/device/kernels/bandwidth_efficiency", 1e-300),
            "oc.json: device.kernels.bandwidth_efficiency: " + share);
  EXPECT_EQ(refusal("/device/kernels/launch", "1e300 s"),
            "oc.json: device.kernels.launch: expected at most 3600 s");
  for (const std::string link : {"intra", "inter"}) {
    const auto of_link = [&](const char* key, const Json& value) {
      return refusal(fmt::format("/{}/{}", link, key).c_str(), value);
    };
    EXPECT_EQ(of_link("efficiency", 1e-300),
              fmt::format("oc.json: {}.efficiency: {}", link, share));
    EXPECT_EQ(of_link("bandwidth", "1e-300 GB/s"),
              fmt::format("oc.json: {}.bandwidth: expected at least 1000 B/s", link));
    EXPECT_EQ(of_link("latency", "1e9 h"),
              fmt::format("oc.json: {}.latency: expected at most 3600 s", link));
  }
}

TEST(Clusters, RegimesOfSmallMessages) {
  const std::string head =
      R"({"schema":"weir.cluster/1","name":"x","device":{"name":"H100","memory":"80 GB",)"
      R"("memory_bandwidth":"1 TB/s"},
      "devices_per_node":2,"nodes":1,"origin":[],"intra":{"latency":"9 us","bandwidth":"300 )"
      R"(GB/s","regimes":[)";
  const Cluster cluster =
      parsed(head + R"({"up_to":"8 KiB","latency":"4 us","bandwidth":"unlimited"},
                       {"up_to":"1 MiB","latency":"6 us","bandwidth":"50 GB/s"}]}})");
  EXPECT_EQ(cluster.intra.at(Bytes(8192)).bandwidth.count(), 0);
  EXPECT_EQ(cluster.intra.at(Bytes(8193)).bandwidth.count(), 50e9);
  EXPECT_EQ(cluster.intra.at(Bytes(1 << 21)).bandwidth.count(), 300e9);
  EXPECT_EQ(to_json(parsed(to_json(cluster))), to_json(cluster));
  EXPECT_THAT(
      complaint([&] {
        static_cast<void>(parsed(head + R"({"up_to":"8 KiB","latency":"4 us","bandwidth":"1 GB/s"},
                                                   {"up_to":"8 KiB","latency":"4 us",)"
                                        R"("bandwidth":"1 GB/s"}]}})"));
      }),
      HasSubstr("intra.regimes[1].up_to: expected ascending sizes"));
}

}  // namespace
}  // namespace weir::cluster_test
