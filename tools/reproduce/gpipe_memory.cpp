// GPipe, Table 1: the parameters of its largest models, and the memory they take at 12 bytes each
// (fp32 weight, gradient average and momentum of RMSProp).
//
// The Transformer has no learned positions (sinusoids), a norm after the last block, and a softmax
// of its own with a bias: L (12 d^2 + 13 d) + 2 V d + V + 2 d.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/cnn/network.hpp"
#include "plan/model/model.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

constexpr double kBytesPerParameter = 12;

Model gpipe_transformer(std::int64_t layers, std::int64_t width) {
  constexpr std::int64_t kVocabulary = 32000;
  TransformerShape block;
  block.hidden = width;
  block.heads = block.kv_heads = 32;
  block.head_dim = width / block.heads;
  block.ffn = 4 * width;
  Model model;
  EmbeddingShape embedding;
  embedding.vocabulary = kVocabulary;
  embedding.hidden = width;
  model.layers.push_back({"embedding", embedding, ""});
  for (std::int64_t l = 0; l < layers; ++l)
    model.layers.push_back({fmt::format("block.{}", l), block, ""});
  NormShape norm;
  norm.hidden = width;
  model.layers.push_back({"norm", norm, ""});
  HeadShape head;
  head.vocabulary = kVocabulary;
  head.hidden = width;
  head.bias = true;
  model.layers.push_back({"head", head, ""});
  return model;
}

void add_transformer(CaseResult& result, const PublishedRow& row) {
  const std::string name = "Transformer " + row.text("column");
  const auto parameters = static_cast<double>(
      parameter_count(gpipe_transformer(row.integer("layers"), row.integer("width"))));
  // The Transformer's column is in GiB by its own arithmetic, AmoebaNet's in GB.
  const double gib = parameters * kBytesPerParameter / (1 << 30);
  result.add(Role::formula, {name, "parameters", row.printed("parameters"), parameters});
  const Printed memory = row.printed("parameter_memory"),
                activations = row.printed("activation_memory");
  // Parameters take more than the whole printed memory can be off by: the two columns stand in each
  // other's place.
  if (memory.value > 2 * gib && activations.rounded(gib) == activations.value) {
    result.add_anomaly(
        {name, "parameter memory, GiB", memory, gib},
        fmt::format(
            "the columns are swapped in print: 12 B a parameter is {:.2f} GiB, which stands under "
            "peak activation memory",
            gib));
    result.add(Role::predicted,
               {name, "parameter memory, GiB (printed under activations)", activations, gib});
  } else {
    result.add(Role::predicted, {name, "parameter memory, GiB", memory, gib});
  }
}

void add_amoebanet(CaseResult& result, const PublishedRow& row) {
  const std::string name = "AmoebaNet-D " + row.text("column");
  const Model model = cnn::amoebanet_d(row.integer("layers"), row.integer("width"), {}, 1000);
  const auto parameters = static_cast<double>(parameter_count(model));
  const double gb = parameters * kBytesPerParameter / 1e9;
  const Printed printed = row.printed("parameters"), memory = row.printed("parameter_memory");
  result.add(Role::predicted, {name, "parameters", printed, parameters});
  // What the paper's own two columns say of each other, allowing for the rounding of the first.
  const double most = (printed.value + printed.last_digit / 2) * kBytesPerParameter / 1e9;
  // 5 % beyond what rounding can explain: the two columns cannot both be right.
  if (memory.value > 1.05 * most) {
    result.add_anomaly(
        {name, "parameter memory, GB", memory, gb},
        fmt::format(
            "the paper contradicts itself: its own count of parameters takes at most {:.2f} GB at "
            "12 B each",
            most));
  } else {
    result.add(Role::predicted, {name, "parameter memory, GB", memory, gb});
  }
}

}  // namespace

CaseResult reproduce_gpipe_memory(const Publications& published) {
  CaseResult result;
  for (const PublishedRow& row : published.table("gpipe-table1.csv")) {
    row.text("model") == "transformer" ? add_transformer(result, row) : add_amoebanet(result, row);
  }
  result.notes.emplace_back(
      "Transformer: V = 32000, no learned positions, softmax with bias; GiB. AmoebaNet-D: "
      "torchgpipe's network; GB.");
  result.notes.emplace_back(
      "Peak activation memory is left out: micro-batches, number format and XLA's temporaries are "
      "not stated.");
  return result;
}

}  // namespace weir
