// The tensors of one safetensors file, or of several with their index, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exec/weights/safetensors.hpp"

namespace weir {

class WeightFiles {
 public:
  // A .safetensors file; an index (.json), whose files stand beside it; or a folder with
  // model.safetensors or model.safetensors.index.json. Throws InputError, also where the index
  // names a tensor that its file has not, and where a file with a seal is not as it was written.
  explicit WeightFiles(const std::filesystem::path& path);

  // Null: there is none.
  [[nodiscard]] const StoredTensor* find(const std::string& name) const;
  [[nodiscard]] const std::map<std::string, const StoredTensor*>& tensors() const {
    return by_name_;
  }
  // Of the bytes of all files, in the order of their names.
  [[nodiscard]] std::string sha256() const;
  [[nodiscard]] std::string name() const { return path_.string(); }

 private:
  void open_index();
  void add(const std::filesystem::path& file);

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const StoredTensor*> by_name_;
};

}  // namespace weir
