// What a torchtitan job says of a plan, in the words that its TOML and its registry share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/model/decoder.hpp"
#include "tools/jobs/job/export.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir {

struct TorchtitanJob {
  // Names, and values as TOML and Python both write them: numbers, texts in double quotes, lists.
  using Fields = std::vector<std::pair<std::string, std::string>>;
  std::string flavor;                     // of llama3; "weir" where none has the model's sizes
  std::optional<Decoder> own_sizes = {};  // of that one, where the files register it
  Fields rate, training, parallelism;
  std::string checkpointing;         // none, selective or full
  std::optional<int> rebuilt_every;  // of full: every so many blocks of a rank alone
  std::string schedule;              // of schedule.csv; empty: PyTorch has the order by name
};

// In the words of a version, 0.2 or main. Throws InputError where it does not run the plan.
[[nodiscard]] TorchtitanJob torchtitan_job(const ResolvedPlan& loaded, Trainer version,
                                           const Allowed& allowed, std::vector<Remark>& remarks);

}  // namespace weir
