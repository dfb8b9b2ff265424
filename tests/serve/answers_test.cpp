// Requests that nobody would send, ten thousand with tools/test --long: those of the page, changed
// by a seeded engine in their bytes, their values, and the words of the job within. None is
// answered by an exception, by what is no JSON, or as a bug; and nothing is written but where
// requests write.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/answers.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plan/words/error.hpp"
#include "tools/app/calibrate/calibrate.hpp"
#include "tools/app/plan/plan.hpp"
#include "tools/app/sweep/sweep.hpp"
#include "tools/serve/body_fields.hpp"
#include "tools/serve/runs.hpp"

namespace weir {
namespace {

// Of a search that finds something in it.
#ifdef __SANITIZE_ADDRESS__
constexpr const char* kBudget = "1s";
#else
constexpr const char* kBudget = "200ms";
#endif
constexpr double kLongest_s = 20;  // of one: a machine that others use is slower than usual

constexpr const char* kScript =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 "
    "--num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --micro-batch-size 1 "
    "--global-batch-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --bf16 "
    "--vocab-size 32000\n";
constexpr const char* kModel =
    R"({"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32, )"
    R"("n_positions": 8})";

// The current folder for as long as it is there, and what is in it.
class ServedFolder {
 public:
  ServedFolder()
      : before_(std::filesystem::current_path()),
        around_(std::filesystem::temp_directory_path() /
                ("weir-answers-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(around_ / "served/weir-serve");
    std::filesystem::current_path(around_ / "served");
  }
  ServedFolder(const ServedFolder&) = delete;
  ServedFolder& operator=(const ServedFolder&) = delete;
  ~ServedFolder() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(around_);
  }
  // What stands beside the folder that requests write into.
  [[nodiscard]] std::vector<std::filesystem::path> beside() const {
    std::vector<std::filesystem::path> found;
    for (const auto& folder : {around_, around_ / "served"}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        found.push_back(entry.path().lexically_relative(around_));
    }
    std::ranges::sort(found);
    return found;
  }

 private:
  std::filesystem::path before_, around_;
};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }

  // Bytes changed, cut, doubled, at up to four places.
  std::string bytes(std::string text) {
    for (std::size_t times = 1 + below(4); times > 0 && !text.empty(); --times) {
      const std::size_t at = below(text.size()), length = 1 + below(8);
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), length));
          break;
        default:
          text.insert(at, std::string(length, "{}[]\",:\\\n\0-9./"[below(14)]));
      }
    }
    return text;
  }

  // One value of it replaced by another kind, or its key by another.
  Json value(Json json) {
    if (json.is_structured() && !json.empty() && below(5) != 0) {
      auto at = json.begin();
      std::advance(at, below(json.size()));
      *at = value(*at);
      return json;
    }
    switch (below(12)) {
      case 0:
        return nullptr;
      case 1:
        return -1;
      case 2:
        return std::uint64_t{1} << 63;
      case 3:
        return 1e308;
      case 4:
        return "";
      case 5:
        return "../../etc/passwd";
      case 6:
        return std::string(10'000, 'a');
      case 7:
        return Json::array({Json::object(), 1, "x"});
      case 8:
        return Json{{"files", 1}};
      case 9:
        return true;
      case 10:
        return "1..9,";
      default:
        return json.is_string() ? Json(words(json.get<std::string>())) : Json("exec:true");
    }
  }

  // Words of a script left out, doubled, swapped, or their digits changed; no number gets longer,
  // so that no job gets a thousand times as large.
  std::string words(std::string text) {
    for (std::size_t times = 1 + below(4); times > 0 && text.size() > 4; --times) {
      const std::size_t from = text.find_first_of(" \n", below(text.size()));
      const std::size_t to = from == text.npos ? from : text.find_first_of(" \n", from + 1);
      if (to == text.npos) continue;
      const std::string word = text.substr(from, to - from);
      switch (below(3)) {
        case 0:
          text.erase(from, to - from);
          break;
        case 1:
          text.insert(from, word);
          break;
        default:
          for (std::size_t i = from; i < to; ++i) {
            if (text[i] >= '0' && text[i] <= '9') text[i] = static_cast<char>('0' + below(10));
          }
      }
    }
    return text;
  }

 private:
  std::mt19937 random_;
};

