// The constants of the built-in clusters are those that the measured rates give: each that says it
// was fitted is fitted again.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tools/reproduce/rates/kernel_rates.hpp"
#include "tools/reproduce/rates/link_rates.hpp"
#include "tools/reproduce/rates/simplex.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir::rates_test {
namespace {

Cluster built_in(const std::string& name) {
  return parse_cluster(compiled_tables().at(name + ".json"), name);
}

// Files have three digits.
void expect_same(double file, double fitted) { EXPECT_NEAR(file, fitted, 0.005 * fitted + 5e-4); }

void expect_same(const AttentionRates& file, const AttentionRates& fitted) {
  expect_same(file.forward, fitted.forward);
  expect_same(file.backward, fitted.backward);
  expect_same(file.keys, fitted.keys);
  EXPECT_NEAR(file.head, fitted.head, 0.5);
}

TEST(Rates, KernelConstantsAreTheFits) {
  const FittedKernels fits = fit_kernels({});
  const KernelModel a100 = *built_in("dgx-a100").device.kernels;
  const KernelModel h200 = *built_in("dgx-h200").device.kernels;
  const KernelModel b200 = *built_in("dgx-b200").device.kernels;
  const KernelModel gb300 = *built_in("gb300-nvl72").device.kernels;
  const KernelModel b300 = *built_in("dgx-b300").device.kernels;
  const ProductRates& pcie = fits.products.at("A100-PCIe").rates;
  expect_same(a100.products.half_tile, pcie.half_tile);
  expect_same(a100.products.exposed_output, pcie.exposed_output);
  expect_same(a100.products.efficiency, pcie.efficiency);
  // H100 as A100 SXM, of its best shape (stas00/ml-engineering).
  const double held = pcie.efficiency / (271.2 / 312);
  expect_same(h200.products.efficiency, held * 794.5 / 989.4);
  // In 8 bits by shapes of H800, the same chip, whose efficiency and output are fitted together;
  // the best shape, 1402.6 / 1979, has its output counted in.
  expect_same(h200.fp8->efficiency, held * fits.products.at("H800").rates.efficiency);
  expect_same(b200.products.efficiency, fits.products.at("B200").rates.efficiency);
  // B300 as B200 at 1,100 W for 1,000; FP8 as its best shape (stas00/ml-engineering).
  const double b200_held = fits.products.at("B200").rates.efficiency / (1745.0 / 2250);
  expect_same(b300.products.efficiency, fits.products.at("B200").rates.efficiency * 1.1);
  expect_same(b300.fp8->efficiency, b200_held * 3353.3 / 4500 * 1.1);
  expect_same(b300.attention.at(AttentionLibrary::cudnn), fits.attention.at("GB300 cudnn").rates);
  expect_same(b200.products.exposed_output, fits.products.at("B200").rates.exposed_output);
  expect_same(h200.fp8->exposed_output, fits.products.at("H800").rates.exposed_output);
  expect_same(a100.attention.at(AttentionLibrary::flash2),
              fits.attention.at("A100-SXM flash2").rates);
  expect_same(h200.attention.at(AttentionLibrary::flash2), fits.attention.at("H100 flash2").rates);
  expect_same(h200.attention.at(AttentionLibrary::flash3), fits.attention.at("H100 flash3").rates);
  expect_same(h200.attention.at(AttentionLibrary::cudnn), fits.attention.at("H200 cudnn").rates);
  expect_same(b200.attention.at(AttentionLibrary::cudnn), fits.attention.at("GB200 cudnn").rates);
  expect_same(gb300.attention.at(AttentionLibrary::cudnn), fits.attention.at("GB300 cudnn").rates);
  expect_same(h200.bandwidth_efficiency, fits.streams.at("H200").efficiency);
  expect_same(b200.bandwidth_efficiency, fits.streams.at("GB200").efficiency);
  EXPECT_NEAR(h200.start.count(), fits.streams.at("H200").start.count(), 0.1e-6);
}

TEST(Rates, LinkConstantsAreTheFits) {
  const FittedLinks fits = fit_h100_links({}), playbook = fit_playbook_links({});
  const Cluster h100 = built_in("dgx-h100"), p5 = built_in("h100-p5");
  expect_same(h100.intra.efficiency, fits.cluster.intra.efficiency);
  EXPECT_NEAR(h100.intra.latency.count(), fits.cluster.intra.latency.count(), 0.1e-6);
  expect_same(h100.intra.switch_reduction->bandwidth.count(),
              fits.cluster.intra.switch_reduction->bandwidth.count());
  expect_same(h100.intra.regimes.at(0).bandwidth.count(),
              fits.cluster.intra.regimes.at(0).bandwidth.count());
  expect_same(h100.inter.efficiency, fits.cluster.inter.efficiency);
  EXPECT_NEAR(h100.inter.latency.count(), fits.cluster.inter.latency.count(), 0.1e-6);
  EXPECT_NEAR(h100.inter.tree.count(), fits.cluster.inter.tree.count(), 1e-6);
  EXPECT_NEAR(p5.inter.tree.count(), playbook.cluster.inter.tree.count(), 1e-5);
  expect_same(p5.inter.efficiency, playbook.cluster.inter.efficiency);
  EXPECT_NEAR(p5.inter.latency.count(), playbook.cluster.inter.latency.count(), 1e-6);
}

// Rosenbrock's valley (1960) has its least at (1, 1).
TEST(Rates, ASimplexFindsTheLeast) {
  const auto valley = [](std::span<const double> x) {
    return std::pow(1 - x[0], 2) + 100 * std::pow(x[1] - x[0] * x[0], 2);
  };
  const std::vector<double> found = simplex_minimum(valley, {-1.2, 1});
  EXPECT_NEAR(found[0], 1, 1e-3);
  EXPECT_NEAR(found[1], 1, 1e-3);
  EXPECT_DOUBLE_EQ(huber(0.1, 0.2), 0.005);
  EXPECT_DOUBLE_EQ(huber(-0.4, 0.2), 0.2 * 0.3);
}

}  // namespace
}  // namespace weir::rates_test
