// Readers of models in our own formats, strict throughout, and the choice between them and
// plan/model/hugging_face.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/readers/model_import.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "plan/model/cnn/read.hpp"
#include "plan/model/hugging_face/hugging_face.hpp"
#include "plan/model/limits.hpp"
#include "plan/model/readers/foreign_job.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "plan/model/readers/pipedream_graph.hpp"
#include "plan/text/cells.hpp"
#include "plan/text/python_json.hpp"
#include "plan/text/schema.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

std::int64_t size(JsonObject& object, std::string_view key) {
  return object.integer(key, 1, kLargestSize);
}

LayerShape listed_shape(JsonObject& layer, const std::string& kind) {
  if (kind == "embedding") {
    return EmbeddingShape{.vocabulary = size(layer, "vocabulary"),
                          .hidden = size(layer, "hidden"),
                          .positions = layer.integer_or("positions", 0, 0, kLargestSize),
                          .token_types = layer.integer_or("token_types", 0, 0, kLargestSize),
                          .norm = layer.boolean_or("norm", false),
                          .norm_epsilon = layer.number_or("norm_epsilon", 1e-12, 1e-12, 1),
                          .dropout = layer.number_or("dropout", 0, 0, 0.999),
                          .tied = layer.boolean_or("tied", false),
                          .scale = layer.number_or("scale", 1, 1e-6, 1e6)};
  }
  if (kind == "transformer") return listed_transformer(layer);
  if (kind == "norm") {
    return NormShape{.hidden = size(layer, "hidden"),
                     .kind = listed_norm(layer),
                     .epsilon = layer.number_or("norm_epsilon", 1e-5, 1e-12, 1)};
  }
  if (kind == "head") {
    return HeadShape{.vocabulary = size(layer, "vocabulary"),
                     .hidden = size(layer, "hidden"),
                     .bias = layer.boolean_or("bias", false),
                     .tied = layer.boolean_or("tied", false)};
  }
  if (kind == "sized") {
    return SizedShape{.parameters = layer.integer_or("parameters", 0),
                      .forward = Flops(layer.number_or("flops_forward", 0, 0, 1e18)),
                      .input = layer.integer_or("input", 0),
                      .keeps_input = layer.boolean_or("keeps_input", false),
                      .kept = layer.integer_or("kept", 0),
                      .output = layer.integer("output")};
  }
  if (kind != "timed") {
    layer.fail("kind",
               fmt::format("\"{}\": expected embedding, transformer, norm, head, sized or timed",
                           kind.substr(0, 40)));
  }
  return TimedShape{
      .forward = Seconds(layer.number("forward_s", 0, kLongestLayer.count())),
      .backward_input = Seconds(layer.number("backward_input_s", 0, kLongestLayer.count())),
      .backward_weight = Seconds(layer.number("backward_weight_s", 0, kLongestLayer.count())),
      .parameters = layer.integer_or("parameters", 0),
      .activation = Bytes(layer.integer_or("activation_bytes", 0)),
      .boundary = Bytes(layer.integer_or("boundary_bytes", 0))};
}

void append_copies(Model& model, const Layer& layer, std::int64_t count, const std::string& file) {
  if (static_cast<std::int64_t>(model.layers.size()) + count > kMostLayers) {
    throw InputError(file, layer.name, fmt::format("more than {} layers", kMostLayers));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    model.layers.push_back(layer);
    if (count > 1) model.layers.back().name = fmt::format("{}.{}", layer.name, i);
  }
}

// The hidden width a layer takes and gives; 0 where it has none.
std::int64_t width(const Layer& layer) {
  return std::visit(
      [](const auto& shape) -> std::int64_t {
        if constexpr (requires { shape.hidden; }) return shape.hidden;
        return 0;
      },
      layer.shape);
}

