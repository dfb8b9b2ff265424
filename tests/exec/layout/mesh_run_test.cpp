// Layouts run for real on pinned threads: the blocks against the unsplit computation and against
// double precision, the counts against the formulas. Numbers are small and whole, so "equal" means
// every bit.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/mesh_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "costmodel/layers/layout_math.hpp"
#include "exec/cpu/layout/probe.hpp"
#include "plan/layout/read.hpp"
#include "tests/costmodel/layout_simulation.hpp"

namespace weir::cpu::mesh_run_test {
namespace {

using layout::Layout;
using layout::LayoutFile;

Layout unsplit(const LayoutFile& file) {
  return {"unsplit", {{"one", "one", 1}}, std::vector<int>(file.program.dimensions.size(), -1)};
}

LayoutFile program(const std::string& tensors, const std::string& einsums) {
  return layout::parse_layouts(
      R"({"schema": "weir.layout/1", "name": "t", "dimensions": [{"name": "a", "size": 4},
      {"name": "b", "size": 2}, {"name": "c", "size": 6}, {"name": "d", "size": 10}], )"
      R"("tensors": [)" +
          tensors + R"(], "einsums": [)" + einsums + R"(], "layouts":
      [{"name": "l", "mesh": [{"name": "r", "size": 2}, {"name": "q", "size": 2}], "rules": ""}]})",
      "t.json");
}

// Runs it, and holds result and counts against the unsplit run and the formulas.
void check(const LayoutFile& file, const Layout& layout, const MeshRun& whole) {
  SCOPED_TRACE(rules_text(file.program, layout) + " on " + mesh_text(layout));
  Workers workers(static_cast<int>(processors(layout)));
  MeshRun run(file.program, layout, workers, 7);
  for (int repetition = 0; repetition < 2;
       ++repetition) {  // a step starts from nothing the one before it left
    static_cast<void>(run.step());
    EXPECT_EQ(run.difference(whole), 0);
  }
  const LayoutNumbers numbers = layout_numbers(file.program, layout);
  double exchanged = 0;
  for (const MeshCounts& counts : run.counts()) {
    EXPECT_EQ(static_cast<double>(counts.multiply_adds), numbers.multiply_adds);
    EXPECT_EQ(counts.all_reduces, numbers.all_reduces);
    EXPECT_EQ(static_cast<double>(counts.reduced_elements), numbers.reduced_elements);
    EXPECT_GE(counts.memory.count(), numbers.memory.count());
    EXPECT_LT(counts.memory.count(),
              numbers.memory.count() + 64 * static_cast<std::int64_t>(file.program.tensors.size()));
    exchanged += static_cast<double>(counts.exchanged_elements);
  }
  EXPECT_DOUBLE_EQ(exchanged,
                   numbers.exchanged_elements * static_cast<double>(run.counts().size()));
}

// Meshes of 2, 2 x 1, 1 x 2 and 2 x 2 of the five layouts of Mesh-TensorFlow's Table 1.
TEST(MeshRun, FiveLayoutsGiveTheUnsplitResultBitForBit) {
  LayoutFile file = layout::load_layouts(std::filesystem::path(WEIR_SOURCE_DIR) /
                                         "tools/examples/layouts/two-layer.json");
  file.program.dimensions[0].size = 24;
  file.program.dimensions[1].size = 20;
  file.program.dimensions[2].size = 52;
  ASSERT_TRUE(rounds_nowhere(file.program));
  Workers one(1);
  MeshRun whole(file.program, unsplit(file), one, 7);
  static_cast<void>(whole.step());
  for (Layout layout : file.layouts) {
    for (const std::vector<std::int64_t>& mesh :
         layout.mesh.size() == 1 ? std::vector<std::vector<std::int64_t>>{{2}, {4}}
                                 : std::vector<std::vector<std::int64_t>>{{2, 1}, {1, 2}, {2, 2}}) {
      for (std::size_t m = 0; m < mesh.size(); ++m) layout.mesh[m].size = mesh[m];
      check(file, layout, whole);
    }
  }
}

// The unsplit run itself, against element-by-element double precision.
TEST(MeshRun, ComputesWhatTheEinsumsSay) {
  const LayoutFile files[] = {
      program(R"("x[a, b, d]", "w[d, c]", "h[a, b, c]", "v[d, c]", "y[a, b, d]")",
              "\"h = relu(x w)\", \"y = h v\""),  // two dimensions as one
      program(R"("q[a, b, d]", "k[a, c, d]", "s[a, c, b]")",
              R"("s = q k")"),  // one product for each a
      program(R"("x[a, b]", "w[b, c]", "y[c, a]", "z[d, c]", "o[d, a]")",
              R"("y = x w", "o = z y")"),  // transposed
      program(R"("x[a, b, d]", "w[b, d, c]", "h[a, c]", "g[a, b, d]")",
              "\"h = relu(x w)\", \"g = h w\""),  // w gets two gradients
  };
  for (const LayoutFile& file : files) {
    Workers one(1);
    const Layout layout = unsplit(file);
    MeshRun run(file.program, layout, one, 7);
    static_cast<void>(run.step());
    layout::Simulation reference(file.program, layout, [&](int tensor, std::int64_t element) {
      return double{run.block(0, tensor)[static_cast<std::size_t>(element)]};
    });
    reference.run();
    for (std::size_t t = 0; t < file.program.tensors.size(); ++t) {
      const auto block = run.block(0, static_cast<int>(t));
      EXPECT_THAT(layout::Values(block.begin(), block.end()),
                  testing::ElementsAreArray(reference.all()[0].blocks[t]))
          << file.program.tensors[t].name;
    }
  }
}

