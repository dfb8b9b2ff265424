// Reads layout files, strictly: names resolved, sizes bounded, every rule held to the program.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "plan/layout/einsum_text.hpp"
#include "plan/layout/network_json.hpp"
#include "plan/layout/network_text.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/indexed.hpp"

namespace weir::layout {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
constexpr std::size_t kMost = 64;  // dimensions, tensors, einsums, layouts
constexpr std::int64_t kMostProcessors = 1 << 20;
constexpr std::int64_t kMostElements = std::int64_t{1} << 53;      // of a tensor; its bytes fit too
constexpr std::int64_t kMostMultiplyAdds = std::int64_t{1} << 62;  // of an einsum

template <class Named>
int find(const std::vector<Named>& all, std::string_view name) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

// Dimension and MeshDimension alike: name, symbol, size.
template <class Sized>
std::vector<Sized> read_sizes(JsonObject& owner, std::string_view key, std::int64_t smallest) {
  std::vector<Sized> all;
  for (JsonObject object : owner.objects(key)) {
    Sized one;
    one.name = object.text("name");
    if (!is_name(one.name))
      object.fail("name", "expected letters, digits and _, beginning with no digit");
    if (find(all, one.name) >= 0) object.fail("name", fmt::format("{} is there twice", one.name));
    one.symbol = object.text_or("symbol", one.name);
    if (!is_name(one.symbol))
      object.fail("symbol", "expected letters, digits and _, beginning with no digit");
    one.size = object.integer("size", smallest, kLargestSize);
    object.finish();
    all.push_back(std::move(one));
  }
  if (all.empty() || all.size() > kMost)
    owner.fail(key, fmt::format("expected 1 to {} of them", kMost));
  return all;
}

void refuse_equal_symbols(const JsonObject& owner, std::string_view key, const Symbols& symbols) {
  std::set<std::string> seen;
  for (const std::string& symbol : symbols.names) {
    if (!seen.insert(symbol).second)
      owner.fail(key, fmt::format("symbol {} stands for two dimensions", symbol));
  }
}

// Division before each product: sizes of 2^31 would run over int64 after two of them.
void refuse_above(std::int64_t most, const JsonObject& top, std::string_view key,
                  const std::string& what, const Program& program,
                  const std::vector<int>& dimensions) {
  std::int64_t product = 1;
  for (const int d : dimensions) {
    const std::int64_t size = program.dimensions[d].size;
    if (size > most / product)
      top.fail(key, fmt::format("{}: its sizes multiply to more than {}", what, most));
    product *= size;
  }
}

void read_tensors(JsonObject& top, Program& program) {
  std::set<int> used;
  for (const std::string& text : top.texts("tensors")) {
    const auto parsed = parse_tensor(text);
    if (!parsed)
      top.fail("tensors",
               fmt::format("expected as \"x[batch, io]\", found \"{}\"", text.substr(0, 80)));
    if (find(program.tensors, parsed->name) >= 0)
      top.fail("tensors", fmt::format("{} is there twice", parsed->name));
    NamedTensor tensor{parsed->name, {}};
    for (const std::string& name : parsed->dimensions) {
      const int d = find(program.dimensions, name);
      if (d < 0)
        top.fail("tensors",
                 fmt::format("tensor {}: no dimension is called {}", parsed->name, name));
      if (has_dimension(tensor.dimensions, d)) {
        top.fail("tensors",
                 fmt::format("tensor {}: dimension {} is there twice", parsed->name, name));
      }
      tensor.dimensions.push_back(d);
      used.insert(d);
    }
    // Before anything is multiplied by it: sizes and bytes are held in 64 bits from here on.
    refuse_above(kMostElements, top, "tensors", to_text(program, tensor), program,
                 tensor.dimensions);
    program.tensors.push_back(std::move(tensor));
  }
  if (program.tensors.size() > kMost)
    top.fail("tensors", fmt::format("expected {} at most", kMost));
  for (std::size_t d = 0; d < program.dimensions.size(); ++d) {
    if (!used.contains(static_cast<int>(d))) {
      top.fail("dimensions", fmt::format("no tensor has dimension {}", program.dimensions[d].name));
    }
  }
}

// Every dimension of a tensor of an einsum must be in another of its tensors: without that the
// output would repeat itself, or a gradient would, and neither is an einsum.
void refuse_lonely_dimensions(const JsonObject& top, const Program& program, const Einsum& einsum) {
  std::vector<int> tensors = einsum.inputs;
  tensors.push_back(einsum.output);
  for (const int d : all_dimensions(program, einsum)) {
    const auto holds = [&](int t) { return has_dimension(program.tensors[t].dimensions, d); };
    if (std::ranges::count_if(tensors, holds) > 1) continue;
    const int owner = *std::ranges::find_if(tensors, holds);
    top.fail("einsums",
             fmt::format("{}: dimension {} is in tensor {} only", to_text(program, einsum),
                         program.dimensions[d].name, program.tensors[owner].name));
  }
}

void read_einsums(JsonObject& top, Program& program) {
  std::set<int> consumed;
  std::set<int> produced;
  for (const std::string& text : top.texts("einsums")) {
    const auto parsed = parse_einsum(text);
    if (!parsed) {
      top.fail("einsums", fmt::format("expected as \"y = h v\" or \"h = relu(x w)\", found \"{}\"",
                                      text.substr(0, 80)));
    }
    const auto tensor = [&](const std::string& name) {
      const int t = find(program.tensors, name);
      if (t < 0) top.fail("einsums", fmt::format("{}: no tensor is called {}", text, name));
      return t;
    };
    Einsum einsum;
    einsum.output = tensor(parsed->output);
    einsum.function = parsed->function;
    for (const std::string& name : parsed->inputs) {
      const int input = tensor(name);
      if (std::ranges::find(einsum.inputs, input) != einsum.inputs.end()) {
        top.fail("einsums", fmt::format("{}: {} is there twice", text, name));
      }
      einsum.inputs.push_back(input);
      consumed.insert(input);
    }
    if (consumed.contains(einsum.output)) {
      top.fail("einsums", fmt::format("{}: {} was used before", text, parsed->output));
    }
    if (!produced.insert(einsum.output).second) {
      top.fail("einsums", fmt::format("{}: {} was computed before", text, parsed->output));
    }
    refuse_lonely_dimensions(top, program, einsum);
    refuse_above(kMostMultiplyAdds, top, "einsums", text, program, all_dimensions(program, einsum));
    program.einsums.push_back(std::move(einsum));
  }
  if (program.einsums.empty() || program.einsums.size() > kMost) {
    top.fail("einsums", fmt::format("expected 1 to {} of them", kMost));
  }
  // A relu's gradient is masked by whoever hands it on: without a user nobody would.
  for (const Einsum& einsum : program.einsums) {
    if (einsum.function == Function::relu && !consumed.contains(einsum.output)) {
      top.fail("einsums", fmt::format("{}: no einsum uses the result, so it may not be a relu's",
                                      to_text(program, einsum)));
    }
  }
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (!consumed.contains(static_cast<int>(t)) && !produced.contains(static_cast<int>(t))) {
      top.fail("tensors", fmt::format("no einsum uses {}", program.tensors[t].name));
    }
  }
}

