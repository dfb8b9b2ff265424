// Models and plans from files: exact counts, the same bytes again, and one clear line for
// everything that is wrong.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "plan/job/resolve.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::model_test {
namespace {

using testing::HasSubstr;
const std::filesystem::path kModels =
    std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/models";

class Files : public testing::Test {
 protected:
  Files()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-model-test-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Files() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::filesystem::path folder_;
};

const char* const kTiny =
    R"({"model_type":"gpt2","n_embd":8,"n_head":2,"n_layer":2,"vocab_size":16,"n_positions":4})";

// 50257*768 + 1024*768 + 12*(12*768^2 + 13*768) + 2*768 = 124,439,808; the tied head adds nothing.
TEST(Model, GPT2SmallHasItsPublishedParameters) {
  EXPECT_EQ(parameter_count(load_model(kModels / "gpt2.json")), 124'439'808);
}

// The two that a machine is evaluated by. Llama: 2 x 4096 x 256 for embedding and head; a block's
// products 256 (256 + 2 x 128 + 256) + 3 x 256 x 704 and its norms' 512, eleven times; 256. ResNet:
// depth 18 with a stem of 3 x 3 and ten classes, 11,689,512 - 512,000 - 1000 + 5120 + 10 - 9408 +
// 1728.
TEST(Model, TheSmallLlamaAndResNetHaveSomeTenMillionParameters) {
  EXPECT_EQ(parameter_count(load_model(kModels / "llama-10m.json")), 10'213'120);
  EXPECT_EQ(parameter_count(load_model(kModels / "resnet-18-cifar.json")), 11'173'962);
}

TEST(Model, EmbeddingBlocksNormAndHeadAreLayersOfTheirOwn) {
  const Model model = load_model(kModels / "gpt2-mini.json");
  ASSERT_EQ(model.layers.size(), 9U);
  EXPECT_EQ(kind_name(model.layers.front()), "embedding");
  EXPECT_EQ(kind_name(model.layers[1]), "transformer");
  EXPECT_EQ(kind_name(model.layers[7]), "norm");
  EXPECT_EQ(kind_name(model.layers.back()), "head");
  EXPECT_GE(parameter_count(model), 10'000'000);
}

TEST_F(Files, UnknownHuggingFaceKeysAreIgnoredAndNamed) {
  std::string text = kTiny;
  text.insert(1, R"("summary_type":"cls_index","use_cache":true,)");
  const Model model = load_model(write("config.json", text));
  EXPECT_EQ(model.ignored_keys, 2);
  EXPECT_EQ(model.remarks.back(), "2 unknown keys ignored: summary_type, use_cache");
}

TEST_F(Files, LayerTablesNeedNoKnowledgeOfTheLayers) {
  const Model model =
      load_model(write("layers.csv",
                       "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
                       "stem,conv,100,1.5,1,0.5,4096,1024,1\nbody,conv,200,2,2,2,8192,1024,3\n"));
  ASSERT_EQ(model.layers.size(), 4U);
  EXPECT_EQ(model.layers[3].name, "body.2");
  EXPECT_EQ(kind_name(model.layers[0]), "conv");
  EXPECT_EQ(parameter_count(model), 700);
}

// As Python's csv module and spreadsheets write names with commas and quotes.
TEST_F(Files, CellsOfLayerTablesMayBeQuoted) {
  const Model model =
      load_model(write("layers.csv",
                       "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
                       "\"conv(3, 4)\", \"a \"\"b\"\"\" ,\"100\",1.5,1,0.5,4096,1024,1\n"));
  EXPECT_EQ(model.layers[0].name, "conv(3, 4)");
  EXPECT_EQ(kind_name(model.layers[0]), "a \"b\"");
  EXPECT_EQ(parameter_count(model), 100);
}

TEST_F(Files, LayerListsAreStrict) {
  const char* const list = R"({"schema":"weir.layers/1","seq_length":8,"layers":[
    {"name":"e","kind":"embedding","vocabulary":16,"hidden":8,"positions":8,"tied":true},
    {"name":"b","kind":"transformer","hidden":8,"heads":2,"count":3},
    {"name":"n","kind":"norm","hidden":8},{"name":"h","kind":"head","vocabulary":16,"hidden":8,)"
                           R"("tied":true}]})";
  EXPECT_EQ(load_model(write("list.json", list)).layers.size(), 6U);
  std::string wrong = list;
  wrong.replace(wrong.find("\"heads\":2"), 9, "\"haeds\":2");
  EXPECT_THAT(complaint([&] { static_cast<void>(load_model(write("wrong.json", wrong))); }),
              HasSubstr("wrong.json: layers[1].heads: is missing"));
}

// Each row: what is wrong with a config, and what the one line must name.
TEST_F(Files, BadModelsGetOneLineWithFileAndKey) {
  const auto replaced = [](const std::string& from, const std::string& to) {
    std::string text = kTiny;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::pair<std::string, std::string> cases[] = {
      {replaced("\"n_layer\":2,", ""), "bad.json: n_layer: is missing"},
      {replaced("gpt2", "mamba"), "bad.json: model_type: mamba has Mamba blocks"},
      {replaced("\"n_embd\":8", "\"n_embd\":\"8\""), "bad.json: n_embd: expected an integer"},
      {replaced("\"n_embd\":8", "\"n_embd\":-8"), "bad.json: n_embd: expected an integer from 1"},
      {replaced("\"n_embd\":8", "\"n_embd\":99999999999999999999"),
       "bad.json: n_embd: expected an integer"},
      {replaced("\"n_layer\":2", "\"n_layer\":1000000000"),
       "bad.json: n_layer: expected an integer from 1 to 100000"},
      {replaced("\"n_head\":2", "\"n_head\":3"), "bad.json: n_head: does not divide n_embd"},
      {replaced("\"n_head\":2", "\"n_head\":2,\"n_head\":2"),
       "bad.json: n_head: the key is there twice"},
      {std::string(kTiny).substr(0, 40), "bad.json: no valid JSON"},
      {std::string(5000, '[') + std::string(5000, ']'), "bad.json: JSON nested deeper than 64"},
      {"[1, 2]", "bad.json: expected an object"},
      {"", "bad.json: no valid JSON"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string line = complaint(
        [&, &content = text] { static_cast<void>(load_model(write("bad.json", content))); });
    EXPECT_THAT(line, HasSubstr(expected)) << text.substr(0, 80);
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
}

TEST_F(Files, UnreadableFilesSayWhy) {
  EXPECT_THAT(complaint([&] { static_cast<void>(load_model(folder_ / "none.json")); }),
              HasSubstr("no such file"));
  EXPECT_THAT(complaint([&] { static_cast<void>(load_model(folder_)); }), HasSubstr("is a folder"));
}

class Plans : public Files {
 protected:
  Plans() : model_(write("config.json", kTiny)) {
    plan_.model_path = "config.json";
    plan_.model_sha256 = sha256_hex(kTiny);
    plan_.seq_length = 4;
    plan_.pp = 2;
    plan_.microbatches = 4;
    plan_.boundaries = {2};
    plan_.note = "a \"quoted\" note";
  }
  std::filesystem::path model_;
  Plan plan_;
};

TEST_F(Plans, LoadingAndSavingGivesTheSameBytes) {
  save_plan(plan_, folder_ / "plan.json");
  const std::string bytes = read_text_file(folder_ / "plan.json");
  EXPECT_EQ(load_plan(folder_ / "plan.json").plan, plan_);
  EXPECT_EQ(to_json(parse_plan(bytes, "plan.json")), bytes);
}

// The key came after weir.plan/1: a file without it keeps its bytes and means unfused, which is not
// said aloud.
TEST_F(Plans, AttentionStandsWhereItIsFused) {
  const std::string before = to_json(plan_);
  EXPECT_THAT(before, testing::Not(HasSubstr("attention")));
  EXPECT_EQ(parse_plan(before, "p").attention, AttentionKind::unfused);
  plan_.attention = AttentionKind::fused;
  const std::string text = to_json(plan_);
  EXPECT_THAT(text, HasSubstr("\"dtype\": \"fp32\",\n  \"attention\": \"fused\",\n  \"pp\": "));
  EXPECT_EQ(to_json(parse_plan(text, "p")), text);
  save_plan(plan_, folder_ / "plan.json");
  for (const Layer& layer : load_plan(folder_ / "plan.json").model.layers) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block != nullptr) {
      EXPECT_EQ(block->attention, AttentionKind::fused) << layer.name;
    }
  }
  for (const char* word : {"unfused", "flash", "full"}) {
    std::string wrong = text;
    wrong.replace(wrong.find("fused"), 5, word);
    EXPECT_THAT(complaint([&] { static_cast<void>(parse_plan(wrong, "p.json")); }),
                HasSubstr("p.json: attention: expected fused"));
  }
}

// v0.1 wrote a stage's re-materialisation as full, with the placement of R as in every file: it is
// read as stage, and says so once. What is written now as full or as layers has no placement.
TEST_F(Plans, AnOlderFilesFullIsAStage) {
  plan_.recompute = {.mode = RecomputeMode::stage, .except_last = true};
  const std::string now = to_json(plan_);
  std::string before = now;
  before.replace(before.find("\"stage\""), 7, "\"full\"");
  const PlanFile read = read_plan(before, "p");
  EXPECT_EQ(read.plan, plan_);
  EXPECT_THAT(read.remarks, testing::ElementsAre(HasSubstr("is read as stage")));
  EXPECT_EQ(to_json(read.plan), now);
  EXPECT_TRUE(read_plan(now, "p").remarks.empty());
  for (const char* word : {"none", "selective", "full", "full:4", "stage", "0-1,4", "3",
                           "selective:layernorm+moe_act"}) {
    plan_.recompute = parse_recompute_word(word).value();
    const std::string text = to_json(plan_);
    EXPECT_THAT(text, HasSubstr(std::string("\"recompute\": \"") + word + "\",\n"));
    EXPECT_EQ(read_plan(text, "p").plan, plan_) << word;
    EXPECT_TRUE(read_plan(text, "p").remarks.empty()) << word;
    EXPECT_EQ(to_json(parse_plan(text, "p")), text) << word;
    save_plan(plan_, folder_ / "plan.json");
    EXPECT_EQ(load_plan(folder_ / "plan.json").plan, plan_) << word;
  }
  // Of several words for one thing a file has one, but the core's name is known, too.
  plan_.recompute = parse_recompute_word("selective").value();
  std::string named = to_json(plan_);
  named.replace(named.find("\"selective\""), 11, "\"selective:core_attn\"");
  EXPECT_EQ(read_plan(named, "p").plan, plan_);
}

TEST_F(Plans, LayersAreMergedAndMustBeThere) {
  EXPECT_EQ(recompute_word(parse_recompute_word("7,3-4,5,0").value()), "0,3-5,7");
  EXPECT_EQ(recompute_word(parse_recompute_word("full:1").value()), "full");
  EXPECT_EQ(recompute_word(parse_recompute_word("selective:moe+layernorm").value()),
            "selective:layernorm+moe");
  EXPECT_EQ(recompute_word(parse_recompute_word("selective:core_attn").value()), "selective");
  for (const char* word :
       {"", "5-3", "1,", "-1", "a", "1-2-3", "99999999", "Full", "full:0", "full:", "full:x",
        "full:-2", "full:1-2", "stage:2", "selective:", "selective:moe+", "selective:attention"})
    EXPECT_FALSE(parse_recompute_word(word).has_value()) << word;
  plan_.recompute = parse_recompute_word("0-5").value();  // of five layers
  save_plan(plan_, folder_ / "plan.json");
  EXPECT_THAT(complaint([&] { static_cast<void>(load_plan(folder_ / "plan.json")); }),
              HasSubstr("recompute: 0-5: expected layers from 0 to 4"));
  std::string text = to_json(plan_);
  text.replace(text.find("\"0-5\""), 5, "\"2,1\"");  // a file has them ascending
  EXPECT_THAT(
      complaint([&] { static_cast<void>(parse_plan(text, "p.json")); }),
      HasSubstr("p.json: recompute: expected none, selective, full, stage, full:N, ascending"));
}

TEST_F(Plans, AChangedModelIsRefused) {
  save_plan(plan_, folder_ / "plan.json");
  write("config.json", std::string(kTiny) + " ");
  EXPECT_THAT(complaint([&] { static_cast<void>(load_plan(folder_ / "plan.json")); }),
              HasSubstr("model_sha256: " + (folder_ / "config.json").string() + " has changed"));
}

// Embedding, two blocks, norm and head on the second and the fourth of five stages. The one between
// hands on what the first block's stage makes, 4 tokens x 8 x 4 bytes; before the embedding and
// after the head there is nothing to hand on. A plan may say so; a stack decides whether it can be.
TEST_F(Plans, StagesMayBeEmpty) {
  plan_.pp = 5;
  plan_.boundaries = {0, 2, 2, 5};
  save_plan(plan_, folder_ / "plan.json");
  const ResolvedPlan resolved = load_plan(folder_ / "plan.json");
  std::vector<std::pair<std::int64_t, std::int64_t>> crossing;
  std::vector<int> layers;
  for (const StagePart& stage : resolved.stages) {
    crossing.emplace_back(stage.input_bytes, stage.output_bytes);
    layers.push_back(stage.layers.size());
  }
  using Crossing = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(crossing, (std::vector<Crossing>{{0, 0}, {0, 128}, {128, 128}, {128, 0}, {0, 0}}));
  EXPECT_EQ(layers, (std::vector<int>{0, 2, 0, 3, 0}));
  EXPECT_EQ(resolved.ties.front().holders, (std::vector<Stage>{Stage{1}, Stage{3}}));
  EXPECT_EQ(complaint([&] { require_stages(resolved, Stack{}); }),
            "plan: boundaries: stage 0 of 5 has none of the 5 layers: the stack weir has no empty "
            "stages");
  EXPECT_NO_THROW(require_stages(resolved, Stack{.empty_stages = true}));
  // More stages than layers.
  plan_.pp = 6;
  plan_.boundaries = {1, 2, 3, 4, 4};
  save_plan(plan_, folder_ / "plan.json");
  EXPECT_THAT(complaint([&] { require_stages(load_plan(folder_ / "plan.json"), Stack{}); }),
              HasSubstr("pp: stage 4 of 6 has none of the 5 layers"));
}

TEST_F(Plans, BadPlansGetOneLineWithFileAndKey) {
  const auto changed = [this](const std::function<void(Plan&)>& change) {
    Plan plan = plan_;
    change(plan);
    save_plan(plan, folder_ / "plan.json");
    return complaint([&] { static_cast<void>(load_plan(folder_ / "plan.json")); });
  };
  EXPECT_THAT(changed([](Plan& p) { p.boundaries = {-1}; }),
              HasSubstr("boundaries: expected a list of integers from 0 to"));
  EXPECT_THAT(changed([](Plan& p) { p.boundaries = {6}; }),
              HasSubstr("boundaries: 6: expected ascending layer indices from 0 to 5"));
  EXPECT_THAT(changed([](Plan& p) {
                p.pp = 3, p.boundaries = {3, 2};
              }),
              HasSubstr("boundaries: 2: expected"));
  EXPECT_THAT(changed([](Plan& p) { p.pp = 3; }), HasSubstr("boundaries: expected K*v-1 = 2"));
  EXPECT_THAT(changed([](Plan& p) { p.seq_length = 5; }),
              HasSubstr("seq_length: 5 is above the model's 4 positions"));
  EXPECT_THAT(changed([](Plan& p) { p.schedule = "zigzag"; }),
              HasSubstr("schedule: unknown schedule \"zigzag\""));
  std::string text = to_json(plan_);
  text.replace(text.find("\"slots\""), 7, "\"slotz\"");
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_plan(text, "p.json")); }),
              HasSubstr("p.json: slots: is missing"));
  text = to_json(plan_);
  text.insert(text.find("\"slots\""), "\"turbo\": true, ");
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_plan(text, "p.json")); }),
              HasSubstr("p.json: turbo: unknown key"));
}

