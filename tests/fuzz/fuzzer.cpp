// libFuzzer's way in. WEIR_FUZZ_TARGET names the target; without it, or with another name, the
// targets are listed.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/targets.hpp"

namespace {

const weir::fuzz::Target& chosen() {
  static const weir::fuzz::Target* const target = [] {
    const char* name = std::getenv("WEIR_FUZZ_TARGET");
    const auto* found = weir::fuzz::find_target(name == nullptr ? "" : name);
    if (found == nullptr) {
      for (const auto& each : weir::fuzz::targets())
        std::printf("%.*s\n", static_cast<int>(each.name.size()), each.name.data());
      std::exit(2);
    }
    return found;
  }();
  return *target;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(unsigned char* data, std::size_t size, std::size_t most);

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  static_cast<void>(chosen());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // What is refused is worth no more of the fuzzer's corpus than what is accepted.
  static_cast<void>(weir::fuzz::run(chosen().run, bytes));
  return 0;
}

// Where the target has a grammar, one input in four is a program of it or has lines of one in place
// of what stood there; else bytes change as libFuzzer changes them.
extern "C" std::size_t LLVMFuzzerCustomMutator(unsigned char* data, std::size_t size,
                                               std::size_t most, unsigned int seed) {
  const weir::fuzz::Grammar& grammar = chosen().grammar;
  if (grammar.program == nullptr || seed % 4 != 0) return LLVMFuzzerMutate(data, size, most);
  std::string text = grammar.program(seed);
  if (seed % 8 == 0) {
    // From a line's begin on: what was there goes on before it.
    const unsigned char* line = std::find(data, data + size, '\n');
    for (unsigned int skipped = seed / 8 % 16; skipped > 0 && line != data + size; --skipped)
      line = std::find(line + 1, static_cast<const unsigned char*>(data + size), '\n');
    text.insert(0, reinterpret_cast<const char*>(data), static_cast<std::size_t>(line - data));
  }
  const std::size_t length = std::min(text.size(), most);
  std::copy_n(text.begin(), length, data);
  return length;
}
