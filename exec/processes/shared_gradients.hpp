// Gradients of weights that several ranks have, tied ones and those of copies of stages, where
// ranks are processes: each rank adds up those of all uses. It does so piece by piece in the place
// of its own, so that nothing but a piece of each other use is ever held beside them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "exec/processes/processes.hpp"
#include "exec/training/gradient_copies.hpp"
#include "exec/training/gradient_peers.hpp"
#include "plan/program/program.hpp"

namespace weir {

// Uses, all but the first, of weights that several ranks have: after `sum` the first use's gradient
// has theirs in it.
[[nodiscard]] std::set<GradientKey> summed_with_first(const Program& program,
                                                      const GradientCopies& copies);

class SharedGradients {
 public:
  SharedGradients(const Program& program, const GradientCopies& copies, Rank own);

  // Parameters of this rank whose gradients are sums after `sum`.
  [[nodiscard]] const std::set<GradientKey>& summed() const { return summed_; }

  // How this rank reaches the others and its own gradients, of which `gradient` gives what is to be
  // summed: as many numbers for all uses of a weight. Tags are the same on all ranks, one a use.
  struct Ends {
    Processes& processes;
    std::function<int(Rank)> process_of;
    std::function<int(const GradientKey&)> tag;
    std::function<std::span<float>(const GradientKey&)> gradient;
  };
  // Called by all ranks. Terms are added in the order of uses, so that all find the same bits.
  void sum(const Ends& ends);

 private:
  struct Use {
    GradientKey key;
    Rank rank;
  };
  struct Weight {
    std::vector<Use> uses;
    std::vector<GradientKey> own;  // this rank's first use of it in each of its stages
    std::set<Rank> others;         // ranks
  };
  void sum(const Weight& weight, const Ends& ends);
  void sum_piece(const Weight& weight, const Ends& ends, std::size_t first, std::size_t count);

  Rank own_;
  // By first use: all ranks take them in one order, so that none waits for one that waits for it.
  std::map<GradientKey, Weight> weights_;
  std::set<GradientKey> summed_;
  std::vector<float> arrived_, total_;  // pieces: of each other rank's use, and the sum
};

}  // namespace weir
