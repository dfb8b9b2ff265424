// The language of einsums, meshes and layouts: derived gradients, local shapes, legality, and what
// the file reader refuses.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plan/layout/read.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::layout::layout_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path kTwoLayer =
    std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/layouts/two-layer.json";

std::string one_layout(const std::string& tensors, const std::string& einsums,
                       const std::string& rules) {
  return R"({"schema": "weir.layout/1", "name": "test", "dimensions": [)"
         R"({"name": "batch", "size": 6}, {"name": "io", "size": 8}, {"name": "hidden", )"
         R"("symbol": "d_h", "size": 12}],)"
         R"("tensors": [)" +
         tensors + R"(], "einsums": [)" + einsums +
         R"(], "layouts": [{"name": "one", "mesh": [{"name": "rows", "size": 2}, {"name": )"
         R"("cols", "size": 4}],)"
         R"("rules": ")" +
         rules + "\"}]}";
}
const char* const kTensors = R"("x[batch, io]", "w[io, hidden]", "y[batch, hidden]")";
const char* const kEinsums = R"("y = x w")";

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_layouts(text, "f.json"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}
std::string refused_rules(const std::string& rules) {
  return refusal(one_layout(kTensors, kEinsums, rules));
}

TEST(Polynomial, PrintsWhatItMeans) {
  const Symbols symbols{{"b", "d", "n"}, {6, 8, 2}};
  const Polynomial sum = Polynomial({1, 1, -1}) + Polynomial({0, 1, 0}, 3) + Polynomial({1, 1, -1});
  EXPECT_EQ(to_text(sum, symbols), "2*b*d/n + 3*d");
  EXPECT_DOUBLE_EQ(value(sum, symbols), 2 * 6.0 * 8 / 2 + 3 * 8);
  EXPECT_EQ(to_text(sum.without_constants(), symbols), "b*d/n + d");
  EXPECT_EQ(to_text(sum.divided_by({1, 1, -1}), symbols), "2 + 3*n/b");
  EXPECT_EQ(to_text(Polynomial({-1, -1, 0}, 3), symbols), "3/(b*d)");
  EXPECT_EQ(to_text(Polynomial({2, 0, -1}), symbols), "b*b/n");
  EXPECT_EQ(to_text(sum + sum.times(-1), symbols), "0");
  EXPECT_EQ(to_text(Polynomial(), symbols), "0");
}

// y = relu(x w) v: with h = relu(x w), dy is given, dh = dy v' and dv = h' dy, then dx = dh w' and
// dw = x' dh.
TEST(Gradients, AreEinsumsThemselves) {
  const LayoutFile file = load_layouts(kTwoLayer);
  std::vector<std::string> texts;
  for (const Einsum& einsum : file.program.einsums) texts.push_back(to_text(file.program, einsum));
  EXPECT_THAT(texts, ElementsAre("h = relu(x w)", "y = h v", "dh = (dy v) where h > 0", "dv = h dy",
                                 "dx = dh w", "dw = x dh"));
  EXPECT_EQ(file.program.forward, 2);
  // dw[io, hidden] = x[batch, io] dh[batch, hidden] sums over batch, dimension 0.
  EXPECT_THAT(reduced_dimensions(file.program, file.program.einsums[5]), ElementsAre(0));
}

// A tensor used by two einsums gets two contributions: the program writes its gradient twice.
TEST(Gradients, AddUpWhereATensorIsUsedTwice) {
  const std::string text =
      one_layout(R"("x[batch, io]", "w[io, hidden]", "h[batch, hidden]", "y[batch, io]")",
                 R"("h = x w", "y = h w")", "");
  const Program program = parse_layouts(text, "f.json").program;
  int writes = 0;
  for (const Einsum& einsum : program.einsums)
    writes += program.tensors[static_cast<std::size_t>(einsum.output)].name == "dw" ? 1 : 0;
  EXPECT_EQ(writes, 2);
}