using Asked = std::pair<std::string, Json>;

// What the page sends, about a job and a model that have been read.
std::vector<Asked> requests(const Json& job, const Json& model) {
  const auto file = [](const char* name, const char* text) {
    return Json{{"files", {{{"name", name}, {"text", text}}}}};
  };
  Json machine{{"plan", job["plan"]}, {"cluster", "dgx-h100"}, {"memory-limit", "80 GiB"}};
  Json measured = machine;
  measured["measured"] = "22.3s";
  Json with_gpus = file("job.sh", kScript);
  with_gpus["gpus"] = 8;
  with_gpus["cluster"] = "dgx-h100";
  return {{"job", file("job.sh", kScript)},
          {"job", with_gpus},
          {"job", file("config.json", kModel)},
          {"file", {{"job", job["job"]}, {"name", "a.log"}, {"text", "iteration 1"}}},
          {"simulate", machine},
          {"explain", measured},
          {"page", machine},
          {"changes", {{"from", job["plan"]}, {"to", job["plan"]}}},
          {"calibrate",
           {{"measured", Json::array({job["plan"].get<std::string>() + "=900ms,20GiB"})},
            {"cluster", "dgx-h100"},
            {"gpus", 8}}},
          {"simulate", {{"plan", model["model"]}}},
          {"sweep",
           {{"model", job["result"]["model"]},
            {"baseline", job["plan"]},
            {"cluster", "dgx-h100"},
            {"gpus", 8},
            {"pp", "1..4"},
            {"schedule", {"gpipe", "1f1b"}},
            {"explain", true},
            {"top", 3},
            {"budget", kBudget}}},
          {"stop", Json::object()}};
}

void check(const Answer& told, const std::string& name, const std::string& body) {
  const std::string asked = name + " " + body.substr(0, 2000);
  if (told.type != "application/json") {
    EXPECT_EQ(told.status, 200) << asked;
    return;
  }
  const Json json = Json::parse(told.body, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << asked << "\n" << told.body;
  if (told.status == 200) {
    EXPECT_TRUE(json.contains("result")) << asked;
    return;
  }
  EXPECT_EQ(json.value("schema", ""), "weir.error/1") << asked;
  EXPECT_EQ(json.value("message", "\n").find('\n'), std::string::npos) << asked;
  const std::array known{400, 404, 422};
  EXPECT_NE(std::ranges::find(known, told.status), known.end()) << asked << "\n" << told.body;
}

// Of a search the last event, as the answer that it stands for; no event before it is an end.
Answer search_answer(Workplace& workplace, const std::string& body) {
  std::vector<std::string> events;
  const auto begun = std::chrono::steady_clock::now();
  // Words changed may ask for a search of a day: whoever asked goes away.
  search(workplace, body,
         {[&](std::string event) { events.push_back(std::move(event)); },
          [&] { return std::chrono::steady_clock::now() - begun < std::chrono::seconds(2); }});
  const auto ends = [](const std::string& event) {
    return event.starts_with("event: result\n") || event.starts_with("event: error\n");
  };
  EXPECT_EQ(std::ranges::count_if(events, ends), 1) << body;
  if (events.empty() || !ends(events.back())) {
    ADD_FAILURE() << "no end: " << body;
    return {};
  }
  const std::string& last = events.back();
  const Json data = Json::parse(last.substr(last.find("data: ") + 6), nullptr, false);
  const std::map<int, int> statuses{{2, 400}, {3, 400}, {4, 422}};
  const auto status = statuses.find(data.is_object() ? data.value("exit_code", 0) : -1);
  if (last.starts_with("event: result\n")) return {.body = data.dump()};
  return {.status = status == statuses.end() ? 500 : status->second, .body = data.dump()};
}

void send_changed(int requests_sent) {
  const ServedFolder folder;
  Workplace workplace;
  const auto read = [&](const char* name, const char* text) {
    const Json body{{"files", {{{"name", name}, {"text", text}}}}};
    const Answer told = answer(workplace, "job", body.dump());
    EXPECT_EQ(told.status, 200) << told.body;
    return Json::parse(told.body);
  };
  const std::vector<Asked> seeds = requests(read("job.sh", kScript), read("config.json", kModel));
  // As they are, all but the model taken for a plan are answered.
  const auto ask = [&](const std::string& name, const std::string& body) {
    return name == "sweep" ? search_answer(workplace, body) : answer(workplace, name, body);
  };
  for (std::size_t i = 0; i < seeds.size(); ++i)
    EXPECT_EQ(ask(seeds[i].first, seeds[i].second.dump()).status, i == 9 ? 400 : 200)
        << seeds[i].first;
  const auto before = folder.beside();
  Mutator mutator(48);
  std::map<int, int> counts, searches;
  for (int i = 0; i < requests_sent && !testing::Test::HasFailure(); ++i) {
    const auto& [name, body] = seeds[mutator.below(seeds.size())];
    const std::string text =
        mutator.below(2) == 0 ? mutator.bytes(body.dump()) : mutator.value(body).dump();
    const auto begun = std::chrono::steady_clock::now();
    const Answer told = ask(name, text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    EXPECT_LT(took.count(), kLongest_s) << name << " " << text;
    check(told, name, text);
    ++(name == "sweep" ? searches : counts)[told.status];
  }
  EXPECT_EQ(folder.beside(), before);
  // Both kinds came: what looks at refusals alone would look at one line of code.
  EXPECT_GT(counts[200], requests_sent / 100);
  EXPECT_GT(counts[400], requests_sent / 100);
  EXPECT_GT(searches[200], requests_sent / 1000);
  EXPECT_GT(searches[400], requests_sent / 100);
}

// A run that cannot be read is a row that says so; and what is kept of it goes with its folder.
TEST(Runs, RowsGoWithTheirFolders) {
  const ServedFolder folder;
  Workplace workplace;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(name);
    std::ofstream(std::filesystem::path(name) / "run.json") << "{}";
  }
  const Json rows = runs_json(workplace);
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0]["folder"], "a");
  EXPECT_NE(rows[0]["why"].get<std::string>().find("a/run.json"), std::string::npos);
  EXPECT_EQ(workplace.runs.size(), 2);
  std::filesystem::remove_all("a");
  EXPECT_EQ(runs_json(workplace).size(), 1);
  EXPECT_EQ(workplace.runs.size(), 1);
  EXPECT_TRUE(workplace.runs.contains("b"));
}

