// What `serve` is asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace weir {

struct ServeRequest {
  std::filesystem::path folder = ".";
  int port = 0;  // 0: any that is free
  // Asked all the time: the signal that ends it, or 0. No field, as the next.
  std::function<int()> stopping;
  // Told the address, with the token, once requests are answered. What it throws ends the server:
  // without its link nobody can ask.
  std::function<void(const std::string& link)> ready;
};

}  // namespace weir
