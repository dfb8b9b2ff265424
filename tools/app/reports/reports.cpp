// Looks for pages that have a report's card, and lists them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/reports/reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <tuple>

#include "plan/text/quote.hpp"
#include "plan/text/text_file.hpp"
#include "plan/text/utf8.hpp"
#include "plan/words/error.hpp"
#include "tools/app/reports/index_page.hpp"
#include "tools/app/shared/files_below.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/report/page.hpp"

namespace weir::app {
namespace {

using Path = std::filesystem::path;

constexpr const char* kWhatReportsAre =
    "the pages that weir tune, weir evaluate and weir sweep --report write";

// A report is known by what stands at its begin, however long it is; nothing of what cannot be
// read.
std::optional<std::string> begin_of(const Path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::string begin(kCardWithin, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (in.bad()) return std::nullopt;
  begin.resize(static_cast<std::size_t>(in.gcount()));
  return begin;
}

// Throws where the page's last words are missing: a copy that ended early, a disk that was full.
void require_whole(const Path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  // The end may have new lines behind it.
  const std::streamoff size = in.tellg(), kept = 2 * std::ssize(kPageEnd);
  std::string end(static_cast<std::size_t>(std::min(std::max<std::streamoff>(size, 0), kept)),
                  '\0');
  in.seekg(-static_cast<std::streamoff>(end.size()), std::ios::end);
  in.read(end.data(), std::ssize(end));
  end.erase(end.find_last_not_of(" \t\r\n") + 1);
  if (!in || !end.ends_with(kPageEnd))
    throw InputError(file.string(), "", "is cut short: its page has no end");
}

// The card of a report that is whole; nothing of another file, or of one that cannot be read.
// Throws InputError where it is damaged.
std::optional<ReportCard> card_in(const Path& file) {
  const auto begin = begin_of(file);
  auto card = begin ? card_of(*begin, file.string()) : std::nullopt;
  if (card) require_whole(file);
  return card;
}

// The name of a file as JSON can have it.
std::string as_utf8(const std::string& name) {
  return utf8_prefix(name) == name.size() ? name : printable(name);
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

struct Found {
  ListedReport report;
  std::string whole;  // its path from the index
};

Found found(const Path& file, const ReportCard& card, const Path& index) {
  const Path folder = std::filesystem::absolute(index).lexically_normal().parent_path();
  const Path from_index =
      std::filesystem::absolute(file).lexically_normal().lexically_proximate(folder);
  // All are called report.html: the folder tells them apart.
  Path name = from_index;
  name.replace_extension();
  if (name.filename() == "report" && name.has_parent_path()) name = name.parent_path();
  // A way up is nobody's name.
  if (name.filename() == ".." || name.filename() == ".") name = from_index;
  return {{as_utf8(file.string()), as_utf8(name.string()), as_address(from_index.generic_string()),
           card},
          as_utf8(from_index.string())};
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
        // One that is damaged does not hide the others, and is no less somebody's.
        session_.guard(file);
        session_.note(fmt::format("left out: {}", error.what()));
      }
    }
  }

  void add_file(const Path& file) {
    const auto refuse = [&file](const char* why) { throw InputError(file.string(), "", why); };
    std::error_code none;
    const auto status = std::filesystem::status(file, none);
    if (!std::filesystem::exists(status)) refuse("cannot be read: no such file");
    // A pipe would be waited for.
    if (!std::filesystem::is_regular_file(status)) refuse("is not a regular file");
    session_.guard(file);
    if (!begin_of(file)) refuse("cannot be read");
    const auto card = card_in(file);
    if (!card)
      throw InputError(file.string(), "", fmt::format("expected one of {}", kWhatReportsAre));
    add(file, *card);
  }

  [[nodiscard]] std::vector<ListedReport> reports() && {
    std::map<std::string, int> named;
    for (const Found& one : found_) ++named[one.report.name];
    std::vector<ListedReport> reports;
    for (Found& one : found_) {
      // a.html beside a/report.html: both are called a.
      if (named[one.report.name] > 1) one.report.name = one.whole;
      reports.push_back(std::move(one.report));
    }
    std::ranges::sort(reports, [](const ListedReport& a, const ListedReport& b) {
      // The later day is the greater text.
      return std::tie(b.card.date, a.name) < std::tie(a.card.date, b.name);
    });
    return reports;
  }

 private:
  void add(const Path& file, const ReportCard& card) {
    // A folder may be given twice, or within another.
    if (!seen_.insert(std::filesystem::weakly_canonical(file)).second) return;
    session_.guard(file);
    found_.push_back(found(file, card, r_.output));
  }

  const ReportsRequest& r_;
  const Session& session_;
  std::set<Path> seen_;
  std::vector<Found> found_;
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
    nlohmann::ordered_json row{{"file", report.file}, {"name", report.name}};
    row.update(weir::to_json(report.card));
    json["reports"].push_back(std::move(row));
  }
  return json;
}

}  // namespace weir::app