// A schedule that the command line would have a program make: whoever asks starts none here.
TEST(BodyFields, NoProgramIsTaken) {
  app::PlanRequest request;
  const app::Fields fields = app::fields(request);
  const auto take = [&](const char* schedule) {
    fill(fields, {"model", "schedule"}, {{"model", "m.json"}, {"schedule", schedule}});
  };
  take("gpipe");
  EXPECT_EQ(std::get<std::string>(request.schedule), "gpipe");
  try {
    take("exec:true");
    ADD_FAILURE() << "taken";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "request: schedule: expected a name or a CSV file");
  }
  EXPECT_EQ(std::get<std::string>(request.schedule), "gpipe");
}

// A list that the command takes as one word has commas; one of whole arguments, which may have
// commas themselves, stands behind its option each time.
TEST(BodyFields, ListsAreAsTheCommandLineHasThem) {
  app::SweepRequest sweep;
  EXPECT_EQ(command_line_of("sweep", app::fields(sweep),
                            {{"model", "m.json"},
                             {"schedule", {"gpipe", "1f1b"}},
                             {"pp", {1, 2}},
                             {"explain", true},
                             {"may-fit", false},
                             {"stack", nullptr}}),
            "weir sweep m.json --schedule gpipe,1f1b --pp 1,2 --explain");
  app::CalibrateRequest calibrate;
  EXPECT_EQ(
      command_line_of("calibrate", app::fields(calibrate),
                      {{"traces", {"a.json", "of b.json"}},
                       {"measured", {"p.json=22.3s,61GiB", "q.json=20s"}}}),
      "weir calibrate a.json 'of b.json' --measured p.json=22.3s,61GiB --measured q.json=20s");
}

TEST(Answers, NoRequestBreaksThem) { send_changed(1'000); }
// Each job is kept durably: most of the time is the disk's.
TEST(LongAnswers, NoRequestOfTenThousandBreaksThem) { send_changed(10'000); }

}  // namespace
}  // namespace weir
