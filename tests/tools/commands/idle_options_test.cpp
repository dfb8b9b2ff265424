// Options that nothing would come of beside the others are refused, each by its name.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/commands/tiny_command.hpp"

namespace weir::idle_options_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class IdleOptions : public Command {
 protected:
  IdleOptions() { made("plan tiny.json -K 2 -M 4 -o plan.json"); }
  void made(const std::string& line) const {
    const CommandResult result = weir(line);
    EXPECT_EQ(result.code, 0) << line << "\n" << result.out;
  }
  // The last option of the line, which the rest of it has no use for.
  void refused(const std::string& line, const std::string& why) const {
    const CommandResult result = weir(line);
    const std::size_t last = line.rfind("--");
    const std::string option = line.substr(last, line.find(' ', last) - last);
    EXPECT_EQ(result.code, 2) << line << "\n" << result.out;
    EXPECT_THAT(result.out, HasSubstr(option + " " + why)) << line;
  }
};

TEST_F(IdleOptions, OfPlans) {
  refused("plan tiny.json -K 2 --recompute-microbatches except-last", "needs --recompute");
  refused("plan tiny.json -K 2 --boundaries 3 --partition uniform", "chooses where stages begin");
  refused("plan tiny.json -K 2 --newton-schulz 5", "is of --optimizer muon");
  refused("plan tiny.json -K 2 --vocab-size 32", "needs --from");
  made("plan tiny.json -K 2 --recompute stage --recompute-microbatches except-last -o a.json");
  made("plan tiny.json -K 2 --optimizer muon --momentum 0.9 --newton-schulz 5 -o a.json");
}

TEST_F(IdleOptions, OfRuns) {
  refused("run plan.json --steps 1 --fastest", "is of --backend cuda");
  refused("run plan.json --steps 1 --launched", "is of --backend cuda");
  refused("run plan.json --steps 1 --costs costs.json", "gives --backend synthetic");
  refused("run plan.json --steps 1 --backend synthetic --data plan.json", "is trained on");
}

TEST_F(IdleOptions, OfPictures) {
  for (const std::string of : {"simulate plan.json ", "schedule 1f1b -K 2 -M 4 "}) {
    refused(of + "--palette grey", "goes with a picture");
    refused(of + "--memory", "goes with a picture");
    refused(of + "--width 3.3in", "goes with a picture");
    made(of + "--width 80");  // characters of a line
  }
  refused("schedule 1f1b -K 2 -M 4 --no-title", "goes with a picture");
  refused("schedule 1f1b -K 2 -M 4 --csv-format compute_comms", "goes with --csv");
}

// Plans have no timelines to draw, and traces no forecast to make; both leave what they found in a
// folder. Halves of a mini-batch: steps of four and of two samples, which samples a second compare.
TEST_F(IdleOptions, OfComparisons) {
  made("plan tiny.json -K 2 -M 2 -o half.json");
  refused("compare plan.json half.json --svg both.svg", "draws timelines");
  refused("compare plan.json half.json --perfetto both.pftrace", "draws timelines");
  refused("compare plan.json half.json --palette grey", "goes with a picture");
  made("compare plan.json half.json -o compared");
  const Json json = Json::parse(read("compared/comparison.json"));
  EXPECT_EQ(json["global_batch_size"], (Json{4, 2}));
  for (const std::size_t i : {0, 1}) {
    EXPECT_DOUBLE_EQ(
        json["samples_per_s"][i].get<double>(),
        json["global_batch_size"][i].get<double>() / json["step_time_s"][i].get<double>());
  }
  made("simulate plan.json -o out");
  made("run plan.json --backend synthetic --steps 1 --warmup 0 -o out");
  const std::string traces = "compare out/predicted.json out/measured.json ";
  refused(traces + "--cluster dgx-h100", "forecasts plans: these are traces");
  refused(traces + "--palette grey", "goes with a picture");
  made(traces + "--palette grey -o compared");
}

}  // namespace
}  // namespace weir::idle_options_test
