// Start at `Reader`: it follows the parser with a depth and the last key of each level it cares
// for, assembles one event at a time, and keeps what `keep` finds worth it.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kineto/events_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"
#include "traces/kineto/gzip_file.hpp"

namespace weir {
namespace {

using Sax = nlohmann::json_sax<nlohmann::json>;

constexpr int kDeepest = 64;
// The year 2039: a base and a time add up in 63 bits; and so do differences between files, each of
// which spans less than a month.
constexpr std::int64_t kLatest_us = std::int64_t{2'200'000'000'000'000};
constexpr Nanoseconds kLongestFile = std::chrono::hours(24 * 30);

struct Launch {
  std::int64_t correlation = 0;
  Nanoseconds time{0};
  std::int32_t thread = 0;
};

// "4458676524670.502" in microseconds: all digits, which a double would not hold for absolute
// times.
std::optional<Nanoseconds> parse_microseconds(std::string_view text) {
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error != std::errc() || std::abs(whole) > kLatest_us) return std::nullopt;
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  // With an exponent a double has to do.
  if (rest.find_first_of("eE") != rest.npos) {
    const double value = std::strtod(std::string(text).c_str(), nullptr);
    if (!(std::abs(value) <= static_cast<double>(kLatest_us))) return std::nullopt;
    return Nanoseconds(std::llround(value * 1000));
  }
  std::int64_t ns = 0, unit = 100;
  if (!rest.empty()) rest.remove_prefix(1);  // the point
  for (const char digit : rest.substr(0, 3)) {
    ns += (digit - '0') * unit;
    unit /= 10;
  }
  if (rest.size() > 3 && rest[3] >= '5') ++ns;
  return Nanoseconds(whole * 1000 + (text.front() == '-' ? -ns : ns));
}

// One event while it is read; `number` and `text` of those keys that were there.
struct Event {
  std::string name, category, phase, thread_text;
  std::optional<Nanoseconds> time, duration;
  std::int64_t thread = 0;
  std::optional<std::int64_t> correlation;
};

enum class ReadUntil : std::uint8_t { identity, end };

class Reader : public Sax {
 public:
  Reader(GzipFile& source, ReadUntil until) : source_(source), until_(until) {
    events.file = source.name();
  }

