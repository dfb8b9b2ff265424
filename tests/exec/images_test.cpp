// Samples that are images: records of files as batches.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <string>
#include <vector>

#include "exec/training/batches.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::images_test {
namespace {

// Records as CIFAR-10's binary version has them: here of 3 classes, two channels of 1 x 2.
TEST(Batches, ImagesOfRecords) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("weir-images-" + std::to_string(::getpid()));
  const auto write = [&](std::vector<unsigned char> bytes) {
    write_file_atomically(file, std::string(bytes.begin(), bytes.end()));
  };
  write({2, 0, 255, 51, 102, 0, 1, 2, 3, 4});
  const BatchRequest request{
      .files = {file}, .vocabulary = 3, .image = {2, 1, 2}, .samples = 2, .shuffled = false};
  const Batches batches(request);
  EXPECT_EQ(batches.windows(), 2);
  std::vector<std::int32_t> words(5);
  batches.sample(0, 0, words.data());
  // Channels innermost: 0 and 51 at the first place, 255 and 102 at the second; the label 2.
  const float expected[] = {-1, 51 / 127.5F - 1, 1, 102 / 127.5F - 1, 2};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(std::bit_cast<float>(words[i]), expected[i]) << i;
  write({3, 0, 255, 51, 102});
  EXPECT_THROW(Batches{request}, InputError);  // a label above the classes
  write({0, 0, 255, 51});
  EXPECT_THROW(Batches{request}, InputError);  // not a whole record
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace weir::images_test
