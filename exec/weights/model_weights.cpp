// Weights by the names of their family.
// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/model_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <set>

#include "exec/weights/first_failure.hpp"
#include "exec/weights/weight_files.hpp"
#include "exec/weights/weight_names.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

class ModelFiles {
 public:
  ModelFiles(const ResolvedPlan& loaded, const std::filesystem::path& path)
      : loaded_(loaded), files_(path), base_(base_prefix(loaded.model)) {
    std::set<std::string> used;
    each_weight(loaded, ParameterPart::values,
                [&](ParameterId weight, const ParameterTensor& parameter) {
                  for (const TensorShape& tensor : file_shapes(rows(weight, parameter), parameter))
                    used.insert(checked(tensor));
                });
    // Both ways: every weight must be there, and what is there must be one of them.
    for (const auto& [name, tensor] : files_.tensors()) {
      if (!used.contains(name) && !is_no_weight(name))
        throw InputError(files_.name(), name, "is no weight of " + loaded.model.name);
    }
  }

  [[nodiscard]] ParameterState state(ParameterId weight, const ParameterTensor& parameter) const {
    ParameterState state;
    state.values.resize(static_cast<std::size_t>(parameter.elements()));
    const std::vector<NamedRows> named = rows(weight, parameter);
    // A weight of ours may lie in several tensors, as queries, keys and values do.
    for (const TensorShape& tensor : file_shapes(named, parameter)) {
      const std::string name = name_here(tensor.name);
      const auto values = to_floats(*files_.find(name), files_.name() + ": " + name);
      from_file(tensor, named, parameter, values, state.values);
    }
    return state;
  }

 private:
  [[nodiscard]] std::vector<NamedRows> rows(ParameterId weight,
                                            const ParameterTensor& parameter) const {
    return named_rows(loaded_.model, weight.layer, parameter);
  }

  // Without the base's prefix where the files are of the base alone, and as older files have it.
  [[nodiscard]] std::string name_here(const std::string& name) const {
    for (const std::string& called : {name, older_name(name)}) {
      if (files_.find(called) != nullptr) return called;
      if (!called.starts_with(base_)) continue;
      std::string of_base = called.substr(base_.size());
      if (files_.find(of_base) != nullptr) return of_base;
    }
    return name;
  }

  // The name in these files of a tensor that is there as it must be.
  [[nodiscard]] std::string checked(const TensorShape& expected) const {
    std::string name = name_here(expected.name);
    const StoredTensor* tensor = files_.find(name);
    if (tensor == nullptr) throw InputError(files_.name(), expected.name, "is not there");
    if (tensor->shape != expected.shape) {
      throw InputError(
          files_.name(), name,
          fmt::format("shape [{}], the model's is [{}]", fmt::join(tensor->shape, ", "),
                      fmt::join(expected.shape, ", ")));
    }
    if (tensor->dtype != "F32" && tensor->dtype != "F16" && tensor->dtype != "BF16")
      throw InputError(files_.name(), name, tensor->dtype + ", expected F32, F16 or BF16");
    return name;
  }

  const ResolvedPlan& loaded_;
  WeightFiles files_;
  std::string base_;
};

}  // namespace

StateSource weights_of(const ResolvedPlan& loaded, const std::filesystem::path& path) {
  // Shared: a StateSource can be copied, the open files cannot.
  const auto files = std::make_shared<const ModelFiles>(loaded, path);
  return [files](ParameterId weight, const ParameterTensor& parameter) {
    return files->state(weight, parameter);
  };
}

void write_weights(const ResolvedPlan& loaded, const WeightsFile& to, const FetchParameter& fetch,
                   const std::vector<NamedValues>& more) {
  if (!to.leads) return give_weights(loaded, to.part, fetch);
  std::vector<TensorShape> shapes;
  each_weight(loaded, to.part, [&](ParameterId weight, const ParameterTensor& parameter) {
    const auto rows = named_rows(loaded.model, weight.layer, parameter);
    for (TensorShape& shape : file_shapes(rows, parameter)) shapes.push_back(std::move(shape));
  });
  for (const NamedValues& each : more) shapes.push_back(each.shape);
  // What others send is taken, whatever becomes of the file.
  FirstFailure failure;
  std::optional<SafetensorsWriter> writer;
  // `format`: transformers loads no file without it.
  failure.guard([&] {
    writer.emplace(to.file, shapes, WeightMetadata{{"format", "pt"}}, Seal::own);
  });
  gather_weights(
      loaded, to.part, fetch,
      [&](ParameterId weight, const ParameterTensor& parameter, std::span<const float> values) {
        const auto rows = named_rows(loaded.model, weight.layer, parameter);
        for (const TensorShape& tensor : file_shapes(rows, parameter))
          failure.guard([&] { writer->add(to_file(tensor, rows, parameter, values)); });
      });
  failure.guard([&] {
    for (const NamedValues& each : more) writer->add(each.bytes);
    writer->commit();
  });
  failure.rethrow();
}

}  // namespace weir
