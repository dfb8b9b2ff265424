// What a session knows of its request, for pages.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/provenance.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "plan/text/cells.hpp"
#include "tools/app/shared/version.hpp"

namespace weir::app {

std::string today() {
  using namespace std::chrono;
  // Nothing here sets the environment.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const char* const given = std::getenv("SOURCE_DATE_EPOCH");
  const auto epoch = whole_number<std::uint32_t>(given != nullptr ? given : "");
  const auto now = epoch ? sys_seconds(seconds(*epoch)) : floor<seconds>(system_clock::now());
  const year_month_day day(floor<days>(now));
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()),
                     static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
}

Provenance provenance(const Session& session, std::uint64_t seed) {
  return {session.command, session.date, version_line(), seed};
}

}  // namespace weir::app