void check_sequence(const Model& model, const std::string& file) {
  if (model.layers.empty()) throw InputError(file, "layers", "expected at least one layer");
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const bool first = i == 0, last = i + 1 == model.layers.size();
    if (std::holds_alternative<EmbeddingShape>(layer.shape) && !first) {
      throw InputError(file, layer.name, "an embedding must be the first layer");
    }
    if (std::holds_alternative<HeadShape>(layer.shape) && !last) {
      throw InputError(file, layer.name, "a head must be the last layer");
    }
    if (!first && width(layer) != width(model.layers[i - 1])) {
      throw InputError(file, layer.name, "its hidden width differs from that of the layer before");
    }
  }
  const auto* embedding = std::get_if<EmbeddingShape>(&model.layers.front().shape);
  const auto* head = std::get_if<HeadShape>(&model.layers.back().shape);
  if ((embedding != nullptr && embedding->tied) != (head != nullptr && head->tied)) {
    throw InputError(file, "tied", "embedding and head must both be tied, or neither");
  }
  if (head != nullptr && head->tied && head->vocabulary != embedding->vocabulary) {
    throw InputError(file, "vocabulary", "a tied embedding and head have one vocabulary");
  }
}

// Skips name layers by their place in the list after `count` has been applied, from 0.
void read_skips(JsonObject& top, Model& model) {
  if (!top.has("skips")) return;
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  for (JsonObject& entry : top.objects("skips")) {
    const auto from = static_cast<std::int32_t>(entry.integer("from", 0, layers - 1));
    const auto to = static_cast<std::int32_t>(entry.integer("to", 0, layers - 1));
    if (to <= from + 1) entry.fail("to", fmt::format("expected a layer after {}", from + 1));
    std::optional<Bytes> bytes;
    if (entry.has("bytes")) bytes = Bytes(entry.integer("bytes"));
    entry.finish();
    model.skips.push_back({from, to, bytes});
  }
}

Model layer_list(const Json& json, const std::string& file) {
  JsonObject top(json, file, "");
  top.expect_schema("weir.layers/1");
  Model model;
  model.family = "layers";
  model.name = top.text_or("name", "");
  model.seq_length = top.integer_or("seq_length", 0, 0, kLargestSize);
  model.initializer_range = top.number_or("initializer_range", 0.02, 0, 10);
  for (JsonObject& layer : top.objects("layers")) {
    const std::string kind = layer.text("kind");
    const bool labelled = kind == "timed" || kind == "sized";
    Layer made{layer.text("name"), listed_shape(layer, kind),
               labelled ? layer.text_or("label", kind) : ""};
    const std::int64_t count = layer.integer_or("count", 1, 1, kMostLayers);
    layer.finish();
    append_copies(model, made, count, file);
  }
  read_skips(top, model);
  top.finish();
  check_sequence(model, file);
  // Learned positions bound the length, and are it where nothing else is said.
  if (const auto* embedding = std::get_if<EmbeddingShape>(&model.layers.front().shape)) {
    model.max_positions = embedding->positions;
    if (model.seq_length == 0) model.seq_length = embedding->positions;
  }
  if (width(model.layers.front()) > 0 && model.seq_length == 0)
    top.fail("seq_length", "is missing");
  return model;
}

constexpr std::array<std::string_view, 9> kCsvColumns{
    "name",           "kind", "parameters", "f_ms", "i_ms", "w_ms", "activation_bytes",
    "boundary_bytes", "count"};

class CsvRow {
 public:
  CsvRow(const std::vector<std::string>& cells, const std::string& file, std::size_t line)
      : cells_(cells), file_(file), line_(line) {}
  [[nodiscard]] double number(std::size_t column) const {
    const std::string& cell = cells_[column];
    const auto value = whole_number<double>(cell);
    if (!value || !(*value >= 0) || *value > 1e15)
      fail(column, fmt::format("\"{}\": expected a number of at least 0", cell.substr(0, 40)));
    return *value;
  }
  // As long as a layer list's times may be.
  [[nodiscard]] Seconds milliseconds(std::size_t column) const {
    const double value = number(column);
    if (value > kLongestLayer.count() * 1e3)
      fail(column, fmt::format("expected at most {} ms", kLongestLayer.count() * 1e3));
    return Seconds(value / 1e3);
  }
  [[nodiscard]] std::int64_t integer(std::size_t column) const {
    const double value = number(column);
    if (value != std::floor(value)) fail(column, "expected an integer");
    return static_cast<std::int64_t>(value);
  }
  [[noreturn]] void fail(std::size_t column, const std::string& message) const {
    throw InputError(file_, fmt::format("line {}: {}", line_, kCsvColumns[column]), message);
  }

