// YAML and JSON by yaml-cpp, as a flat table of values.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/config_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <sstream>
#include <utility>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/given.hpp"
#include "tools/jobs/job/secret_names.hpp"
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/job/unmodelled.hpp"

namespace weir {
namespace {

constexpr std::size_t kMostValues = 100'000;
constexpr int kDeepestValue = 32;

std::string plain_path(std::string text) {
  std::ranges::replace(text, '-', '_');
  return text;
}

// The scalars of a list and of the lists in it.
void collect(const YAML::Node& node, int depth, std::vector<std::string>& values) {
  if (depth > kDeepestValue || values.size() > kMostValues) return;
  if (node.IsScalar()) values.push_back(node.Scalar());
  if (!node.IsSequence()) return;
  for (const YAML::Node& element : node) collect(element, depth + 1, values);
}

using Leaves = std::vector<std::pair<std::string, std::vector<std::string>>>;

void flatten(const YAML::Node& node, const std::string& prefix, int depth, Leaves& leaves) {
  if (depth > kDeepestValue || leaves.size() > kMostValues) return;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) continue;
    const std::string name = plain_path(entry.first.Scalar());
    const std::string path = fmt::format("{}{}{}", prefix, prefix.empty() ? "" : ".", name);
    if (entry.second.IsMap()) {
      flatten(entry.second, path, depth + 1, leaves);
      continue;
    }
    std::vector<std::string> values;
    collect(entry.second, depth, values);
    leaves.emplace_back(path, std::move(values));
  }
}

// Files that were joined, as cat does it, are documents of their own: "}" and then "{" at the
// beginnings of lines.
std::string one_after_another(const std::string& text) {
  std::string joined;
  bool closed = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    if (closed && text[at] == '{') joined += "---\n";
    closed = text[at] == '}' || (closed && text[at] != '{');
    joined.append(text, at, end - at);
    at = end;
  }
  return joined;
}

// Where each document begins. yaml-cpp 0.7 is at "," forever: the next document begins where the
// one before began.
class Documents : public YAML::EventHandler {
 public:
  // A document of which nothing was read.
  [[nodiscard]] bool stands() const { return stands_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    stands_ = mark.pos == last_;
    last_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  int last_ = -1;
  bool stands_ = false;
};

// Reads on from document to document, and throws as the reader does where one is none.
void require_documents(const std::string& text, const std::string& file) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  Documents documents;
  while (parser.HandleNextDocument(documents)) {
    if (documents.stands())
      throw InputError(file, "", "no valid YAML or JSON: expected keys and values");
  }
}

Leaves leaves_of(const std::string& text, const std::string& file) {
  Leaves leaves;
  try {
    const std::string joined = one_after_another(text);
    require_documents(joined, file);
    const std::vector<YAML::Node> all = YAML::LoadAll(joined);
    if (all.empty()) throw InputError(file, "", "expected keys and values, as YAML or JSON");
    std::set<std::string> known;
    for (const YAML::Node& root : all) {
      if (!root.IsMap()) throw InputError(file, "", "expected keys and values, as YAML or JSON");
      const std::size_t before = leaves.size();
      flatten(root, "", 0, leaves);
      for (std::size_t i = before; i < leaves.size(); ++i) {
        if (all.size() > 1 && !known.insert(leaves[i].first).second)
          throw InputError(file, leaves[i].first, "is given by two of the files");
      }
    }
  } catch (const YAML::Exception& error) {
    throw InputError(file, fmt::format("line {}", std::max(error.mark.line, 0) + 1),
                     fmt::format("no valid YAML or JSON: {}", error.msg));
  }
  if (leaves.size() > kMostValues)
    throw InputError(file, "", fmt::format("has more than {} values", kMostValues));
  return leaves;
}

}  // namespace

