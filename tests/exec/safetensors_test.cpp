// safetensors files: read back as written, and refused, with the tensor's name, where they are not
// what the format says.
// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>

#include "exec/weights/weight_files.hpp"
#include "plan/text/bytes_file.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::safetensors_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Safetensors : public testing::Test {
 protected:
  Safetensors()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-safetensors-" + std::to_string(::getpid()))) {}
  ~Safetensors() override { std::filesystem::remove_all(folder_); }

  // A file of this header and these bytes behind it.
  std::filesystem::path file(const std::string& header, const std::string& data) {
    std::string text(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(text.data(), &length, 8);
    return raw(text + header + data);
  }
  std::filesystem::path raw(const std::string& bytes) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "a.safetensors", std::ios::binary) << bytes;
    return folder_ / "a.safetensors";
  }
  std::string complaint(const std::filesystem::path& path) {
    try {
      const SafetensorsFile opened(path);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  std::filesystem::path folder_;
};

TEST_F(Safetensors, AreReadAsWritten) {
  const std::filesystem::path path = folder_ / "new" / "b.safetensors";
  {
    SafetensorsWriter writer(path, {{"w", {2, 2}}, {"none", {0}}, {"b", {1}}}, {{"format", "pt"}});
    writer.add(std::vector<float>{1, 2, 3, 4});
    EXPECT_FALSE(std::filesystem::exists(path)) << "not before it is whole";
    writer.add(std::vector<float>{});
    writer.add(std::vector<float>{-0.5F});
    writer.commit();
  }
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_THAT(file.tensors().at("w").shape, ElementsAre(2, 2));
  EXPECT_THAT(to_floats(file.tensors().at("w"), "w"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(to_floats(file.tensors().at("b"), "b"), ElementsAre(-0.5F));
  EXPECT_TRUE(file.tensors().at("none").bytes().empty());
}

TEST_F(Safetensors, WhatIsNotCommittedLeavesNothing) {
  const std::filesystem::path path = raw("before");
  { const SafetensorsWriter writer(path, {{"w", {2, 2}}}, {}); }
  EXPECT_EQ(read_text_file(path), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

// 1.0 is 0x3C00 in fp16 and 0x3F80 in bf16; 0x0001 is fp16's least, 2^-24; 0xFC00 is -infinity.
TEST_F(Safetensors, SixteenBitsAreWidened) {
  const SafetensorsFile file(
      Safetensors::file(R"({"h":{"dtype":"F16","shape":[3],"data_offsets":[0,6]},)"
                        R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[6,8]}})",
                        std::string("\x00\x3c\x01\x00\x00\xfc\x80\x3f", 8)));
  EXPECT_THAT(to_floats(file.tensors().at("h"), "h"),
              ElementsAre(1.0F, 0x1p-24F, -std::numeric_limits<float>::infinity()));
  EXPECT_THAT(to_floats(file.tensors().at("b"), "b"), ElementsAre(1.0F));
}

TEST_F(Safetensors, RubbishIsRefused) {
  const auto tensor = [](const std::string& rest) { return R"({"w":{)" + rest + "}}"; };
  const struct {
    std::string header, expected;
  } kCases[] = {
      {"[]", "no JSON object"},
      {"{", "no valid JSON"},
      {std::string(1000, '['), "nests deeper"},
      {tensor(R"("dtype":"F32","shape":[1])"), "w: expected dtype, shape and data_offsets"},
      {tensor(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), "w: dtype"},
      {tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "-1: expected a number"},
      {tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])"), "2^48"},
      {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), "not within the file's 4"},
      {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "4 bytes, its shape has 8"},
      {tensor(R"("dtype":"F32","shape":[0],"data_offsets":[4,0])"), "not within"},
      {R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", "leaves a gap"},
      {R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "behind the last tensor"},
      {R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
       R"("x":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       "overlaps"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       "w: the name is there twice"},
      {R"({"__metadata__":{"a":1}})", "__metadata__: a: expected a text"},
  };
  for (const auto& c : kCases)
    EXPECT_THAT(complaint(file(c.header, "abcd")), HasSubstr(c.expected)) << c.header.substr(0, 80);
  EXPECT_THAT(complaint(raw("abc")), HasSubstr("3 bytes"));
  EXPECT_THAT(complaint(raw(std::string(16, '\xff'))), HasSubstr("no safetensors file"));
  EXPECT_THAT(complaint(folder_), HasSubstr("expected a file"));
}

// Cut anywhere, or with any byte changed, a file is refused or read within its bounds.
TEST_F(Safetensors, ChangedBytesNeverReadOutside) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F16","shape":[2,1],"data_offsets":[8,12]}})";
  const std::string whole = read_text_file(file(header, std::string(12, 'x')));
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    if (i % 4 == 0) bytes.resize(random() % bytes.size());
    try {
      const SafetensorsFile opened(raw(bytes));
      for (const auto& [name, tensor] : opened.tensors()) {
        if (tensor.dtype == "F32" || tensor.dtype == "F16") {
          EXPECT_LE(to_floats(tensor, name).size(), 12U);
        }
      }
    } catch (const InputError&) {
    }
  }
}