// Mesh 2 x 4, batch on rows and hidden on cols: y[6, 12] is in blocks of 3 x 3; w[8, 12] is 8 x 3
// and the same on both rows. Processor 6 of row-major 0..7 is row 1, column 2.
TEST(Layout, SplitsOverItsMesh) {
  const LayoutFile file =
      parse_layouts(one_layout(kTensors, kEinsums, "batch:rows, hidden:cols"), "f.json");
  const Layout& layout = file.layouts[0];
  EXPECT_EQ(processors(layout), 8);
  EXPECT_THAT(coordinates(layout, 6), ElementsAre(1, 2));
  EXPECT_THAT(local_shape(file.program, layout, file.program.tensors[2]), ElementsAre(3, 3));
  EXPECT_THAT(local_shape(file.program, layout, file.program.tensors[1]), ElementsAre(8, 3));
  EXPECT_EQ(to_text(local_size(file.program, layout, {0, 2}), symbols(file.program, layout)),
            "batch*d_h/(rows*cols)");
  // dw sums over batch, which is on rows (mesh dimension 0).
  EXPECT_THAT(reduced_mesh_dimensions(file.program, layout, file.program.einsums[2]),
              ElementsAre(0));
  EXPECT_EQ(rules_text(file.program, layout), "batch:rows, hidden:cols");
}

TEST(Layout, IllegalOnesAreNamed) {
  EXPECT_EQ(refused_rules("batch:rows, io:rows"),
            "f.json: layouts[0].rules: tensor x[batch, io]: dimensions batch and io are both on "
            "mesh dimension rows");
  EXPECT_EQ(refused_rules("batch:cols"),
            "f.json: layouts[0].rules: tensor x[batch, io]: dimension batch of size 6 does not "
            "divide by the 4 of mesh "
            "dimension cols");
  EXPECT_EQ(refused_rules("batch:rows, hidden:cols"), "accepted");
}

// batch and hidden share no tensor, but the einsum needs every pair of their blocks.
TEST(Layout, DimensionsThatMeetOnlyInAnEinsumMayNotShareAMeshDimension) {
  const std::string text = one_layout(R"("a[batch, io]", "b[io, hidden]", "c[hidden]", "y[batch]")",
                                      R"("y = a b c")", "batch:rows, hidden:rows");
  EXPECT_EQ(refusal(text),
            "f.json: layouts[0].rules: einsum y = a b c: dimensions batch and hidden are both on "
            "mesh dimension rows");
}

TEST(LayoutFiles, RulesAreReadStrictly) {
  EXPECT_THAT(refused_rules("batch"),
              HasSubstr("expected as \"batch:rows,hidden:cols\", found \"batch\""));
  EXPECT_THAT(refused_rules("depth:rows"), HasSubstr("depth:rows: no dimension is called depth"));
  EXPECT_THAT(refused_rules("batch:planes"),
              HasSubstr("batch:planes: no mesh dimension is called planes"));
  EXPECT_THAT(refused_rules("batch:rows,batch:cols"),
              HasSubstr("batch:cols: dimension batch is there twice"));
  EXPECT_THAT(refused_rules("batch:rows,"), HasSubstr("found \"\""));
}

TEST(LayoutFiles, ProgramsAreReadStrictly) {
  const auto tensors = [](const std::string& list) {
    return refusal(one_layout(list, kEinsums, ""));
  };
  const auto einsums = [](const std::string& list) {
    return refusal(one_layout(kTensors, list, ""));
  };
  EXPECT_THAT(tensors("\"x(batch)\""),
              HasSubstr("tensors: expected as \"x[batch, io]\", found \"x(batch)\""));
  EXPECT_THAT(tensors(R"("x[batch, depth]")"), HasSubstr("tensor x: no dimension is called depth"));
  EXPECT_THAT(tensors(R"("x[io, io]")"), HasSubstr("tensor x: dimension io is there twice"));
  EXPECT_THAT(tensors(R"("x[io]", "x[io]")"), HasSubstr("tensors: x is there twice"));
  EXPECT_THAT(tensors(R"("x[io]")"), HasSubstr("dimensions: no tensor has dimension batch"));
  EXPECT_THAT(einsums(R"("y := x w")"),
              HasSubstr("einsums: expected as \"y = h v\" or \"h = relu(x w)\""));
  EXPECT_THAT(einsums("\"y = gelu(x w)\""), HasSubstr("found \"y = gelu(x w)\""));
  EXPECT_THAT(einsums(R"("y = x v")"), HasSubstr("y = x v: no tensor is called v"));
  EXPECT_THAT(einsums(R"("y = x x")"), HasSubstr("y = x x: x is there twice"));
  EXPECT_THAT(einsums(R"("y = x")"), HasSubstr("y = x: dimension io is in tensor x only"));
  EXPECT_THAT(einsums("\"y = relu(x w)\""),
              HasSubstr("no einsum uses the result, so it may not be a relu's"));
  EXPECT_THAT(einsums(R"("y = x w", "x = y w")"), HasSubstr("x = y w: x was used before"));
  EXPECT_THAT(einsums(R"("y = x w", "y = x w")"), HasSubstr("y = x w: y was computed before"));
  EXPECT_THAT(einsums(""), HasSubstr("einsums: expected 1 to 64 of them"));
  EXPECT_THAT(refusal(one_layout(std::string(kTensors) + R"(, "z[io]")", kEinsums, "")),
              HasSubstr("no einsum uses z"));
  EXPECT_THAT(refusal(one_layout(R"("dx[batch, io]", "x[io, hidden]", "y[batch, hidden]")",
                                 R"("y = dx x")", "")),
              HasSubstr("tensors: dx is the name of a gradient"));
}

