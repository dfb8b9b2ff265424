// The frame of every report: one HTML file, no network.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// `title` is text, `body` is HTML.
[[nodiscard]] std::string html_page(const std::string& title, const std::string& body);

}  // namespace weir
