// libFuzzer's way in. WEIR_FUZZ_TARGET names the target; without it, or with another name, the
// targets are listed.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

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

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  static_cast<void>(chosen());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // What is refused is worth no more of the fuzzer's corpus than what is accepted.
  static_cast<void>(weir::fuzz::run(chosen(), bytes));
  return 0;
}
