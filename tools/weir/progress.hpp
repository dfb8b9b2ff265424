// A progress bar on a terminal's stderr; nothing where stderr is a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <string>

namespace weir {

class ProgressBar {
 public:
  ProgressBar(std::string title, bool wanted)
      : title_(std::move(title)), shown_(wanted && isatty(STDERR_FILENO) != 0) {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() {
    if (shown_ && drawn_) fmt::print(stderr, "\r\x1b[K");
  }
  void show(int done, int of) {
    if (!shown_ || of <= 0) return;
    constexpr int kWidth = 40;
    const int filled = kWidth * done / of;
    fmt::print(stderr, "\r{:<10} [{}{}] {}/{} ", title_,
               std::string(static_cast<std::size_t>(filled), '#'),
               std::string(static_cast<std::size_t>(kWidth - filled), '.'), done, of);
    drawn_ = true;
  }

 private:
  std::string title_;
  bool shown_;
  bool drawn_ = false;
};

}  // namespace weir