// Every legal layout of the same programs on 2 x 2 workers; the weight that gets two gradients sums
// both over the mesh.
TEST(MeshRun, EveryLegalLayoutOfOtherPrograms) {
  const LayoutFile files[] = {
      program(R"("q[a, b, d]", "k[a, c, d]", "s[a, c, b]")", R"("s = q k")"),
      program(R"("x[a, b, d]", "w[b, d, c]", "h[a, c]", "g[a, b, d]")",
              "\"h = relu(x w)\", \"g = h w\""),
  };
  for (const LayoutFile& file : files) {
    Workers one(1);
    MeshRun whole(file.program, unsplit(file), one, 7);
    static_cast<void>(whole.step());
    for (int code = 0; code < 81; ++code) {
      Layout layout = file.layouts[0];
      for (int d = 0, rest = code; d < 4; ++d, rest /= 3)
        layout.split_over[static_cast<std::size_t>(d)] = rest % 3 - 1;
      if (!illegal(file.program, layout)) check(file, layout, whole);
    }
  }
}

TEST(MeshRun, SaysWhatIsNoMatrixProduct) {
  const auto refusal = [](const LayoutFile& file) -> std::string {
    Workers one(1);
    try {
      MeshRun run(file.program, unsplit(file), one, 7);
    } catch (const std::invalid_argument& why) {
      return why.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(program(R"("x[a, b]", "y[b, c]", "z[c, d]", "o[a, d]")", R"("o = x y z")")),
            "o = x y z: cannot run as matrix products: it has not two inputs");
  EXPECT_EQ(refusal(program(R"("x[a, d, b]", "w[b, a, c]", "o[d, c]")", R"("o = x w")")),
            "o = x w: cannot run as matrix products: its dimensions do not lie side by side");
}

TEST(MeshRun, KnowsWhenFp32Rounds) {
  LayoutFile file = program(R"("x[a, b]", "w[b, c, d]", "o[a, c, d]")", R"("o = x w")");
  EXPECT_TRUE(rounds_nowhere(file.program));
  file.program.dimensions[1].size = 1 << 22;  // 2^22 products of up to 4
  EXPECT_FALSE(rounds_nowhere(file.program));
}

// 37 elements among three members: cache lines of 16, so members 0, 1 and 2 own 16, 16 and 5.
TEST(AllReduce, SumsInOrderForEveryMember) {
  Workers workers(3);
  AllReduce reduce(3, 37);
  EXPECT_EQ(reduce.parts().exchanged(0), 2 * 16 + 21);
  EXPECT_EQ(reduce.parts().exchanged(2), 2 * 5 + 32);
  std::vector<std::vector<float>> blocks(3);
  for (int repetition = 0; repetition < 20; ++repetition) {
    for (std::size_t m = 0; m < 3; ++m) {
      blocks[m].resize(37);
      for (std::size_t i = 0; i < 37; ++i) blocks[m][i] = static_cast<float>((m + 1) * i) + 1e-6F;
    }
    workers.run(
        [&](int worker) { reduce.run(worker, blocks[static_cast<std::size_t>(worker)].data()); });
    for (std::size_t i = 0; i < 37; ++i) {
      const float x = static_cast<float>(i);
      EXPECT_EQ(blocks[0][i], ((x + 1e-6F) + (2 * x + 1e-6F)) + (3 * x + 1e-6F));
    }
    EXPECT_EQ(blocks[0], blocks[1]);
    EXPECT_EQ(blocks[0], blocks[2]);
  }
}

TEST(Workers, RethrowWhatOneOfThemThrew) {
  Workers workers(2);
  EXPECT_THROW(workers.run([](int worker) {
    if (worker == 1) throw std::invalid_argument("no");
  }),
               std::invalid_argument);
  int ran[2] = {0, 0};
  workers.run([&](int worker) { ran[worker] = 1; });
  EXPECT_THAT(ran, testing::ElementsAre(1, 1));
}

// The first of three fails between two meetings: the others, who wait for it there, stop, and what
// it threw is what is said. Afterwards all three work and meet again.
TEST(Workers, OneThatFailsStopsThoseThatWaitForIt) {
  Workers workers(3);
  std::atomic<int> past = 0;
  const auto failing = [&](int worker) {
    workers.meet();
    if (worker == 0) throw std::bad_alloc();
    workers.meet();
    ++past;
  };
  EXPECT_THROW(workers.run(failing), std::bad_alloc);
  EXPECT_EQ(past, 0);
  for (int round = 0; round < 2; ++round) {
    workers.run([&](int) {
      workers.meet();
      workers.meet();
      ++past;
    });
  }
  EXPECT_EQ(past, 6);
}

TEST(MeshProbe, MeasuresAllThree) {
  Workers workers(2);
  MeshProbe probe(workers);
  const MeshProbe::Sample sample = probe.measure();
  EXPECT_GT(sample.product.count(), 0);
  EXPECT_GT(sample.elementwise.count(), 0);
  EXPECT_GT(sample.large_reduce.count(), 0);
  EXPECT_EQ(probe.exchanged(MeshProbe::kFew).count(), 4 * 64);
}

}  // namespace
}  // namespace weir::cpu::mesh_run_test