std::vector<MeshDimension> read_mesh(JsonObject& object) {
  // Formulas suppose that what is on a mesh dimension is split: one of size 1 would reduce nothing.
  auto mesh = read_sizes<MeshDimension>(object, "mesh", 2);
  std::int64_t processors = 1;
  for (const MeshDimension& dimension : mesh) {
    processors *= dimension.size;
    if (processors > kMostProcessors) {
      object.fail("mesh", fmt::format("expected {} processors at most", kMostProcessors));
    }
  }
  return mesh;
}

Layout read_layout(JsonObject& object, const Program& program) {
  Layout layout;
  layout.name = object.text("name");
  layout.mesh = read_mesh(object);
  try {
    layout.split_over = parse_rules(object.text("rules"), program, layout);
  } catch (const std::invalid_argument& error) {
    object.fail("rules", error.what());
  }
  object.finish();
  refuse_equal_symbols(object, "mesh", symbols(program, layout));
  if (const auto why = illegal(program, layout)) object.fail("rules", *why);
  return layout;
}

NetworkLayout read_network_layout(JsonObject& object, const Network& network) {
  NetworkLayout layout;
  layout.name = object.text("name");
  layout.mesh = read_mesh(object);
  try {
    set_network_rules(object.text("rules"), network, layout);
  } catch (const std::invalid_argument& error) {
    object.fail("rules", error.what());
  }
  object.finish();
  Symbols symbols;
  for (const Dimension& dimension : network.dimensions) symbols.names.push_back(dimension.symbol);
  for (const MeshDimension& dimension : layout.mesh) symbols.names.push_back(dimension.symbol);
  refuse_equal_symbols(object, "mesh", symbols);
  if (const auto why = illegal(network, layout)) object.fail("rules", *why);
  return layout;
}

