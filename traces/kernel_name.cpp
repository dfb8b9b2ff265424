// A kernel's mangled symbol as the short name that people know it by.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kernel_name.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace weir {
namespace {

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : symbol;
}

void erase_all(std::string& text, std::string_view part) {
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at))
    text.erase(at, part.size());
}

}  // namespace

// One walk from left to right: within <> or () nothing counts, outside of them "::" and a blank
// begin the name anew and "(" ends it. Parentheses that belong to the name are taken out first.
std::string short_kernel_name(const std::string& symbol) {
  std::string text = demangled(symbol);
  erase_all(text, "(anonymous namespace)::");
  std::size_t begin = 0, end = text.size();
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' && depth == 0 && i > begin) {
      end = i;
      break;
    }
    if (c == '<' || c == '(') ++depth;
    if (c == '>' || c == ')') --depth;
    if (depth == 0 && (c == ' ' || c == ':')) begin = i + 1;
  }
  const std::string name = text.substr(begin, end - begin);
  return name.empty() ? text : name;
}

}  // namespace weir