 private:
  const std::vector<std::string>& cells_;
  const std::string& file_;
  std::size_t line_;
};

Model layers_csv(const std::string& text, const std::string& file) {
  Model model;
  model.family = "timed";
  std::istringstream in(without_byte_order_mark(text));
  std::string line;
  std::size_t number = 0;
  while (std::getline(in, line)) {
    ++number;
    if (trimmed(line).empty()) continue;
    const auto cells = split_cells(line);
    if (cells.size() != kCsvColumns.size()) {
      throw InputError(
          file, fmt::format("line {}", number),
          fmt::format("expected {} columns, found {}", kCsvColumns.size(), cells.size()));
    }
    // The header must be there, so that no column is taken for another.
    if (number == 1) {
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (cells[i] != kCsvColumns[i]) {
          throw InputError(
              file, "line 1",
              fmt::format("expected the column {} in place {}", kCsvColumns[i], i + 1));
        }
      }
      continue;
    }
    const CsvRow row(cells, file, number);
    if (cells[0].empty()) row.fail(0, "expected a name");
    const TimedShape shape{.forward = row.milliseconds(3),
                           .backward_input = row.milliseconds(4),
                           .backward_weight = row.milliseconds(5),
                           .parameters = row.integer(2),
                           .activation = Bytes(row.integer(6)),
                           .boundary = Bytes(row.integer(7))};
    const std::int64_t count = row.integer(8);
    if (count < 1) row.fail(8, "expected at least 1");
    append_copies(model, {cells[0], shape, cells[1]}, count, file);
  }
  if (number == 0) throw InputError(file, "", "is empty, expected a header and layers");
  check_sequence(model, file);
  return model;
}

// The JSON of a model. Another tool's job is refused by the tool's name.
Json parsed_model(const std::string& text, const std::string& file) {
  const auto refuse_job = [&] {
    const ForeignTool tool = foreign_tool(text);
    if (tool.name.empty()) return;
    const std::string how = tool.reader.empty()
                                ? std::string()
                                : fmt::format(": the importer {} reads it", tool.reader);
    throw InputError(file, "", fmt::format("is a job of {}, expected a model{}", tool.name, how));
  };
  try {
    Json json = parse_json(without_python_numbers(text), file);
    // A model says what it is; only a file that does not may be another tool's job.
    const bool a_model =
        json.is_object() && (json.contains("schema") || json.contains("model_type"));
    if (!a_model) refuse_job();
    return json;
  } catch (const InputError&) {
    refuse_job();
    throw;
  }
}

// Every model of Hugging Face is a config.json: the folder tells them apart. In its own cache that
// is a commit's: models--Qwen--Qwen3-8B/snapshots/COMMIT.
std::string folder_name(const std::filesystem::path& file) {
  const std::filesystem::path folder =
      std::filesystem::absolute(file).lexically_normal().parent_path();
  const std::string cached = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() == "snapshots" && cached.starts_with("models--"))
    return cached.substr(cached.rfind("--") + 2);
  return folder.filename().string();
}

}  // namespace

Model load_model(const std::filesystem::path& file) {
  return parse_model(read_text_file(file), file);
}

Model parse_model(const std::string& text, const std::filesystem::path& file) {
  Model model;
  if (file.extension() == ".csv") {
    model = layers_csv(text, file.string());
  } else if (file.extension() == ".txt") {
    model = pipedream_model(text, file.string());
  } else {
    const Json json = parsed_model(text, file.string());
    if (!json.is_object()) throw InputError(file.string(), "", "expected an object");
    if (!json.contains("schema")) {  // ours all have one, Hugging Face's have none
      model = hugging_face_model(json, file.string());
    } else {
      model = has_schema(json, "weir.cnn/1") ? cnn_model(json, file.string())
                                             : layer_list(json, file.string());
    }
  }
  if (model.name.empty()) {
    model.name = file.stem() == "config" && file.has_parent_path() ? folder_name(file)
                                                                   : file.stem().string();
  }
  return model;
}

}  // namespace weir
