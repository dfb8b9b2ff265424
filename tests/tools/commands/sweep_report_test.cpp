// The page of `sweep --report`: how sure its best plan is, what was run, and what a signal leaves.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/commands/command.hpp"
#include "tools/app/sweep/sweep.hpp"

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

}  // namespace
}  // namespace weir::sweep_report_test