  KinetoEvents events;
  std::vector<std::pair<std::int64_t, KinetoKernel>> kernels;  // with their correlation
  std::vector<Launch> launches;
  std::vector<KinetoKernel> operators;  // of the CPU, as long as no GPU was seen
  bool found_events = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    integer(value);
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    // No key that is read takes so large a number.
    integer(value > static_cast<number_unsigned_t>(INT64_MAX) ? INT64_MAX
                                                              : static_cast<std::int64_t>(value));
    return true;
  }
  bool number_float(number_float_t, const string_t& digits) override {
    if (depth_ == event_depth_ && key_ == Key::time) event_.time = parse_microseconds(digits);
    if (depth_ == event_depth_ && key_ == Key::duration)
      event_.duration = parse_microseconds(digits);
    return true;
  }
  bool string(string_t& text) override {
    // Of several devices in a host the first stands for all.
    if (depth_ == 3 && event_depth_ == 0 && device_key_ && events.device.empty())
      events.device = text;
    if (depth_ == 2 && event_depth_ == 0 && top_key_ == "distributedInfo" && info_key_ == "backend")
      over_gloo_ = text == "gloo";
    if (depth_ != event_depth_) return true;
    if (key_ == Key::name) event_.name.swap(text);
    if (key_ == Key::category) event_.category.swap(text);
    if (key_ == Key::phase) event_.phase.swap(text);
    if (key_ == Key::thread) event_.thread_text.swap(text);
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool key(string_t& name) override {
    source_.mark();
    if (depth_ == 1 && event_depth_ == 0) top_key_ = name;
    if (depth_ == 2 && top_key_ == "distributedInfo") info_key_ = name;
    device_key_ = depth_ == 3 && event_depth_ == 0 && name == "name" &&
                  (top_key_ == "deviceProperties" || top_key_ == "computeProperties");
    if (depth_ == event_depth_) key_ = event_key(name);
    if (depth_ == event_depth_ + 1 && in_args_) correlation_key_ = name == "correlation";
    return true;
  }
  bool start_object(std::size_t) override {
    open();
    if (event_depth_ > 0 && depth_ == event_depth_) event_ = {};
    if (event_depth_ > 0 && depth_ == event_depth_ + 1) {
      in_args_ = key_ == Key::args;
      correlation_key_ = false;
    }
    return true;
  }
  bool end_object() override {
    source_.mark();
    if (event_depth_ > 0 && depth_ == event_depth_) {
      if (until_ == ReadUntil::end) keep();
      ++index_;
    }
    if (event_depth_ > 0 && depth_ == event_depth_ + 1) in_args_ = false;
    --depth_;
    // Where only the identity is wanted, `false` ends the parser behind it.
    return until_ == ReadUntil::end || depth_ != 1 || event_depth_ > 0 ||
           top_key_ != "distributedInfo";
  }
  bool start_array(std::size_t) override {
    open();
    const bool bare = depth_ == 1;  // a list of events and nothing else: the legacy profiler's
    if (bare || (depth_ == 2 && event_depth_ == 0 && top_key_ == "traceEvents")) {
      event_depth_ = depth_ + 1;
      found_events = true;
    }
    return true;
  }
  bool end_array() override {
    source_.mark();
    if (depth_ == event_depth_ - 1) event_depth_ = 0;
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();
    const auto at = what.find("parse error");
    throw InputError(
        events.file, "",
        fmt::format("no valid JSON: {}", what.substr(at == what.npos ? 0 : at).substr(0, 200)));
  }

 private:
  enum class Key : std::uint8_t { other, name, category, phase, thread, time, duration, args };

  static Key event_key(std::string_view name) {
    static constexpr std::pair<std::string_view, Key> kKeys[] = {
        {"name", Key::name}, {"cat", Key::category}, {"ph", Key::phase}, {"tid", Key::thread},
        {"ts", Key::time},   {"dur", Key::duration}, {"args", Key::args}};
    for (const auto& [word, key] : kKeys) {
      if (name == word) return key;
    }
    return Key::other;
  }

  void open() {
    if (++depth_ > kDeepest)
      throw InputError(events.file, "", fmt::format("JSON nested deeper than {}", kDeepest));
  }

  void integer(std::int64_t value) {
    if (event_depth_ > 0) {
      if (depth_ == event_depth_ && key_ == Key::time && std::abs(value) <= kLatest_us)
        event_.time = Nanoseconds(value * 1000);
      if (depth_ == event_depth_ && key_ == Key::duration && std::abs(value) <= kLatest_us)
        event_.duration = Nanoseconds(value * 1000);
      if (depth_ == event_depth_ && key_ == Key::thread) event_.thread = value;
      if (depth_ == event_depth_ + 1 && in_args_ && correlation_key_) event_.correlation = value;
    } else if (depth_ == 1 && top_key_ == "baseTimeNanoseconds") {
      events.base_ns = within("baseTimeNanoseconds", value, kLatest_us * 1000);
    } else if (depth_ == 2 && top_key_ == "distributedInfo" && info_key_ == "rank") {
      events.identity.rank =
          static_cast<std::int32_t>(within("distributedInfo.rank", value, 1 << 24));
    } else if (depth_ == 2 && top_key_ == "distributedInfo" && info_key_ == "world_size") {
      events.identity.world_size =
          static_cast<std::int32_t>(within("distributedInfo.world_size", value, 1 << 24));
    }
  }

  [[nodiscard]] std::int64_t within(const char* key, std::int64_t value, std::int64_t high) const {
    if (value < 0 || value > high)
      throw InputError(events.file, key, fmt::format("expected an integer from 0 to {}", high));
    return value;
  }

  // An event that is needed must have its times.
  [[nodiscard]] std::pair<Nanoseconds, Nanoseconds> times() {
    const auto fail = [&](const char* key, const char* expected) {
      throw InputError(events.file, fmt::format("traceEvents[{}].{}", index_, key), expected);
    };
    if (!event_.time) fail("ts", "expected a time in microseconds");
    if (!event_.duration || event_.duration->count() < 0)
      fail("dur", "expected a duration in microseconds");
    const std::pair result{*event_.time, *event_.time + *event_.duration};
    if (!first_time_) first_time_ = result.first;
    if (std::abs((result.first - *first_time_).count()) > kLongestFile.count() ||
        result.second - result.first > kLongestFile)
      fail("ts", "is more than 30 days away from the first event");
    return result;
  }

  std::int32_t thread() {
    // A thread is named by a number or by a text; either gets the next small number.
    const std::pair name{event_.thread, event_.thread_text};
    return threads_.emplace(name, static_cast<std::int32_t>(threads_.size())).first->second;
  }

  // Categories as they are today, and as they were called before 2022: Kernel, Runtime, Operator.
  void keep() {
    if (event_.phase != "X") return;
    const std::string_view category = event_.category;
    if (category == "kernel" || category == "Kernel") {
      keep_kernel();
    } else if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime") {
      // Without its first letter, so that Launch and launch are both found.
      if (!event_.correlation || event_.name.find("aunch") == std::string::npos) return;
      launches.push_back({*event_.correlation, times().first, thread()});
    } else if (category == "user_annotation" || category == "cpu_op" || category == "Operator") {
      if (!keep_mark()) keep_operator();
    }
  }

