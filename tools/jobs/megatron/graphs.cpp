// What a Megatron job launches as CUDA graphs (core/transformer/cuda_graph_config.py and
// transformer_config.py, cuda_graph_impl, @d98e8a64ddf3), by today's names and earlier ones.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {

// Words of a list, "attn moe_router", "[attn,mlp]" or "[CudaGraphScope.attn]".
std::vector<std::string> graph_words(std::string list) {
  std::ranges::replace_if(
      list, [](char c) { return c == ',' || c == '[' || c == ']'; }, ' ');
  std::erase_if(list, [](char c) { return c == '\'' || c == '"'; });
  std::istringstream text(list);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word.substr(word.rfind('.') + 1));
  return words;
}

// Where the implementation is Megatron's own, router and preprocessing are one.
CudaGraphs of_modules(const std::vector<std::string>& words, bool own,
                      std::vector<Remark>& remarks) {
  CudaGraphs graphs;
  for (const std::string& word : words) {
    const auto part = named(kGraphParts, word);
    if (!part) {
      remarks.push_back({"cuda-graph-modules",
                         fmt::format("{}: no part of a plan's blocks", word.substr(0, 40))});
      continue;
    }
    graphs.add(*part);
    const bool both = *part == GraphPart::moe_router || *part == GraphPart::moe_preprocess;
    if (own && both) graphs.add(GraphPart::moe_router).add(GraphPart::moe_preprocess);
  }
  return graphs;
}

}  // namespace

void set_graphs(Arguments& a, Job& job) {
  std::string kind = a.text_or("cuda-graph-impl", "none");
  if (a.flag("enable-cuda-graph") && kind == "none") kind = "local";
  if (a.flag("external-cuda-graph") && kind == "none") kind = "transformer_engine";
  const bool named_modules = a.says("cuda-graph-modules");
  const char* const list = named_modules ? "cuda-graph-modules" : "cuda-graph-scope";
  std::vector<std::string> words = graph_words(a.values(list));
  for (const char* name : {"cuda-graph-modules", "cuda-graph-scope", "cuda-graph-warmup-steps",
                           "inference-cuda-graph-scope"})
    static_cast<void>(a.flag(name));
  if (kind == "none") return;
  if (kind != "local" && kind != "transformer_engine" && kind != "full_iteration")
    a.fail("cuda-graph-impl", "expected none, local, transformer_engine or full_iteration");
  const auto takes = [&](std::string_view word) { return std::erase(words, word) > 0; };
  if (kind == "full_iteration" || takes("full_iteration")) {
    job.plan.cuda_graphs = CudaGraphs::of_step();
    return;
  }
  // Of inference alone.
  const bool inference = takes("full_iteration_inference");
  if (takes("full") || (words.empty() && !inference)) {
    job.plan.cuda_graphs = CudaGraphs::of_blocks();
    return;
  }
  job.plan.cuda_graphs = of_modules(words, kind == "local", job.remarks);
  if (const auto why = cannot_record(job.plan.cuda_graphs)) a.fail(list, std::string(*why));
}

}  // namespace weir
