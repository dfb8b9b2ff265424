// Reading, ordering and cutting, in this order. Positions are places in the execution order: a cut
// at p is a boundary between the operators at p and p + 1, and its width the number of tensors that
// cross it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/readers/pipedream_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <queue>
#include <sstream>
#include <string_view>
#include <vector>

#include "plan/model/limits.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr double kLargestShare =
    1.0 / 16;  // of the time, in one layer: 16 stages must still find boundaries
constexpr std::int64_t kBytesPerParameter = 4;
constexpr std::string_view kSeparator = " -- ";

struct Operator {
  std::int64_t number = 0;
  std::string what;  // "Conv2d(3, 64, ...)"
  double forward_ms = 0;
  double backward_ms = 0;
  std::int64_t output_bytes = 0;
  std::int64_t parameter_bytes = 0;

  [[nodiscard]] double time_ms() const { return forward_ms + backward_ms; }
  [[nodiscard]] std::string kind() const { return what.substr(0, what.find('(')); }
  [[nodiscard]] bool is_input() const { return what.starts_with("Input"); }
  // Its output is a part or a rewriting of its input's memory.
  [[nodiscard]] bool is_view() const {
    const std::string name = kind();
    const bool in_place = what.find("inplace") != std::string::npos &&
                          what.find("inplace=False") == std::string::npos;
    return in_place || name == "View" || name == "Size" || name == "__getitem__";
  }
};

struct ProfiledEdge {
  std::int64_t from = 0, to = 0;
  std::size_t line = 0;
};

struct ProfiledGraph {
  std::map<std::int64_t, Operator> operators;
  std::vector<ProfiledEdge> edges;
};

// One line of the file while it is taken apart.
class Line {
 public:
  Line(std::string_view text, const std::string& file, std::size_t number)
      : rest_(text), file_(file), number_(number) {}

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(file_, fmt::format("line {}", number_), message);
  }
  [[nodiscard]] bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail(fmt::format("expected \"{}\"", word));
  }
  [[nodiscard]] std::int64_t node() {
    expect("node");
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{} || value < 0) fail("expected a number after \"node\"");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  [[nodiscard]] double number(std::string_view key) {
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{} || !(value >= 0) || value > 1e15) {
      fail(fmt::format("{}: expected a number of at least 0", key));
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  [[nodiscard]] double milliseconds(std::string_view key) {
    const double value = number(key);
    if (value > kLongestLayer.count() * 1e3)
      fail(fmt::format("{}: expected at most {} ms", key, kLongestLayer.count() * 1e3));
    return value;
  }
  [[nodiscard]] double sum(std::string_view key) {
    if (!take("[")) return number(key);
    double total = number(key);
    while (take("; ") || take(";")) total += number(key);
    expect("]");
    return total;
  }
  // Everything up to a word, which stays.
  [[nodiscard]] std::string until(std::string_view word) {
    const std::size_t at = rest_.find(word);
    if (at == std::string_view::npos) fail(fmt::format("expected \"{}\"", word));
    std::string taken(rest_.substr(0, at));
    rest_.remove_prefix(at);
    return taken;
  }
  void finish() const {
    if (!rest_.empty())
      fail(fmt::format("\"{}\": expected the end of the line", rest_.substr(0, 40)));
  }

 private:
  std::string_view rest_;
  const std::string& file_;
  std::size_t number_;
};

Operator read_operator(Line& line) {
  Operator made;
  made.number = line.node();
  line.expect(kSeparator);
  made.what = line.until(" -- forward_compute_time=");
  line.expect(" -- forward_compute_time=");
  made.forward_ms = line.milliseconds("forward_compute_time");
  line.expect(", backward_compute_time=");
  made.backward_ms = line.milliseconds("backward_compute_time");
  line.expect(", activation_size=");
  made.output_bytes = static_cast<std::int64_t>(line.sum("activation_size"));
  line.expect(", parameter_size=");
  made.parameter_bytes = static_cast<std::int64_t>(line.number("parameter_size"));
  if (line.take(" -- stage_id="))
    static_cast<void>(line.number("stage_id"));  // PipeDream's own partition
  line.finish();
  return made;
}

