// The table of generators.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/generators.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "plan/schedule/generators/most_cells.hpp"
#include "plan/words/nearest.hpp"

namespace weir {
namespace {

constexpr std::array kGenerators{
    Generator{"gpipe", "Huang et al., GPipe, NeurIPS 2019, Figure 2c", "(K-1)(F+B)", "M", 1, 1,
              true, 1, make_gpipe},
    Generator{"1f1b",
              "Narayanan et al., PipeDream, SOSP 2019, section 3.2; flushed as in Megatron-LM, SC "
              "2021, 2.2.1",
              "(K-1)(F+B)", "min(M, K-k)", 1, 1, true, 1, make_1f1b},
    Generator{"1f1b-eager", "Fan et al., DAPPLE, PPoPP 2021, policy B", "(K-1)(F+B)",
              "min(M, 2(K-k)-1)", 1, 1, true, 1, make_1f1b_eager},
    Generator{"interleaved-1f1b", "Narayanan et al., Megatron-LM, SC 2021, section 2.2.2",
              "(K-1)(F+B)/v", "min(Mv, 2(K-k-1)+(v-1)K+1) chunks", 1, 2, false, 1,
              make_interleaved_1f1b},
    Generator{"interleaved-zb", "PyTorch, ScheduleInterleavedZeroBubble; Qi et al., ICLR 2024",
              "by simulation: none is published for v > 1", "min(M, K) v chunks", 1, 2, false, 1,
              make_interleaved_zb},
    Generator{"looped-bfs", "Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023",
              "(max(M,K)(v-1)+M+K-1-Mv)(F+B)/v", "Mv chunks", 1, 2, false, 1, make_looped_bfs},
    Generator{"zb-h1", "Qi et al., Zero Bubble, ICLR 2024, section 2.1", "(K-1)(F+I-W)",
              "min(M, K)", 1, 1, true, 1, make_zb_h1},
    Generator{"zb-h2", "Qi et al., Zero Bubble, ICLR 2024, section 2.2", "(K-1)(F+I-2W) by span",
              "min(M, 2K-1)", 1, 1, true, 1, make_zb_h2},
    Generator{"zb-v",
              "Qi et al., Controllable Memory, NeurIPS 2024; PyTorch, ScheduleZBVZeroBubble",
              "0 by span at F = I = W, from M = 2K-1 on; below by list scheduling",
              "at most 2K chunks", 1, 2, true, 1, make_zb_v},
    Generator{"v-half", "Qi et al., Controllable Memory, NeurIPS 2024, V-Half building block",
              "about (K-1)(F+B)/2 as published; without its reordering pass 0.6 to 0.7 of 1f1b's",
              "2 floor((K+2)/2) chunks or fewer", 1, 2, true, 1, make_v_half},
    Generator{"v-min", "Qi et al., Controllable Memory, NeurIPS 2024, V-Min building block",
              "about 2(K-1)(F+B)/3 at F = I = W, more where they differ",
              "2 floor((K+4)/3) chunks or fewer", 1, 2, true, 1, make_v_min},
    Generator{"dualpipev", "DeepSeek-V3 technical report, 2024, and its V cut",
              "at most (K-1)(F+B+B-3W) of a chunk", "2K+1 chunks", 1, 2, true, 1, make_dualpipev},
    Generator{"dualpipe", "DeepSeek-V3 technical report, 2024, section 3.2.1",
              "at most (K/2-1)(F+B+B-3W)", "K+1", 2, 1, true, 1, make_dualpipe},
    Generator{"seq1f1b", "Sun et al., Seq1F1B, 2024; S slices a sequence", "(K-1)(F+B)/S",
              "min(MS, K-k-1+S) slices", 1, 1, true, 2, make_seq_1f1b},
    Generator{"chimera", "Li & Hoefler, Chimera, SC 2021; by list scheduling",
              "(K-2)/2 (F+B) at M = K", "at most K", 2, 1, true, 1, make_chimera},
    Generator{"hanayo", "Liu et al., Hanayo, SC 2023; by list scheduling",
              "by simulation: no closed form is published for any M", "at most 1.5 Kv chunks", 1, 2,
              false, 1, make_hanayo},
};

constexpr std::array kVocabularyGenerators{
    Generator{"vocab-1", "Yeung et al., Vocabulary Parallelism, arXiv 2411.05288, algorithm 1",
              "(K-1)(F+B) for B >= 2F", "min(M, K-k+2)", 1, 1, true, 1, make_vocab_1},
    Generator{"vocab-2", "Yeung et al., Vocabulary Parallelism, arXiv 2411.05288, algorithm 2",
              "(K-1)(F+B) for B >= 2F", "min(M, K-k+1)", 1, 1, true, 1, make_vocab_2},
    Generator{"interlaced", "Lin et al., nnScaler, OSDI 2024; as in sail-sg/VocabularyParallelism",
              "(K-1)(F+B), and all-reduces", "min(M, floor(3K/2)-k)", 1, 1, true, 1,
              make_interlaced},
};

}  // namespace

std::span<const Generator> generators() { return kGenerators; }
std::span<const Generator> vocabulary_generators() { return kVocabularyGenerators; }

const Generator* find_generator(std::string_view name) {
  // The words of sail-sg/VocabularyParallelism's artifact/full_exp.sh.
  if (name == "synctwice") name = "vocab-1";
  if (name == "vocab") name = "vocab-2";
  for (const auto all : {generators(), vocabulary_generators()}) {
    const auto found = std::ranges::find(all, name, &Generator::name);
    if (found != all.end()) return &*found;
  }
  return nullptr;
}

bool divides_vocabulary(std::string_view schedule) {
  const Generator* generator = find_generator(schedule);
  return std::ranges::any_of(vocabulary_generators(),
                             [&](const Generator& one) { return &one == generator; });
}

ScheduleOrReason make_schedule(std::string_view name, const ScheduleRequest& request) {
  const std::int64_t units = std::int64_t{request.microbatches} * request.slices;
  if (request.ranks < 1 || request.chunks < 1 || request.microbatches < 1 || request.slices < 1) {
    return std::string("K, v, M and slices must be at least 1");
  }
  const std::int64_t stages = std::int64_t{request.ranks} * request.chunks;
  if (stages > kMostCells || units > kMostCells || stages * units > kMostCells) {
    return fmt::format("K v M = {} {} {}{} is too many micro-batches on their stages, at most {}",
                       request.ranks, request.chunks, request.microbatches,
                       request.slices > 1 ? fmt::format(", {} slices", request.slices) : "",
                       kMostCells);
  }
  if (const Generator* generator = find_generator(name)) {
    if (request.slices > 1 && generator->default_slices == 1)
      return fmt::format("{}: slices = {}, and it does not slice sequences", name, request.slices);
    return generator->make(request);
  }
  std::vector<std::string> known;
  for (const auto all : {generators(), vocabulary_generators()}) {
    for (const Generator& generator : all) known.emplace_back(generator.name);
  }
  name = name.substr(0, 40);
  return fmt::format("unknown schedule \"{}\"; known: {}{}", name, fmt::join(known, ", "),
                     did_you_mean(name, known));
}

}  // namespace weir