TEST(LayoutFiles, KeysAreReadStrictly) {
  std::string text = read_text_file(kTwoLayer);
  EXPECT_EQ(refusal(text), "accepted");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return refusal(changed.replace(changed.find(from), from.size(), to));
  };
  EXPECT_THAT(with("weir.layout/1", "weir.layout/2"),
              HasSubstr("schema: expected \"weir.layout/1\""));
  EXPECT_THAT(with("\"note\"", "\"remark\""), HasSubstr("remark: unknown key"));
  EXPECT_THAT(with("\"size\": 512", "\"size\": 0"),
              HasSubstr("dimensions[0].size: expected an integer from 1"));
  EXPECT_THAT(with("\"symbol\": \"d_io\"", "\"symbol\": \"b\""),
              HasSubstr("symbol b stands for two dimensions"));
  EXPECT_THAT(with("\"symbol\": \"n\"", "\"symbol\": \"b\""),
              HasSubstr("layouts[0].mesh: symbol b stands for two"));
  EXPECT_THAT(with("\"name\": \"data\"", "\"name\": \"no split\""),
              HasSubstr("layouts[1].name: no split is there twice"));
  EXPECT_THAT(with("\"size\": 4", "\"size\": 1"),
              HasSubstr("layouts[0].mesh[0].size: expected an integer from 2"));
  EXPECT_THAT(with("\"size\": 4", "\"size\": 4194304"),
              HasSubstr("layouts[0].mesh: expected 1048576 processors"));
}

// 2^31 x 2^31 elements of 4 bytes are 2^64 bytes, 0 in 64 bits. 2^22 x 2^31 are the 2^53 allowed,
// but x[2^22, 2^22] w[2^22, 2^31] takes 2^75 multiply-adds.
TEST(LayoutFiles, ProductsOfSizesAreBounded) {
  const auto sized = [](std::int64_t batch, std::int64_t io, std::int64_t hidden) {
    std::string text = one_layout(kTensors, kEinsums, "");
    const auto set = [&](const std::string& from, std::int64_t size) {
      text.replace(text.find(from), from.size(), "\"size\": " + std::to_string(size));
    };
    set("\"size\": 6", batch);
    set("\"size\": 8", io);
    set("\"size\": 12", hidden);
    return refusal(text);
  };
  const std::int64_t largest = std::int64_t{1} << 31;
  EXPECT_EQ(sized(largest, largest, 12),
            "f.json: tensors: x[batch, io]: its sizes multiply to more than 9007199254740992");
  EXPECT_EQ(sized(1 << 21, 1 << 20, 1 << 21), "accepted");
  EXPECT_EQ(sized(1 << 22, 1 << 22, largest),
            "f.json: einsums: y = x w: its sizes multiply to more than 4611686018427387904");
  EXPECT_THAT(sized(6, 1 << 23, largest), HasSubstr("tensors: w[io, hidden]: its sizes"));
}

}  // namespace
}  // namespace weir::layout::layout_test