std::optional<std::string> value_in_list(const std::string& text, const std::string& file,
                                         const std::string& list, const std::string& key) {
  static_cast<void>(leaves_of(text, file));  // which refuses what is no such file
  for (const YAML::Node& root : YAML::LoadAll(one_after_another(text))) {
    for (const auto& entry : root) {
      if (!entry.first.IsScalar() || entry.first.Scalar() != list || !entry.second.IsSequence())
        continue;
      for (const YAML::Node& element : entry.second) {
        if (!element.IsMap()) continue;
        const YAML::Node found = element[key];
        if (found.IsDefined() && found.IsScalar()) return found.Scalar();
      }
    }
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> values_by_path(const std::string& text,
                                                                const std::string& file) {
  std::vector<std::pair<std::string, std::string>> all;
  for (auto& [path, values] : leaves_of(text, file)) {
    all.emplace_back(std::move(path), values.size() == 1
                                          ? std::move(values.front())
                                          : fmt::format("[{}]", fmt::join(values, ",")));
  }
  return all;
}

ConfigTable::ConfigTable(const std::string& text, std::string file) : file_(std::move(file)) {
  for (auto& [path, values] : leaves_of(text, file_)) leaves_[path] = {std::move(values), false};
}

bool ConfigTable::has(std::string_view path) const {
  const auto found = leaves_.lower_bound(path);
  return found != leaves_.end() &&
         (found->first == path || found->first.starts_with(std::string(path) + "."));
}

const ConfigTable::Leaf* ConfigTable::find(std::string_view path) {
  const auto found = leaves_.find(path);
  if (found == leaves_.end()) return nullptr;
  found->second.read = true;
  return &found->second;
}

const std::string* ConfigTable::value(std::string_view path) {
  const Leaf* leaf = find(path);
  if (leaf == nullptr || leaf->values.empty()) return nullptr;
  if (leaf->values.size() > 1) fail(path, "expected one value");
  const std::string& text = leaf->values.front();
  return text == "auto" || text == "null" || text == "None" || text == "~" ? nullptr : &text;
}

bool ConfigTable::is_auto(std::string_view path) const {
  const auto found = leaves_.find(path);
  return found != leaves_.end() && found->second.values == std::vector<std::string>{"auto"};
}

bool ConfigTable::flag_or(std::string_view path, bool otherwise) {
  const std::string* text = value(path);
  if (text == nullptr) return otherwise;
  for (const char* yes : {"true", "True", "TRUE", "yes", "on", "1"}) {
    if (*text == yes) return true;
  }
  for (const char* no : {"false", "False", "FALSE", "no", "off", "0"}) {
    if (*text == no) return false;
  }
  fail(path, fmt::format("expected true or false, found {}", text->substr(0, 40)));
}

std::optional<std::int64_t> ConfigTable::integer(std::string_view path, std::int64_t low,
                                                 std::int64_t high) {
  const std::string* text = value(path);
  if (text == nullptr) return std::nullopt;
  std::string digits = *text;
  std::erase(digits, '_');
  auto number = whole_number<std::int64_t>(digits);
  // "1e6" is a whole number to Python's readers.
  if (const auto real = whole_number<double>(digits);
      !number && real && std::abs(*real) < 1e15 && std::trunc(*real) == *real)
    number = static_cast<std::int64_t>(*real);
  if (!number || *number < low || *number > high) {
    fail(path, fmt::format("expected an integer from {} to {}, found {}", low, high,
                           text->substr(0, 40)));
  }
  return number;
}

std::int64_t ConfigTable::integer_or(std::string_view path, std::int64_t otherwise,
                                     std::int64_t low, std::int64_t high) {
  return integer(path, low, high).value_or(otherwise);
}

double ConfigTable::number_or(std::string_view path, double otherwise, double low, double high) {
  const std::string* text = value(path);
  if (text == nullptr) return otherwise;
  const auto number = whole_number<double>(*text);
  if (!number || !std::isfinite(*number) || *number < low || *number > high) {
    fail(path,
         fmt::format("expected a number from {} to {}, found {}", low, high, text->substr(0, 40)));
  }
  return *number;
}

std::string ConfigTable::text_or(std::string_view path, std::string otherwise) {
  const std::string* text = value(path);
  if (text == nullptr) return otherwise;
  return *text;
}

std::vector<std::string> ConfigTable::list(std::string_view path) {
  const Leaf* leaf = find(path);
  return leaf == nullptr ? std::vector<std::string>{} : leaf->values;
}

void ConfigTable::fill(std::string_view path, const std::string& value, std::string_view field) {
  const auto found = leaves_.find(path);
  if (found != leaves_.end() && this->value(path) != nullptr) {
    const std::string& said = *this->value(path);
    if (said != value) contradicts(field, value, file_, fmt::format("{}: {}", path, said));
    return;
  }
  replace(path, value);
}

void ConfigTable::replace(std::string_view path, std::string value) {
  std::vector<std::string>& values = leaves_[std::string(path)].values;
  values.clear();
  values.push_back(std::move(value));
}

std::map<std::string, std::string> ConfigTable::texts() const {
  std::map<std::string, std::string> all;
  for (const auto& [path, leaf] : leaves_)
    all[path] = fmt::format("{}", fmt::join(leaf.values, " "));
  return all;
}

void ConfigTable::account_for(UnreadArgument (*unread)(std::string_view path), Job& job) const {
  std::set<std::string, std::less<>> remarks;
  for (const Remark& remark : job.remarks) remarks.insert(remark.name);
  for (const auto& [path, leaf] : leaves_) {
    std::string text = fmt::format("{}", fmt::join(leaf.values, " "));
    const bool secret = !leaf.read && !text.empty() && is_secret(path, text);
    text = secret ? kSecretValue : text.substr(0, 80);
    const bool off_with_section = is_off_with_section(path, [this](const std::string& other) {
      const auto found = leaves_.find(other);
      return found == leaves_.end() || found->second.values.empty() ? ""
                                                                    : found->second.values.front();
    });
    const auto why = off_with_section ? std::nullopt : unmodelled(path, text);
    // What a reader has read is in the plan.
    if (why && !(leaf.read && some_reader_reads(path)))
      fail(path, fmt::format("{}: {}", text, *why));
    JobArgument argument{path, text, Fate::carried};
    const bool remarked = remarks.contains(path);
    // What is switched off changes nothing.
    const bool off =
        off_with_section || text.empty() || says_false(text) || text == "null" || text == "None";
    if (leaf.read) {
      argument.fate = remarked || is_auto(path) ? Fate::changed : Fate::carried;
      if (!remarked && is_auto(path))
        job.remarks.push_back({path, "auto: the training script's to choose"});
    } else {
      const UnreadArgument means = off ? UnreadArgument{}
                                   : is_of_adapters(path)
                                       ? UnreadArgument{Fate::not_carried, kFullTraining}
                                       : unread(path);
      argument.fate = means.fate;
      if (!means.why.empty()) job.remarks.push_back({path, fmt::format("{}: {}", text, means.why)});
    }
    job.arguments.push_back(std::move(argument));
  }
}

void ConfigTable::fail(std::string_view path, const std::string& message) const {
  throw InputError(file_, std::string(path), message);
}

}  // namespace weir
