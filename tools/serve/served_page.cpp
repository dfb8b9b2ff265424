// The parts within the frame that reports have.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/served_page.hpp"

#include <fmt/format.h>

#include <string>

#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/app/shared/version.hpp"
#include "tools/report/page.hpp"

namespace weir {
namespace {

// The clusters that have a name, for the field that asks for one.
std::string options_of_clusters() {
  std::string options;
  for (const std::string& name : app::cluster_names())
    options += fmt::format("<option value=\"{}\">", name);
  return options;
}

}  // namespace

std::string served_page() {
  const ServedParts parts = served_parts();
  const std::string body = fmt::format(
      "<style>{}</style>\n{}<datalist id=\"clusters\">{}</datalist>\n<script>{}</script>\n",
      parts.style, parts.body, options_of_clusters(), parts.script);
  return html_page("Weir", body, {"weir serve", app::today(), app::version_line(), 1});
}

}  // namespace weir
