// `weir sweep` over what a plan has beside its degrees: shares with the host, overlap of experts'
// exchanges, what is rebuilt.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "tests/tools/commands/command.hpp"

namespace weir::searched_words_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class SearchedWords : public InFolder {
 protected:
  SearchedWords() {
    write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":4,"n_layer":6,"vocab_size":32,)"
                       R"("n_positions":16})");
  }
  std::string cluster_ = " --cluster " WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json";
};

// 8 B numbers on one device of 80 GB: with the optimizer's 12 bytes a number there nothing fits,
// nor with half of them; with all in the host's memory it does, and a search asks for that by
// itself, once it has looked at all without. A host with less than 16 bytes a number is what then
// holds none.
TEST_F(SearchedWords, WhereNothingFitsTheHostsAreAsked) {
  const std::string models = WEIR_SOURCE_DIR "/tools/examples/models/",
                    search = "sweep " + models +
                             "llama-3-8b.json --gpus 1 --global-batch-size 2 "
                             "--seq-length 4096 --stack megatron-core ";
  const CommandResult named = weir("-q " + search + cluster_ + " --offload-optimizer 0");
  EXPECT_EQ(named.code, 4) << named.out;
  const CommandResult found = weir("-q --json " + search + cluster_);
  ASSERT_EQ(found.code, 0) << found.out;
  const Json json = Json::parse(found.out);
  for (const Json& row : json["plans"]) {
    EXPECT_EQ(row["plan"]["offload_optimizer"], 1);
    EXPECT_EQ(row["forecast"]["host"]["fits"], "yes");
  }
  EXPECT_THAT(weir(search + cluster_).out,
              HasSubstr("searched with the optimizer's state with the host"));
  Json cluster = Json::parse(read(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json"));
  cluster["host"]["memory"] = "64 GiB";
  write("small.json", cluster.dump());
  const CommandResult full = weir(search + " --cluster small.json");
  EXPECT_EQ(full.code, 4);
  EXPECT_THAT(full.out, HasSubstr(" by host memory, as K1 "));
  EXPECT_THAT(full.out, HasSubstr("no plan fits "));
  EXPECT_THAT(full.out, HasSubstr("searched with the optimizer's state with the host"));
  // Of a search of a large space the verdict names the host too.
  const CommandResult large = weir("sweep " + models +
                                   "llama-3-8b.json --gpus 8 --global-batch-size 64 --seq-length "
                                   "4096 --stack megatron-core --cluster small.json "
                                   "--offload-optimizer 1");
  EXPECT_EQ(large.code, 4);
  EXPECT_THAT(large.out, HasSubstr(" and the memory of a node's host, which alone leaves out "));
}

// 70 B numbers on sixteen devices: with 900 GiB a node its host holds half of the state, 560 GB of
// its 1.1 TB, and not all. Muon's no host updates.
TEST_F(SearchedWords, HostsAreAskedForHalfOfTheState) {
  Json cluster = Json::parse(read(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json"));
  cluster["host"]["memory"] = "900 GiB";
  write("some.json", cluster.dump());
  const std::string search = "sweep " WEIR_SOURCE_DIR
                             "/tools/examples/models/llama-3-70b.json --gpus 16 "
                             "--global-batch-size 64 --seq-length 4096 --stack megatron-core "
                             "--cluster some.json --top 1";
  const CommandResult found = weir("-q --json " + search);
  ASSERT_EQ(found.code, 0) << found.out;
  EXPECT_EQ(Json::parse(found.out)["plans"][0]["plan"]["offload_optimizer"], 0.5);
  const CommandResult muon = weir(search + " --optimizer muon");
  EXPECT_THAT(muon.out, testing::Not(HasSubstr("with the host")));
}

// Experts' exchanges are overlapped where Megatron-LM takes it: with one block that predicts
// further tokens, not with two.
TEST_F(SearchedWords, OverlapsWhatTheTrainerTakes) {
  const auto overlapped = [&](const std::string& blocks) {
    const CommandResult found =
        weir("-q --json sweep " WEIR_SOURCE_DIR
             "/tools/examples/models/mixtral-8x7b.json --gpus 64 --global-batch-size 128 "
             "--seq-length 4096 --stack megatron-core --top 5 --mtp-num-layers " +
             blocks + cluster_);
    EXPECT_EQ(found.code, 0) << found.out;
    int those = 0;
    const Json json = Json::parse(found.out);
    for (const Json& row : json["plans"])
      those += row["plan"].value("overlap_experts", false) ? 1 : 0;
    return those;
  };
  EXPECT_GT(overlapped("1"), 0);
  EXPECT_EQ(overlapped("2"), 0);
}

// 436 GiB of a node's blocks do not lie with a host of 400: they are rebuilt, which leaves 26 GiB
// of inputs, until a host holds no more than 16.
TEST_F(SearchedWords, RebuildsWhatAHostDoesNotHold) {
  Json cluster = Json::parse(read(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json"));
  const auto rebuilt = [&](const char* memory) {
    cluster["host"]["memory"] = memory;
    write("host.json", cluster.dump());
    return weir("plan " WEIR_SOURCE_DIR
                "/tools/examples/models/llama-3-8b.json -K 1 --dp 8 --zero 3 -M 4 -b 4 "
                "--seq-length 4096 --offload-activations 0.8 --recompute auto --stack "
                "megatron-core --cluster host.json -o rebuilt.json")
        .out;
  };
  EXPECT_THAT(rebuilt("400 GiB"), HasSubstr("recompute: full (32 layers by rank), fits"));
  EXPECT_THAT(rebuilt("16 GiB"), HasSubstr(", and still it does not fit"));
  EXPECT_THAT(rebuilt("2 TiB"), HasSubstr("recompute: none, all of it fits"));
}

// The second copy of DualPipe's last stage stands on the first rank, with its blocks that predict.
TEST_F(SearchedWords, CopiesOfStagesPredictToo) {
  ASSERT_EQ(
      weir("plan " WEIR_SOURCE_DIR
           "/tools/examples/models/mixtral-8x7b.json -K 4 -M 8 --schedule dualpipe "
           "--seq-length 4096 --mtp-num-layers 2 --dtype bf16 --attention fused -o plan.json" +
           cluster_)
          .code,
      0);
  const CommandResult drawn = weir("simulate plan.json --timeline" + cluster_);
  EXPECT_THAT(drawn.out, HasSubstr("  0 predicts 2"));
  EXPECT_THAT(drawn.out, HasSubstr("  3 predicts 2"));
}

// Without the effort's end the only plans that were found may fit, and no more.
TEST_F(SearchedWords, LooksOnForAPlanThatSurelyFits) {
  // The example's model, for longer sequences than it says.
  Json model = Json::parse(read(WEIR_SOURCE_DIR "/tools/examples/models/llama-3-70b.json"));
  model["max_position_embeddings"] = 131072;
  write("long.json", model.dump());
  const CommandResult found = weir(
      "-q --json sweep long.json --gpus 16 --global-batch-size 8 --seq-length "
      "131072 --stack megatron-core --offload-optimizer 1 --offload-activations 0,0.5,1 "
      "--any-schedule --top 1" +
      cluster_);
  ASSERT_EQ(found.code, 0) << found.out;
  const Json json = Json::parse(found.out);
  EXPECT_EQ(json["plans"][0]["forecast"]["fits"], "yes");
  EXPECT_GT(json["effort"]["refined"], 1024);
}

// Shares that are listed are searched as other choices are: the best of both is the better of what
// either finds alone.
TEST_F(SearchedWords, SharesWithTheHostAreChosen) {
  const std::string all =
      "--json sweep tiny.json --gpus 8 --tp 1 --cp 1 -K 1,2 --schedule 1f1b "
      "--global-batch-size 8 --top 100" +
      cluster_;
  const auto steps = [&](const std::string& shares) {
    std::set<std::pair<double, double>> found;
    const CommandResult result = weir("-q " + all + " --offload-optimizer " + shares);
    EXPECT_EQ(result.code, 0) << result.out;
    const Json json = Json::parse(result.out);
    for (const Json& row : json["plans"])
      found.emplace(row["forecast"]["step_time_s"], row["plan"].value("offload_optimizer", 0.0));
    return found;
  };
  const auto both = steps("0,0.5"), none = steps("0"), half = steps("0.5");
  EXPECT_EQ(both.begin()->first, std::min(none.begin()->first, half.begin()->first));
  std::set<double> shares;
  for (const auto& [step, share] : both) shares.insert(share);
  EXPECT_THAT(shares, testing::ElementsAre(0, 0.5));
  const CommandResult odd = weir(all + " --offload-optimizer 0,1.5");
  EXPECT_EQ(odd.code, 2);
  EXPECT_THAT(odd.out, HasSubstr("--offload-optimizer"));
}

// What is proposed for Megatron-Core is what it runs: blocks that predict further tokens on one
// stage, no interleaving of one stage a rank, of which deep pipelines had some, and no stage of the
// final norm alone, as 4 x 2 and 8 x 1 stages of 8 layers would leave it.
TEST_F(SearchedWords, WhatIsProposedIsExported) {
  const std::string models = WEIR_SOURCE_DIR "/tools/examples/models/";
  write("five.json", R"({"model_type":"gpt2","n_embd":128,"n_head":4,"n_layer":5,"vocab_size":512,)"
                     R"("n_positions":128})");
  for (const std::string& search :
       {models + "mixtral-8x7b.json --gpus 64 --mtp-num-layers 2 --seq-length 4096",
        models + "llama-3-8b.json --gpus 16 --seq-length 2048 -K 8,16",
        std::string("five.json --gpus 8 -K 4,8 -v 1,2")}) {
    const CommandResult found =
        weir("-q --json sweep " + search +
             " --stack megatron-core --global-batch-size 128 --top 25" + cluster_);
    ASSERT_EQ(found.code, 0) << found.out;
    const Json json = Json::parse(found.out);
    ASSERT_GE(json["plans"].size(), 20);
    for (const Json& row : json["plans"]) {
      write("one.json", row["plan"].dump());
      const CommandResult exported = weir("export one.json --to megatron -o one.sh");
      ASSERT_EQ(exported.code, 0) << exported.out;
    }
  }
}

// Words that all candidates share are held to no list of a stack: the trainer's table says them.
TEST_F(SearchedWords, WhatTheTrainerLacksIsSaid) {
  const std::string search =
      "sweep " WEIR_SOURCE_DIR
      "/tools/examples/models/llama-3-8b.json --gpus 8 --seq-length 1024 --global-batch-size 16 "
      "-K 2 --tp 1,2 --top 1" +
      cluster_;
  constexpr const char* kSaid = "the best plan is not run as it stands: optimizer: torchtitan's";
  const auto said = [&](const std::string& more) { return weir(search + more).out; };
  EXPECT_THAT(said(" --stack torchtitan --optimizer muon"),
              testing::AllOf(HasSubstr(kSaid), HasSubstr("(row torchtitan/muon)")));
  const CommandResult of_programs =
      weir("-q --json " + search + " --stack torchtitan --optimizer muon");
  EXPECT_THAT(Json::parse(of_programs.out)["remarks"].dump(), HasSubstr(kSaid));
  EXPECT_THAT(said(" --stack torchtitan"), testing::Not(HasSubstr("not run as it stands")));
  EXPECT_THAT(said(" --stack megatron-core --optimizer muon"),
              testing::Not(HasSubstr("not run as it stands")));
  // Of software that nobody named nothing is known to be lacking.
  EXPECT_THAT(said(" --lora-rank 16"), testing::Not(HasSubstr("not run as it stands")));
  EXPECT_THAT(said(" --stack torchtitan --optimizer muon --any-schedule"),
              testing::Not(HasSubstr("not run as it stands")));
}

// What a baseline has with its host the search keeps, and says.
TEST_F(SearchedWords, ABaselinesShareIsKeptAndSaid) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --boundaries 3 --offload-optimizer 0.5" + cluster_ +
                 " -o half.json")
                .code,
            0);
  const std::string search = "sweep tiny.json --gpus 2 --baseline half.json --top 1" + cluster_;
  constexpr const char* kSaid =
      "--offload-optimizer 0.5 is the baseline's, and kept: --offload-optimizer 0,0.5 searches "
      "without it too";
  EXPECT_THAT(weir(search).out, HasSubstr(kSaid));
  const CommandResult open = weir(search + " --offload-optimizer 0,0.5");
  EXPECT_EQ(open.code, 0) << open.out;
  EXPECT_THAT(open.out, testing::Not(HasSubstr("is the baseline's, and kept")));
}

// A vocabulary is divided where a schedule that does so is named, where everything may be proposed,
// or where the stack's own file lists one: with one stage a rank Llama 3 8B's head is then no
// longer what the last rank waits for. No trainer that plans are exported to has a word for it, no
// backend runs it, and what cannot be is left out with what `weir plan` says.
TEST_F(SearchedWords, ADividedVocabularyIsSearchedWhereItIsAskedFor) {
  const std::string search = "sweep " WEIR_SOURCE_DIR
                             "/tools/examples/models/llama-3-8b.json --gpus 8 -K 8 -v 1 "
                             "--global-batch-size 64 --seq-length 2048" +
                             cluster_;
  const auto best = [&](const std::string& more) {
    const CommandResult found = weir("-q --json " + search + " --recompute none" + more);
    EXPECT_EQ(found.code, 0) << found.out;
    const Json plan = Json::parse(found.out)["plans"][0]["plan"];
    write("one.json", plan.dump());
    return plan["schedule"].get<std::string>();
  };
  EXPECT_EQ(best(""), "1f1b");
  Json stack = Json::parse(read(WEIR_SOURCE_DIR "/tools/examples/stacks/megatron-core.json"));
  stack["abilities"]["schedules"].push_back("vocab-1");
  write("with.json", stack.dump());
  EXPECT_EQ(best(" --stack with.json"), "vocab-1");
  const CommandResult any = weir("-q " + search + " --any-schedule --recompute none --top 50");
  EXPECT_THAT(any.out, HasSubstr(" vocab-2 "));
  EXPECT_EQ(best(" --schedule 1f1b,interlaced"), "interlaced");
  const CommandResult exported = weir("export one.json --to megatron -o one.sh");
  EXPECT_NE(exported.code, 0);
  EXPECT_THAT(exported.out, HasSubstr("interlaced"));
  const CommandResult run = weir(search + " --schedule vocab-1 --run");
  EXPECT_EQ(run.code, 5);
  EXPECT_THAT(run.out, HasSubstr("vocab-1 divides the vocabulary over the ranks, which is forecast "
                                 "only: no backend runs its passes"));
  const CommandResult rebuilt = weir(search + " --schedule vocab-1 --recompute stage");
  EXPECT_EQ(rebuilt.code, 4);
  EXPECT_THAT(rebuilt.out, HasSubstr("recompute: stage: expected layers, or none, with vocab-1"));
}

}  // namespace
}  // namespace weir::searched_words_test
