// Looks for pages that have a report's card, and lists them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/reports/reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/reports/index_page.hpp"
#include "tools/app/shared/files_below.hpp"
#include "tools/app/shared/provenance.hpp"

namespace weir::app {
namespace {

using Path = std::filesystem::path;

constexpr const char* kWhatReportsAre =
    "the pages that weir tune, weir evaluate and weir sweep --report write";

// A report is known by what stands at its begin, however long it is. What cannot be opened is none.
std::optional<ReportCard> card_in(const Path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string begin(kCardWithin, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  return card_of(begin, file.string());
}

// RFC 3986: all but unreserved characters and slashes is escaped, so no colon makes a scheme of
// what stands before it.
std::string as_address(const std::string& path) {
  static const std::set<char> kPlain{'-', '.', '_', '~', '/'};
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (std::isalnum(byte) != 0 || kPlain.contains(c));
    text += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return text;
}

ListedReport listed(const Path& file, const ReportCard& card, const Path& index) {
  const Path folder = std::filesystem::absolute(index).parent_path();
  const Path from_index =
      std::filesystem::absolute(file).lexically_normal().lexically_proximate(folder);
  // All are called report.html: the folder tells them apart.
  Path name = from_index;
  name.replace_extension();
  if (name.filename() == "report" && name.has_parent_path()) name = name.parent_path();
  return {file, name.string(), as_address(from_index.generic_string()), card};
}

std::vector<Path> pages_in(const Path& folder, const Session& session) {
  FilesBelow pages = files_below(folder, "unfinished",
                                 [](const Path& file) { return file.extension() == ".html"; });
  if (!pages.all) {
    session.note(fmt::format("{}: more files than are looked at: list a folder with fewer",
                             folder.string()));
  }
  return std::move(pages.found);
}

class Listing {
 public:
  Listing(const ReportsRequest& request, const Session& session) : r_(request), session_(session) {}

  void add_folder(const Path& folder) {
    for (const Path& file : pages_in(folder, session_)) {
      try {
        if (const auto card = card_in(file)) add(file, *card);
      } catch (const InputError& error) {
        // One that is damaged does not hide the others.
        session_.note(fmt::format("left out: {}", error.what()));
      }
    }
  }

  void add_file(const Path& file) {
    static_cast<void>(read_text_file(file));  // throws where it is none, or cannot be read
    const auto card = card_in(file);
    if (!card)
      throw InputError(file.string(), "", fmt::format("expected one of {}", kWhatReportsAre));
    add(file, *card);
  }

  [[nodiscard]] std::vector<ListedReport> reports() && {
    std::ranges::sort(reports_, [](const ListedReport& a, const ListedReport& b) {
      // The later day is the greater text.
      return std::tie(b.card.date, a.name) < std::tie(a.card.date, b.name);
    });
    return std::move(reports_);
  }

 private:
  void add(const Path& file, const ReportCard& card) {
    // A folder may be given twice, or within another.
    if (!seen_.insert(std::filesystem::weakly_canonical(file)).second) return;
    session_.guard(file);
    reports_.push_back(listed(file, card, r_.output));
  }

  const ReportsRequest& r_;
  const Session& session_;
  std::set<Path> seen_;
  std::vector<ListedReport> reports_;
};

}  // namespace

Fields fields(ReportsRequest& r) {
  return {{"folders", &r.folders, "Folders, or reports themselves", {.required = true}},
          {"-o,--output", &r.output, "HTML file to write", {.writes = Writes::file}}};
}

ReportsResult reports(const ReportsRequest& r, const Session& session) {
  Listing listing(r, session);
  for (const Path& given : r.folders)
    std::filesystem::is_directory(given) ? listing.add_folder(given) : listing.add_file(given);
  ReportsResult result{r.output, std::move(listing).reports()};
  if (result.reports.empty()) {
    throw InputError(r.folders.front().string(), "",
                     fmt::format("no report here: reports are {}", kWhatReportsAre));
  }
  write_file_atomically(session.output(r.output),
                        index_html(result.reports, provenance(session, 1)));
  return result;
}

nlohmann::ordered_json to_json(const ReportsResult& result) {
  nlohmann::ordered_json json{{"schema", "weir.reports/1"},
                              {"page", result.output.string()},
                              {"reports", nlohmann::ordered_json::array()}};
  for (const ListedReport& report : result.reports) {
    nlohmann::ordered_json row{{"file", report.file.string()}, {"name", report.name}};
    row.update(weir::to_json(report.card));
    json["reports"].push_back(std::move(row));
  }
  return json;
}

}  // namespace weir::app
