// The page of `sweep --report`: how sure its best plan is, what was run, and what a signal leaves.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costmodel/table/builtin.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/sha256.hpp"
#include "sim/explain/rejected.hpp"
#include "sim/search/sweep.hpp"
#include "tests/tools/commands/command.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/sweep/sweep.hpp"
#include "tools/app/sweep/sweep_reasons.hpp"
#include "tools/app/sweep/time_bound.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir::sweep_report_test {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class SweepReport : public InFolder {
 protected:
  void SetUp() override {
    InFolder::SetUp();
    write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,)"
                       R"("vocab_size":32,"n_positions":8})");
  }
  // The page of a sweep with these options.
  std::string page(const std::string& options) {
    EXPECT_EQ(weir("-q sweep tiny.json -K 2 -M 4 --report page.html " + options).code, 0);
    return read("page.html");
  }
};

// However few plans are listed, the page's best one says what software nobody named would change.
TEST_F(SweepReport, WidensTheBestPlanWhateverIsListed) {
  const auto label = [&](const std::string& options) {
    const std::string html = page("--cluster dgx-h100 " + options);
    const std::size_t begin = html.find("best plan: ");
    EXPECT_NE(begin, std::string::npos);
    return html.substr(begin, html.find(')', begin) - begin);
  };
  EXPECT_EQ(label("--top 0"), label("--top 1"));
}

// A job of Megatron-LM's as the present plan, and a schedule that it does not run.
TEST_F(SweepReport, SaysWhatThePresentJobHasNoWordFor) {
  write("job.args",
        "--num-layers 16 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
        "--max-position-embeddings 1024 --vocab-size 32000 --micro-batch-size 1 "
        "--global-batch-size 8 --bf16 --pipeline-model-parallel-size 4\n");
  ASSERT_EQ(weir("plan --from megatron job.args --gpus 4 -o job.json").code, 0);
  const CommandResult found = weir(
      "sweep job.model.json --gpus 4 -K 4 -M 8 -b 1 --schedule dualpipev -v 2 --any-schedule "
      "--recompute none --baseline job.json --cluster dgx-h100 --report page.html");
  ASSERT_EQ(found.code, 0) << found.out;
  const std::string html = read("page.html");
  EXPECT_THAT(html.substr(html.find("What changes against")),
              ContainsRegex("^What changes against[^§]*<p>The job has no words for it: plan: "
                            "schedule: dualpipev: [^<]*row megatron/own-schedules"));
}

TEST_F(SweepReport, SaysWhatWasRun) {
  const std::string html = page("--run --backend synthetic --steps 2 --svg rows.svg");
  EXPECT_THAT(html, Not(HasSubstr("nothing was run")));
  EXPECT_THAT(html, HasSubstr("run by the backend synthetic, 2 steps each"));
  EXPECT_THAT(html, HasSubstr("<th>forecast step</th><th>measured</th>"));
  EXPECT_THAT(html, ContainsRegex("best plan: [^<]*, measured "));
  EXPECT_THAT(page(""), HasSubstr("nothing was run"));
}

// A signal that comes while the first change is forecast: the page is written, and says so.
TEST_F(SweepReport, StopsOnASignal) {
  int signal = 0;
  std::vector<std::string> faults;
  app::Session session;
  session.complain = [&](const std::string& line) { faults.push_back(line); };
  session.progress = [&](const std::string& what, int, int) {
    if (what == "explain") signal = 2;
  };
  app::SweepRequest request;
  request.common.model = folder_ / "tiny.json";
  request.pp = {2};
  request.microbatches = {4};
  request.report = folder_ / "page.html";
  request.stopping = [&] { return signal; };
  EXPECT_EQ(app::sweep(request, session).stopped_by, 2);
  EXPECT_THAT(faults, ElementsAre("stopped: not every change was forecast for the report"));
  EXPECT_THAT(read("page.html"), HasSubstr("Not every change was forecast: it was stopped."));
}

// Where the time is over before the first reason is looked for, each part that has none is named in
// the JSON and in the text, which shows no heading without rows.
TEST_F(SweepReport, NamesWhatThereWasNoTimeFor) {
  const Cluster cluster = app::machine({.cluster = "dgx-h100"});
  const Model model = load_model(folder_ / "tiny.json");
  weir::SweepRequest asked;
  asked.folder = folder_;
  asked.base.model_path = "tiny.json";
  asked.base.model_sha256 = sha256_hex(read("tiny.json"));
  asked.base.seq_length = 8;
  asked.pp = {2};
  asked.global_batch_size = 4;
  asked.schedules = {"1f1b"};
  asked.within = StackAbilities{.schedules = {"1f1b"}};
  const Costs costs = builtin_costs(model, asked.base.seq_length, asked.base.dtype, cluster);
  weir::SweepRequest search = asked;
  search.families = families_of(search);
  search.baseline = resolve(sweep(search, costs, cluster).plans.back().plan, folder_);
  app::SweepReply reply{.result = sweep(search, costs, cluster), .costs = costs};
  reply.cluster = cluster;
  const app::TimeBound over("0.000001ms", {.baseline = true, .explain = true});
  const app::Searched searched{asked, search, reply.result, over, reply.not_looked_at};
  reply.first_changes = app::first_changes_for(searched, {}, cluster);
  reply.reasons = app::reasons_for(searched, {}, costs, cluster);
  EXPECT_TRUE(reply.reasons->what_if.empty());
  EXPECT_TRUE(reply.reasons->outside.empty());
  EXPECT_THAT(reply.not_looked_at,
              ElementsAre(HasSubstr("some changes of the baseline, of which one may bring more"),
                          HasSubstr("changes of the best plan"),
                          HasSubstr("changes of the baseline"), "what lies outside the stack"));
  EXPECT_EQ(app::to_json(reply)["not_looked_at"], reply.not_looked_at);
  testing::internal::CaptureStdout();
  Printout out({});
  print(out, {}, reply);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("not looked at, the budget was over: some changes of the baseline"));
  EXPECT_THAT(text, HasSubstr("; what lies outside the stack\n"));
  EXPECT_THAT(text, Not(HasSubstr("what one change would bring")));
}

// What was not forecast may fit: no time is no verdict on memory. With K named a search is small.
TEST_F(SweepReport, WithoutTimeNoneWasForecast) {
  for (const char* degrees : {"--gpus 2", "-K 2"}) {
    const auto done = weir(std::string("sweep tiny.json --cluster dgx-a100 --global-batch-size 8 "
                                       "--budget 0s ") +
                           degrees);
    EXPECT_EQ(done.code, 4);
    EXPECT_THAT(done.out, HasSubstr("was forecast before the budget was over"));
    EXPECT_THAT(done.out, Not(HasSubstr("fits")));
  }
}

}  // namespace
}  // namespace weir::sweep_report_test