ProfiledGraph read_graph(const std::string& text, const std::string& file) {
  ProfiledGraph graph;
  std::istringstream in(text);
  std::vector<ProfiledEdge> edges;
  std::size_t number = 0;
  for (std::string row; std::getline(in, row);) {
    ++number;
    row.erase(row.find_last_not_of(" \t\r") + 1);
    if (row.empty()) continue;
    Line line(row, file, number);
    if (line.take("\t")) {
      const std::int64_t from = line.node();
      line.expect(kSeparator);
      const std::int64_t to = line.node();
      line.finish();
      edges.push_back({from, to, number});
      continue;
    }
    const Operator made = read_operator(line);
    if (!graph.operators.emplace(made.number, made).second)
      line.fail(fmt::format("node{} is there twice", made.number));
    if (graph.operators.size() > static_cast<std::size_t>(kMostLayers))
      line.fail("more nodes than are read");
  }
  // An edge may stand before its nodes, so all are looked up behind the last line.
  for (const ProfiledEdge& edge : edges) {
    for (const std::int64_t end : {edge.from, edge.to}) {
      if (!graph.operators.contains(end))
        Line("", file, edge.line).fail(fmt::format("there is no node{}", end));
    }
    if (graph.operators.at(edge.to).is_input())
      Line("", file, edge.line)
          .fail(fmt::format("node{} is an input: nothing leads to it", edge.to));
    // Inputs are no layers, and what leads from them goes with them.
    if (!graph.operators.at(edge.from).is_input()) graph.edges.push_back(edge);
  }
  std::erase_if(graph.operators, [](const auto& entry) { return entry.second.is_input(); });
  if (graph.operators.empty())
    throw InputError(file, "", "expected at least one node that is not an input");
  return graph;
}

// Operators in execution order, each with the positions that read its output.
struct Ordered {
  std::vector<Operator> operators;
  std::vector<std::vector<std::size_t>> readers;

  [[nodiscard]] std::size_t last_reader(std::size_t position) const {
    return readers[position].empty() ? position : *std::ranges::max_element(readers[position]);
  }
};

// The smallest number first among those whose inputs are there.
Ordered execution_order(const ProfiledGraph& graph, const std::string& file) {
  std::map<std::int64_t, int> waiting;
  std::map<std::int64_t, std::vector<std::int64_t>> next;
  for (const auto& [from, to, line] : graph.edges) {
    ++waiting[to];
    next[from].push_back(to);
  }
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> ready;
  for (const auto& [number, made] : graph.operators) {
    if (!waiting.contains(number)) ready.push(number);
  }
  Ordered ordered;
  std::map<std::int64_t, std::size_t> position;
  while (!ready.empty()) {
    const std::int64_t number = ready.top();
    ready.pop();
    position[number] = ordered.operators.size();
    ordered.operators.push_back(graph.operators.at(number));
    // Kahn's algorithm: an operator is ready with the last of its inputs.
    for (const std::int64_t to : next[number]) {
      if (--waiting[to] == 0) ready.push(to);
    }
  }
  // What still waits now waits for itself.
  for (const auto& [number, left] : waiting) {
    if (left > 0) throw InputError(file, fmt::format("node{}", number), "lies on a cycle");
  }
  ordered.readers.resize(ordered.operators.size());
  for (const auto& [from, to, line] : graph.edges)
    ordered.readers[position[from]].push_back(position[to]);
  return ordered;
}

// Empty outputs cost nothing to send and do not count.
std::vector<int> cut_widths(const Ordered& ordered) {
  const std::size_t count = ordered.operators.size();
  std::vector<int> changes(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i) {
    if (ordered.operators[i].output_bytes == 0) continue;
    // An output crosses every cut from its operator to its last reader: +1 and -1 at the two ends,
    // summed up below.
    ++changes[i];
    --changes[ordered.last_reader(i)];
  }
  for (std::size_t i = 1; i < count; ++i) changes[i] += changes[i - 1];
  changes.resize(count - 1);
  return changes;
}

// Ends of pieces: the positions after which there is a cut, and the last.
class Cutter {
 public:
  explicit Cutter(const Ordered& ordered) : ordered_(ordered), widths_(cut_widths(ordered)) {
    total_ms_ = time(0, ordered.operators.size() - 1);
  }

  std::vector<std::size_t> ends() {
    cut(0, ordered_.operators.size() - 1, 1);
    return std::move(ends_);
  }

 private:
  [[nodiscard]] double time(std::size_t first, std::size_t last) const {
    double sum = 0;
    for (std::size_t i = first; i <= last; ++i) sum += ordered_.operators[i].time_ms();
    return sum;
  }

  // Cuts the piece of positions first to last wherever at most `width` tensors cross; what is still
  // too much, where the fewest do.
  void cut(std::size_t first, std::size_t last, int width) {
    for (std::size_t begin = first, i = first; i <= last; ++i) {
      if (i != last && widths_[i] > width) continue;
      settle(begin, i);
      begin = i + 1;
    }
  }
  void settle(std::size_t first, std::size_t last) {
    // One operator cannot be cut; a short piece need not be.
    if (first == last || time(first, last) <= kLargestShare * total_ms_) {
      ends_.push_back(last);
      return;
    }
    // Some cut of the piece is that narrow, so the pieces get shorter and this ends.
    cut(first, last,
        *std::min_element(widths_.begin() + static_cast<std::ptrdiff_t>(first),
                          widths_.begin() + static_cast<std::ptrdiff_t>(last)));
  }