// A disk that is full: a limit on file size stands in for it. What was there before stays.
TEST_F(Plans, AFullDiskLeavesTheEarlierFileUntouched) {
  const auto file = folder_ / "plan.json";
  save_plan(plan_, file);
  const std::string before = read_text_file(file);
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{16, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  std::string line;
  try {
    write_file_atomically(file, std::string(10'000, 'x'));
  } catch (const RunFailed& full) {  // nobody's mistake in what was asked
    line = full.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_THAT(line, HasSubstr("plan.json: cannot be written"));
  EXPECT_EQ(read_text_file(file), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2)
      << "a temporary file was left";
}

TEST(Sha256, KnownAnswer) {  // FIPS 180-4 example: "abc"
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// Sizes and skips by hand: a convolution and its sum, three layers later by count, with 10 bytes of
// its own.
TEST_F(Files, LayerListsHaveSizedLayersAndSkips) {
  const std::string layers = R"({"schema":"weir.layers/1","layers":[
    {"name":"conv","kind":"sized","label":"conv","parameters":9,"flops_forward":72,"input":4,)"
                             R"("keeps_input":true,"output":4},
    {"name":"relu","kind":"sized","count":2,"output":4},
    {"name":"add","kind":"sized","kept":3,"output":4}])";
  const Model model =
      load_model(write("net.json", layers + R"(,"skips":[{"from":0,"to":3,"bytes":10}]})"));
  ASSERT_EQ(model.layers.size(), 4U);
  EXPECT_EQ(kind_name(model.layers[0]), "conv");
  EXPECT_EQ(kind_name(model.layers[1]), "sized");
  EXPECT_EQ(parameter_count(model), 9);
  ASSERT_EQ(model.skips.size(), 1U);
  EXPECT_EQ(model.skips[0].to, 3);
  EXPECT_EQ(model.skips[0].bytes->count(), 10);
  EXPECT_THAT(complaint([&] {
                static_cast<void>(
                    load_model(write("bad.json", layers + R"(,"skips":[{"from":0,"to":1}]})")));
              }),
              HasSubstr("bad.json: skips[0].to: expected a layer after 1"));
}

TEST(HuggingFaceSamples, LoadOrAreRefusedClearly) {
  const std::filesystem::path folder =
      std::filesystem::path(WEIR_SOURCE_DIR) / ".." / "shared" / "samples" / "hf-config";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no sample files beside the checkout";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    try {
      EXPECT_FALSE(load_model(entry.path()).layers.empty());
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(entry.path().filename().string() + ": "));
    }
  }
}

}  // namespace
}  // namespace weir::model_test