// All of "layouts", each read by `read`.
template <class One, class Read>
void read_all(JsonObject& top, std::vector<One>& all, const Read& read) {
  for (JsonObject object : top.objects("layouts")) {
    One layout = read(object);
    if (find(all, layout.name) >= 0)
      object.fail("name", fmt::format("{} is there twice", layout.name));
    all.push_back(std::move(layout));
  }
  if (all.empty() || all.size() > kMost) {
    top.fail("layouts", fmt::format("expected 1 to {} of them", kMost));
  }
}

}  // namespace

std::vector<int> parse_rules(std::string_view rules, const Program& program, const Layout& layout) {
  std::vector<int> split_over(program.dimensions.size(), -1);
  for (const std::string& rule : pieces(rules, ',')) {
    const auto sides = pieces(rule, ':');
    if (sides.size() != 2 || !is_name(sides[0]) || !is_name(sides[1])) {
      throw std::invalid_argument(
          fmt::format("expected as \"batch:rows,hidden:cols\", found \"{}\"", rule));
    }
    const int d = find(program.dimensions, sides[0]);
    if (d < 0)
      throw std::invalid_argument(fmt::format("{}: no dimension is called {}", rule, sides[0]));
    const int mesh = find(layout.mesh, sides[1]);
    if (mesh < 0)
      throw std::invalid_argument(
          fmt::format("{}: no mesh dimension is called {}", rule, sides[1]));
    if (split_over[d] >= 0) {
      throw std::invalid_argument(fmt::format("{}: dimension {} is there twice", rule, sides[0]));
    }
    split_over[d] = mesh;
  }
  return split_over;
}

std::vector<MeshDimension> parse_mesh(std::string_view mesh) {
  std::vector<MeshDimension> dimensions;
  std::int64_t processors = 1;
  for (const std::string& one : pieces(mesh, ',')) {
    const auto sides = pieces(one, '=');
    std::int64_t size = 0;
    // At most seven digits, so that std::stoll always holds them.
    const bool number = sides.size() == 2 && !sides[1].empty() && sides[1].size() < 8 &&
                        std::ranges::all_of(sides[1], [](char c) { return c >= '0' && c <= '9'; });
    if (number) size = std::stoll(sides[1]);
    if (!number || !is_name(sides[0]) || size < 2) {
      throw std::invalid_argument(
          fmt::format("expected as \"d=4,m=2\", sizes of 2 or more, found \"{}\"", one));
    }
    if (find(dimensions, sides[0]) >= 0)
      throw std::invalid_argument(fmt::format("mesh dimension {} is there twice", sides[0]));
    processors *= size;
    if (processors > kMostProcessors)
      throw std::invalid_argument(fmt::format("expected {} processors at most", kMostProcessors));
    dimensions.push_back({sides[0], sides[0], size});
  }
  return dimensions;
}

LayoutFile parse_layouts(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  top.expect_schema("weir.layout/1");
  LayoutFile result;
  result.name = top.text("name");
  static_cast<void>(top.text_or("note", ""));
  Program program;
  program.dimensions = read_sizes<Dimension>(top, "dimensions", 1);
  refuse_equal_symbols(top, "dimensions", symbols(program, {}));
  // A file is of a network of layers, or of einsums alone.
  if (top.has("layers")) {
    result.network = read_layers(top, result.name, program.dimensions);
    read_all(top, result.network_layouts,
             [&](JsonObject& object) { return read_network_layout(object, *result.network); });
    top.finish();
    return result;
  }
  read_tensors(top, program);
  read_einsums(top, program);
  try {
    // Gradients are called dX for X, and the file may have given such a name away.
    result.program = with_backward(program);
  } catch (const std::invalid_argument& taken) {
    top.fail("tensors", fmt::format("{} is the name of a gradient", taken.what()));
  }
  read_all(top, result.layouts,
           [&](JsonObject& object) { return read_layout(object, result.program); });
  top.finish();
  return result;
}

LayoutFile load_layouts(const std::filesystem::path& file) {
  return parse_layouts(read_text_file(file), file.string());
}

}  // namespace weir::layout
