// Printing and parsing of actions.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/action.hpp"

#include <charconv>

#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<ActionKind, 16> kWords{{
    {ActionKind::F, "F"},
    {ActionKind::B, "B"},
    {ActionKind::I, "I"},
    {ActionKind::W, "W"},
    {ActionKind::R, "R"},
    {ActionKind::SEND_F, "SEND_F"},
    {ActionKind::RECV_F, "RECV_F"},
    {ActionKind::SEND_B, "SEND_B"},
    {ActionKind::RECV_B, "RECV_B"},
    {ActionKind::UNSHARD, "UNSHARD"},
    {ActionKind::RESHARD, "RESHARD"},
    {ActionKind::REDUCE_GRAD, "REDUCE_GRAD"},
    {ActionKind::OPTIMIZER, "OPTIMIZER"},
    {ActionKind::BROADCAST, "BROADCAST"},
    {ActionKind::ALL_REDUCE_F, "ALL_REDUCE_F"},
    {ActionKind::ALL_REDUCE_B, "ALL_REDUCE_B"},
}};

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

std::string_view to_string(ActionKind kind) { return name_of(kWords, kind); }

std::string to_string(const Action& action) {
  std::string text = std::to_string(action.stage.value);
  text += to_string(action.kind);
  if (has_microbatch(action.kind)) text += std::to_string(action.microbatch.value);
  if (is_skip(action)) text += ":" + std::to_string(action.other.value);
  return text;
}

std::optional<Action> parse_action(std::string_view text) {
  const auto stage = take_number(text);
  if (!stage) return std::nullopt;
  const std::string_view word = text.substr(0, text.find_first_of("0123456789"));
  const auto kind = named(kWords, word);
  if (!kind) return std::nullopt;
  text.remove_prefix(word.size());
  Action action{Stage{*stage}, *kind, Microbatch{-1}};
  if (has_microbatch(action.kind)) {
    const auto microbatch = take_number(text);
    if (!microbatch) return std::nullopt;
    action.microbatch = Microbatch{*microbatch};
  }
  if ((is_send(action.kind) || is_receive(action.kind)) && text.starts_with(':')) {
    text.remove_prefix(1);
    const auto other = take_number(text);
    if (!other) return std::nullopt;
    action.other = Stage{*other};
  }
  if (!text.empty()) return std::nullopt;
  return action;
}

}  // namespace weir
