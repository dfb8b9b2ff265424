// Mesh-TensorFlow's Table 1 from the einsum rule alone, symbolically and in numbers, and the rule
// itself against processors that are simulated element by element.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/layout_math.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "plan/layout/read.hpp"
#include "tests/costmodel/layout_simulation.hpp"

namespace weir::layout_math_test {
namespace {

using layout::Layout;
using layout::LayoutFile;
using layout::Program;
using layout::to_text;

LayoutFile two_layer() {
  return layout::load_layouts(std::filesystem::path(WEIR_SOURCE_DIR) /
                              "tools/examples/layouts/two-layer.json");
}

using Row = std::vector<std::string>;  // computation, communication, their ratio, memory
Row row(const LayoutFile& file, std::size_t l) {
  const LayoutCost cost = layout_cost(file.program, file.layouts[l]);
  return {to_text(cost.computation.without_constants(), cost.symbols),
          to_text(cost.communication.without_constants(), cost.symbols),
          to_text(communication_per_computation(cost).value(), cost.symbols),
          to_text(cost.memory.without_constants(), cost.symbols)};
}

// The five rows as the paper prints them (terms of a sum in the order of the symbols b, d_io, d_h).
TEST(MeshTensorFlowTable1, ComesOutOfTheRule) {
  const LayoutFile file = two_layer();
  ASSERT_EQ(file.layouts.size(), 5U);
  EXPECT_EQ(row(file, 0), (Row{"b*d_io*d_h", "0", "0", "b*d_io + b*d_h + d_io*d_h"}));
  EXPECT_EQ(row(file, 1),
            (Row{"b*d_io*d_h/n", "d_io*d_h", "n/b", "b*d_io/n + b*d_h/n + d_io*d_h"}));
  EXPECT_EQ(row(file, 2),
            (Row{"b*d_io*d_h/n", "b*d_io", "n/d_h", "b*d_io + b*d_h/n + d_io*d_h/n"}));
  EXPECT_EQ(row(file, 3), (Row{"b*d_io*d_h/(r*c)", "b*d_io/r + d_io*d_h/c", "c/d_h + r/b",
                               "b*d_io/r + b*d_h/(r*c) + d_io*d_h/c"}));
  EXPECT_EQ(row(file, 4), (Row{"b*d_io*d_h/(r*c)", "b*d_io/r + b*d_h/c", "c/d_h + r/d_io",
                               "b*d_io/r + b*d_h/c + d_io*d_h/(r*c)"}));
}

// b = 512, d_io = 512, d_h = 2048, n = 4, r = c = 2. One product is 512 * 512 * 2048 = 2^29
// multiply-adds and there are six, on 1 or 4 processors. Each all-reduce of the table happens twice
// (by y and dx, by dv and dw, by h and dh):
//   data            2 * 512 * 2048                     = 2^21
//   model           2 * 512 * 512                      = 2^19
//   data and model  2 * (512 * 512 + 512 * 2048) / 2   = 2^18 + 2^20
//   both ways       2 * (512 * 512 + 512 * 2048) / 2   = 2^18 + 2^20
// Memory: x, y and their gradients are 4 of 2^18, h and its gradient 2 of 2^20, w, v and theirs 4
// of 2^20.
TEST(MeshTensorFlowTable1, HasItsNumbers) {
  const LayoutFile file = two_layer();
  const double k18 = 1 << 18;
  const double k20 = 1 << 20;
  const double products[] = {6.0 * (1 << 29), 6.0 * (1 << 27), 6.0 * (1 << 27), 6.0 * (1 << 27),
                             6.0 * (1 << 27)};
  const double reduced[] = {0, 2 * k20, 2 * k18, k18 + k20, k18 + k20};
  const double memory[] = {4 * k18 + 6 * k20, k18 + k20 / 2 + 4 * k20, 4 * k18 + k20 / 2 + k20,
                           2 * k18 + k20 / 2 + 2 * k20, 2 * k18 + k20 + k20};
  const int all_reduces[] = {0, 2, 2, 4, 4};
  for (std::size_t l = 0; l < 5; ++l) {
    SCOPED_TRACE(file.layouts[l].name);
    const LayoutNumbers numbers = layout_numbers(file.program, file.layouts[l]);
    EXPECT_EQ(numbers.multiply_adds, products[l]);
    EXPECT_EQ(numbers.reduced_elements, reduced[l]);
    EXPECT_EQ(numbers.all_reduces, all_reduces[l]);
    EXPECT_EQ(static_cast<double>(numbers.memory.count()), 4 * memory[l]);
    // Of 4 processors, or of 2 and 2: 2 (4-1)/4 = 3/2 or 2 (2-1)/2 = 1.
    EXPECT_EQ(numbers.exchanged_elements, reduced[l] * (l < 3 ? 1.5 : 1.0));
  }
}

// Which einsums the table speaks of: the forward ones alone would leave the data-parallel row
// without communication.
TEST(MeshTensorFlowTable1, NeedsTheBackward) {
  LayoutFile file = two_layer();
  file.program.einsums.resize(2);
  EXPECT_EQ(row(file, 1)[1], "0");
  EXPECT_EQ(row(file, 2)[1], "b*d_io");
  EXPECT_EQ(row(file, 3)[1], "b*d_io/r");
  EXPECT_EQ(row(file, 4)[1], "b*d_io/r + b*d_h/c");
}

// 2 FLOP/s, 4 elements/s, 1 s + 8 B/s and 3 s of waiting: 10 multiply-adds are 10 s, 6 elements 1.5
// s, two all-reduces of 4 elements in all 2 + 16/8 s and 6 s more.
TEST(LayoutTime, AddsUp) {
  LayoutNumbers numbers;
  numbers.multiply_adds = 10;
  numbers.elementwise = 6;
  numbers.all_reduces = 2;
  numbers.exchanged_elements = 4;
  const LayoutTime time =
      layout_time(numbers, {FlopsPerSecond(2), 4, Seconds(1), BytesPerSecond(8), Seconds(3)});
  EXPECT_DOUBLE_EQ(time.products.count(), 10);
  EXPECT_DOUBLE_EQ(time.elementwise.count(), 1.5);
  EXPECT_DOUBLE_EQ(time.all_reduces.count(), 4);
  EXPECT_DOUBLE_EQ(time.work().count(), 15.5);
  EXPECT_DOUBLE_EQ(time.step().count(), 21.5);
}

double given(int tensor, std::int64_t element) {
  return std::sin(1.0 + tensor * 17.0 + static_cast<double>(element));
}

// Blockwise equals whole, and what the processors did is what the formulas say, einsum by einsum
// summed.
void check_by_simulation(const Program& program, const Layout& layout) {
  Layout whole = layout;
  whole.split_over.assign(program.dimensions.size(), -1);
  whole.mesh = {{"one", "one", 1}};
  layout::Simulation unsplit(program, whole, given);
  unsplit.run();
  layout::Simulation split(program, layout, given);
  split.run();
  const LayoutNumbers numbers = layout_numbers(program, layout);
  double exchanged = 0;
  for (std::size_t p = 0; p < split.all().size(); ++p) {
    const layout::Processor& processor = split.all()[p];
    EXPECT_EQ(static_cast<double>(processor.multiply_adds), numbers.multiply_adds);
    EXPECT_EQ(static_cast<double>(processor.reduced), numbers.reduced_elements);
    EXPECT_EQ(processor.all_reduces, numbers.all_reduces);
    exchanged += static_cast<double>(processor.exchanged);
    std::int64_t held = 0;
    for (std::size_t t = 0; t < program.tensors.size(); ++t) {
      const layout::Values& block = processor.blocks[t];
      held += static_cast<std::int64_t>(block.size());
      for (std::size_t i = 0; i < block.size(); ++i) {
        const auto at = split.global_element(static_cast<int>(t), p, static_cast<std::int64_t>(i));
        // Sums of at most a few hundred products below one, in another order.
        ASSERT_NEAR(block[i], unsplit.all()[0].blocks[t][static_cast<std::size_t>(at)], 1e-10)
            << program.tensors[t].name;
      }
    }
    EXPECT_EQ(held * 4, numbers.memory.count());
  }
  // Blocks that do not divide by the group are shared unevenly: only the sum over processors is
  // exact.
  EXPECT_DOUBLE_EQ(exchanged, numbers.exchanged_elements * static_cast<double>(split.all().size()));
}

void set_sizes(Program& program, const std::vector<std::int64_t>& sizes) {
  for (std::size_t d = 0; d < sizes.size(); ++d) program.dimensions[d].size = sizes[d];
}

// b = 8, d_io = 4, d_h = 12 on meshes of 4, 2 x 2, 2 x 1, 1 x 2, 4 x 2 and 1 x 1.
TEST(LayoutRule, IsWhatSimulatedProcessorsDo) {
  LayoutFile file = two_layer();
  set_sizes(file.program, {8, 4, 12});
  for (Layout layout : file.layouts) {
    const std::vector<std::vector<std::int64_t>> meshes =
        layout.mesh.size() == 1
            ? std::vector<std::vector<std::int64_t>>{{4}, {2}, {1}}
            : std::vector<std::vector<std::int64_t>>{{2, 2}, {2, 1}, {1, 2}, {4, 2}, {1, 1}};
    for (const auto& mesh : meshes) {
      for (std::size_t m = 0; m < mesh.size(); ++m) layout.mesh[m].size = mesh[m];
      SCOPED_TRACE(layout.name + ", " + mesh_text(layout));
      ASSERT_EQ(illegal(file.program, layout), std::nullopt);
      check_by_simulation(file.program, layout);
    }
  }
}

// Every legal layout of an attention-like product with a dimension in all three tensors, of a
// weight used twice, and three inputs at once.
TEST(LayoutRule, HoldsForEveryLegalLayoutOfOtherPrograms) {
  const auto program = [](const std::string& tensors, const std::string& einsums) {
    return layout::parse_layouts(
        R"({"schema": "weir.layout/1", "name": "t", "dimensions": [{"name": "a", "size": 4},
      {"name": "b", "size": 2}, {"name": "c", "size": 6}, {"name": "d", "size": 2}], "tensors": )"
        R"([)" +
            tensors + R"(], "einsums": [)" + einsums + R"(], "layouts":
      [{"name": "l", "mesh": [{"name": "r", "size": 2}, {"name": "q", "size": 2}], "rules": ""}]})",
        "t.json");
  };
  const LayoutFile files[] = {
      program(R"("x[a, b, d]", "w[a, d, c]", "y[a, c, b]")", R"("y = x w")"),
      program(R"("x[a, b, d]", "w[b, d, c]", "h[a, c]", "g[a, b, d]")",
              "\"h = relu(x w)\", \"g = h w\""),
      program(R"("x[a, b]", "y[b, c]", "z[c, d]", "o[a, d]")", R"("o = x y z")"),
  };
  int legal = 0;
  for (const LayoutFile& file : files) {
    for (int code = 0; code < 81; ++code) {  // each of four dimensions on r, on q or on neither
      Layout layout = file.layouts[0];
      for (int d = 0, rest = code; d < 4; ++d, rest /= 3)
        layout.split_over[static_cast<std::size_t>(d)] = rest % 3 - 1;
      if (illegal(file.program, layout)) continue;
      SCOPED_TRACE(rules_text(file.program, layout));
      check_by_simulation(file.program, layout);
      ++legal;
    }
  }
  // Four dimensions that all meet in one einsum on two mesh dimensions: 1 + 4*2 + 4*3 = 21
  // injective choices, for each of the three programs (in the second, a, b, d and c meet in both
  // einsums).
  EXPECT_EQ(legal, 63);
}

}  // namespace
}  // namespace weir::layout_math_test