// With a seal, every bit of every byte counts; but a seal whose own name is damaged is none.
TEST_F(Safetensors, ASealedFileIsAsItWasWritten) {
  const std::filesystem::path path = folder_ / "sealed.safetensors";
  SafetensorsWriter writer(path, {{"w", {2}}, {"b", {1}}}, {{"format", "pt"}}, Seal::own);
  writer.add(std::vector<float>{1, 2});
  writer.add(std::vector<float>{3});
  writer.commit();
  const std::string whole = read_bytes(path);
  const std::string name = "weir.sha256";
  const std::size_t named = whole.find(name);
  const SafetensorsFile written(path);
  EXPECT_EQ(written.metadata().at(name), writer.sha256());
  written.check_seal("sealed");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (at >= named && at < named + name.size()) continue;
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    EXPECT_THROW(SafetensorsFile(raw(bytes)).check_seal("a"), InputError) << at;
  }
}

// What another program does to a file that is open is told, not trained on, and ends nothing: cut
// off (which ends a process that has mapped it), written into in place, or longer.
TEST_F(Safetensors, AFileThatChangesMeanwhileIsRefused) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[4096],"data_offsets":[0,16384]}})";
  const std::filesystem::path path = file(header, std::string(16384, 'x'));
  const std::string whole = read_bytes(path);
  const auto told = [&](const std::function<void()>& change) -> std::string {
    raw(whole);
    // A time of writing of its own, or both might be written within one tick of the clock.
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    const SafetensorsFile opened(path);
    EXPECT_EQ(to_floats(opened.tensors().at("w"), "w").size(), 4096U);
    change();
    try {
      static_cast<void>(to_floats(opened.tensors().at("w"), "w"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(told([&] { std::filesystem::resize_file(path, 100); }),
              HasSubstr("a.safetensors: cannot be read: it was changed meanwhile (100 bytes, "));
  EXPECT_THAT(told([&] { raw(std::string(whole.size(), 'y')); }), HasSubstr("changed meanwhile"));
  EXPECT_THAT(told([&] { raw(whole + "more"); }), HasSubstr("changed meanwhile"));
  // Put in its place as a whole, as savers do: what is open is the old one still.
  EXPECT_EQ(told([&] {
              std::ofstream(path.string() + ".new") << whole;
              std::filesystem::rename(path.string() + ".new", path);
            }),
            "");
}

// Nobody writes into it: who opened it as a file would wait for ever.
TEST_F(Safetensors, APipeIsNoFile) {
  std::filesystem::create_directories(folder_);
  const std::filesystem::path pipe = folder_ / "pipe.safetensors";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(complaint(pipe), HasSubstr("expected a file"));
}

TEST_F(Safetensors, AnIndexNamesFilesBesideIt) {
  for (const char* name : {"x", "y"}) {
    SafetensorsWriter writer(folder_ / (std::string(name) + ".safetensors"), {{name, {1}}}, {});
    writer.add(std::vector<float>{2});
    writer.commit();
  }
  const auto index = folder_ / "model.safetensors.index.json";
  const auto with = [&](const std::string& map) {
    write_file_atomically(index, R"({"metadata":{},"weight_map":{)" + map + "}}");
    return WeightFiles(folder_);
  };
  EXPECT_EQ(with(R"("x":"x.safetensors","y":"y.safetensors")").tensors().size(), 2U);
  EXPECT_THROW(with(R"("z":"x.safetensors")"), InputError);
  EXPECT_THROW(with(R"("x":"../x.safetensors")"), InputError);
  EXPECT_THROW(with(R"("x":"none.safetensors")"), InputError);
}

}  // namespace
}  // namespace weir::safetensors_test
