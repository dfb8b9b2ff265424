// Printing and parsing of actions; `kWords` is in the order of ActionKind.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/action.hpp"

#include <array>
#include <charconv>

namespace weir {
namespace {

constexpr std::array<std::string_view, 13> kWords{
    "F",      "B",      "I",       "W",       "R",           "SEND_F",   "RECV_F",
    "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "OPTIMIZER"};

// A decimal number at the front of `text`, taken off it.
std::optional<std::int32_t> take_number(std::string_view& text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::string_view to_string(ActionKind kind) { return kWords[static_cast<std::size_t>(kind)]; }

std::string to_string(const Action& action) {
  std::string text = std::to_string(action.stage.value);
  text += to_string(action.kind);
  if (has_microbatch(action.kind)) text += std::to_string(action.microbatch.value);
  return text;
}

std::optional<Action> parse_action(std::string_view text) {
  const auto stage = take_number(text);
  if (!stage) return std::nullopt;
  const std::string_view word = text.substr(0, text.find_first_of("0123456789"));
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (word != kWords[i]) continue;
    text.remove_prefix(word.size());
    Action action{Stage{*stage}, static_cast<ActionKind>(i), Microbatch{-1}};
    if (has_microbatch(action.kind)) {
      const auto microbatch = take_number(text);
      if (!microbatch) return std::nullopt;
      action.microbatch = Microbatch{*microbatch};
    }
    if (!text.empty()) return std::nullopt;
    return action;
  }
  return std::nullopt;
}

}  // namespace weir
