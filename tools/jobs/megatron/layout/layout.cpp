// Megatron's --pipeline-model-parallel-layout: repetitions written out, then one letter a layer.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/layout/layout.hpp"

#include <fmt/format.h>

#include <charconv>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::size_t kLongest = 1 << 20;  // of the text with all repetitions written out

class Expander {
 public:
  Expander(const std::string& text, const std::string& file, const std::string& key)
      : text_(text), file_(file), key_(key) {}

  std::string expand() {
    std::string all;
    while (at_ < text_.size()) {
      std::string item(1, text_[at_++]);
      if (item == "(") {
        const std::size_t close = text_.find(')', at_);
        if (close == std::string::npos) fail("a parenthesis is not closed");
        item = Expander(text_.substr(at_, close - at_), file_, key_).expand_flat();
        at_ = close + 1;
      }
      append_repeated(all, item);
    }
    return all;
  }

 private:
  std::string expand_flat() {
    if (text_.find('(') != std::string::npos) fail("parentheses in parentheses");
    return expand();
  }
  void append_repeated(std::string& all, const std::string& item) {
    std::size_t count = 1;
    if (at_ < text_.size() && text_[at_] == '*') {
      const char* first = text_.data() + at_ + 1;
      const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), count);
      if (error != std::errc{}) fail("expected a number after *");
      at_ += 1 + static_cast<std::size_t>(end - first);
    }
    // The count is checked before the product, which would overflow otherwise.
    if (count > kLongest || all.size() + count * item.size() > kLongest)
      fail("too many repetitions");
    for (std::size_t i = 0; i < count; ++i) all += item;
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(file_, key_, message);
  }

  std::string text_;
  const std::string& file_;
  const std::string& key_;
  std::size_t at_ = 0;
};

}  // namespace

MegatronLayout parse_layout(const std::string& text, const std::string& file,
                            const std::string& key) {
  const std::string all = Expander(text, file, key).expand();
  MegatronLayout layout{.blocks = {0}};
  int embeddings = 0, losses = 0;
  for (const char c : all) {
    if (losses > 0 && c != ',') throw InputError(file, key, "expected nothing after L");
    switch (c) {
      case 'E':
        ++embeddings;
        break;
      case 't':
        if (layout.predictions > 0) throw InputError(file, key, "expected no t behind m");
        ++layout.blocks.back();
        break;
      case 'm': {
        const int stage = static_cast<int>(layout.blocks.size()) - 1;
        if (layout.predictions++ > 0 && stage != layout.predicting)
          throw InputError(file, key, "expected all of m on one stage");
        layout.predicting = stage;
        break;
      }
      case 'L':
        ++losses;
        break;
      case '|':
        layout.blocks.push_back(0);
        break;
      case ',':
        break;
      default:
        throw InputError(file, key, fmt::format("'{}': expected E, t, m, L or |", c));
    }
  }
  if (embeddings != 1 || !all.starts_with('E'))
    throw InputError(file, key, "expected one E, first");
  if (losses != 1) throw InputError(file, key, "expected one L, last");
  return layout;
}

std::string to_layout(const MegatronLayout& layout) {
  const std::vector<int>& blocks = layout.blocks;
  std::string text = "E";
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    if (s > 0) text += '|';
    if (blocks[s] > 2) {
      text += fmt::format("t*{}", blocks[s]);
    } else {
      text.append(static_cast<std::size_t>(blocks[s]), 't');
    }
    if (static_cast<int>(s) == layout.predicting)
      text.append(static_cast<std::size_t>(layout.predictions), 'm');
  }
  return text + "L";
}

}  // namespace weir