  void keep_kernel() {
    ++events.kernels_in_file;
    const auto [start, end] = times();
    if (!event_.correlation) return;
    KinetoKernel kernel{start, end, {}, 0, KernelKind::compute};
    if (event_.name.starts_with("nccl")) {
      kernel.kind = event_.name.find("SendRecv") != std::string::npos ? KernelKind::send_recv
                                                                      : KernelKind::collective;
    }
    kernels.emplace_back(*event_.correlation, kernel);
  }

  // On a machine without GPUs, or where gloo carries all, operators are what is measured; c10d's
  // only hand a message to gloo, which marks it from there until somebody has waited for it.
  void keep_operator() {
    static constexpr std::pair<std::string_view, KernelKind> kGloo[] = {
        {"gloo:send", KernelKind::send},
        {"gloo:recv", KernelKind::receive},
        {"gloo:", KernelKind::collective}};
    if (events.kernels_in_file > 0 || !(events.device.empty() || over_gloo_)) return;
    if (event_.name.starts_with("c10d::") || !event_.time || !event_.duration) return;
    KinetoKernel found;
    for (const auto& [prefix, kind] : kGloo) {
      if (found.kind == KernelKind::compute && event_.name.starts_with(prefix)) found.kind = kind;
    }
    // A range of the user's own is no operator.
    if (found.kind == KernelKind::compute && event_.category == "user_annotation") return;
    std::tie(found.start, found.end) = times();
    found.launched = found.start;
    found.thread = thread();
    operators.push_back(found);
  }

  // Whether it is a mark.
  bool keep_mark() {
    static constexpr std::pair<std::string_view, MarkKind> kMarks[] = {
        {"ProfilerStep#", MarkKind::step},        {"PP:", MarkKind::action},
        {"Forward ", MarkKind::forward},          {"Backward ", MarkKind::backward},
        {"Optimizer.step#", MarkKind::optimizer}, {"nccl:send", MarkKind::send},
        {"nccl:recv", MarkKind::receive}};
    for (const auto& [prefix, kind] : kMarks) {
      if (!event_.name.starts_with(prefix)) continue;
      const std::string rest = event_.name.substr(prefix.size());
      // "Forward 7" is PyTorch's, "Forward pass" a user's own.
      const bool of_gpipe = kind == MarkKind::forward || kind == MarkKind::backward;
      if (of_gpipe && !whole_number<std::int32_t>(rest)) continue;
      const auto [start, end] = times();
      events.marks.push_back({start, end, kind, rest});
      if (kind == MarkKind::step) events.marked_by.push_back(thread());
      return true;
    }
    return false;
  }

  GzipFile& source_;
  ReadUntil until_;
  Event event_;
  std::string top_key_, info_key_;
  Key key_ = Key::other;
  bool in_args_ = false, correlation_key_ = false, device_key_ = false, over_gloo_ = false;
  int depth_ = 0;
  int event_depth_ = 0;  // depth inside an event; 0 outside the list of events
  std::int64_t index_ = 0;
  std::optional<Nanoseconds> first_time_;
  std::map<std::pair<std::int64_t, std::string>, std::int32_t> threads_;
};

// Kernels take the time of their launch, found by its correlation id, and come in its order.
void join(Reader& reader) {
  std::ranges::sort(reader.launches, {}, &Launch::correlation);
  for (auto& [correlation, kernel] : reader.kernels) {
    const auto found =
        std::ranges::lower_bound(reader.launches, correlation, {}, &Launch::correlation);
    // Without its launch a kernel has no place among the actions.
    if (found == reader.launches.end() || found->correlation != correlation) continue;
    kernel.launched = found->time;
    kernel.thread = found->thread;
    reader.events.kernels.push_back(kernel);
  }
  if (reader.events.kernels_in_file == 0 && !reader.operators.empty()) {
    reader.events.kernels = std::move(reader.operators);
    reader.events.on_host = true;
  }
  std::ranges::sort(reader.events.kernels, {},
                    [](const KinetoKernel& k) { return std::pair(k.launched, k.start); });
  // Where two begin together, the range around the other goes first.
  std::ranges::sort(reader.events.marks, {},
                    [](const KinetoMark& m) { return std::tuple(m.start, -m.end, m.name); });
}

}  // namespace

KinetoIdentity read_kineto_identity(const std::filesystem::path& file) {
  GzipFile source(file);
  std::istream stream(&source);
  Reader reader(source, ReadUntil::identity);
  nlohmann::json::sax_parse(stream, &reader);
  return reader.events.identity;
}

KinetoEvents read_kineto_events(const std::filesystem::path& file) {
  GzipFile source(file);
  std::istream stream(&source);
  Reader reader(source, ReadUntil::end);
  nlohmann::json::sax_parse(stream, &reader);
  if (!reader.found_events)
    throw InputError(file.string(), "traceEvents", "is missing: not a Kineto trace");
  join(reader);
  return std::move(reader.events);
}

}  // namespace weir