  const Ordered& ordered_;
  std::vector<int> widths_;
  double total_ms_ = 0;
  std::vector<std::size_t> ends_;
};

// The piece of each position.
std::vector<std::int32_t> pieces_of(const std::vector<std::size_t>& ends) {
  std::vector<std::int32_t> piece;
  for (std::size_t p = 0; p < ends.size(); ++p)
    piece.resize(ends[p] + 1, static_cast<std::int32_t>(p));
  return piece;
}

Layer layer_of(const Ordered& ordered, std::size_t first, std::size_t last) {
  TimedShape shape;
  const Operator* longest = &ordered.operators[first];
  for (std::size_t i = first; i <= last; ++i) {
    const Operator& each = ordered.operators[i];
    shape.forward += Seconds(each.forward_ms / 1e3);
    // The profile has one backward time: half each for I and W, all I where there is no W.
    const double weight_ms = each.parameter_bytes > 0 ? each.backward_ms / 2 : 0;
    shape.backward_input += Seconds((each.backward_ms - weight_ms) / 1e3);
    shape.backward_weight += Seconds(weight_ms / 1e3);
    shape.parameters += each.parameter_bytes / kBytesPerParameter;
    // A view has no memory of its own.
    if (!each.is_view()) shape.activation += Bytes(each.output_bytes);
    if (each.time_ms() > longest->time_ms()) longest = &each;
  }
  std::string name = fmt::format("node{}", ordered.operators[first].number);
  if (last > first) name += fmt::format("-{}", ordered.operators[last].number);
  return {name, shape, longest->kind()};
}

// Samples of a mini-batch, by the last linear layer's output of 4-byte numbers, a row a sample;
// nullopt where rows may be tokens (an LSTM or an embedding before it), or there is none.
std::optional<std::int64_t> samples_of_mini_batch(const Ordered& ordered) {
  constexpr std::string_view kWidth = "out_features=";
  std::optional<std::int64_t> samples;
  for (const Operator& each : ordered.operators) {
    const bool of_tokens = each.what.find("LSTM") != std::string::npos ||
                           each.what.find("Embedding") != std::string::npos;
    if (of_tokens) return std::nullopt;
    const std::size_t at = each.what.find(kWidth);
    if (at == std::string::npos || !each.what.starts_with("Linear(")) continue;
    std::int64_t width = 0;
    const char* const end = each.what.data() + each.what.size();
    std::from_chars(each.what.data() + at + kWidth.size(), end, width);
    const std::int64_t row = width * kBytesPerParameter;
    if (row > 0 && each.output_bytes % row == 0) samples = each.output_bytes / row;
  }
  return samples;
}

std::string remark_on_batch(const Ordered& ordered) {
  const auto samples = samples_of_mini_batch(ordered);
  return fmt::format(
      "PipeDream's profile: a sample is one of its mini-batches ({}), and times are those of the "
      "GPU that was profiled; half of a backward is counted as I where there are parameters",
      samples ? fmt::format("of {} samples, by its last linear layer", *samples)
              : std::string("whose size the file does not tell"));
}

}  // namespace

Model pipedream_model(const std::string& text, const std::string& file) {
  const Ordered ordered = execution_order(read_graph(text, file), file);
  const std::vector<std::size_t> ends = Cutter(ordered).ends();
  const std::vector<std::int32_t> piece = pieces_of(ends);
  Model model;
  model.family = "timed";
  model.remarks.push_back(remark_on_batch(ordered));
  for (std::size_t p = 0, first = 0; p < ends.size(); ++p) {
    model.layers.push_back(layer_of(ordered, first, ends[p]));
    first = ends[p] + 1;
  }
  for (std::size_t i = 0; i < ordered.operators.size(); ++i) {
    const Bytes bytes(ordered.operators[i].output_bytes);
    const std::int32_t from = piece[i], to = piece[ordered.last_reader(i)];
    // It crosses the boundary behind its piece; what is read further on is a skip.
    if (to == from || bytes.count() == 0) continue;
    std::get<TimedShape>(model.layers[static_cast<std::size_t>(from)].shape).boundary += bytes;
    if (to > from + 1) model.skips.push_back({from, to, bytes});
  }
  return model;
}

}  // namespace weir
