// Dimensions of einsums, their gradients, and how they print.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace weir::layout {

bool has_dimension(const std::vector<int>& dimensions, int dimension) {
  return std::ranges::find(dimensions, dimension) != dimensions.end();
}

namespace {

const NamedTensor& tensor_of(const Program& program, int tensor) {
  return program.tensors[static_cast<std::size_t>(tensor)];
}

// The gradient tensor of each tensor, made when first asked for.
class Gradients {
 public:
  explicit Gradients(Program& program) : program_(program), of_(program.tensors.size(), -1) {}
  int of(int tensor) {
    int& gradient = of_[static_cast<std::size_t>(tensor)];
    if (gradient < 0) {
      NamedTensor made = tensor_of(program_, tensor);
      made.name = "d" + made.name;
      for (const NamedTensor& other : program_.tensors) {
        if (other.name == made.name) throw std::invalid_argument(made.name);
      }
      gradient = static_cast<int>(program_.tensors.size());
      program_.tensors.push_back(std::move(made));
    }
    return gradient;
  }

 private:
  Program& program_;
  std::vector<int> of_;
};

}  // namespace

std::vector<int> all_dimensions(const Program& program, const Einsum& einsum) {
  std::set<int> all(tensor_of(program, einsum.output).dimensions.begin(),
                    tensor_of(program, einsum.output).dimensions.end());
  for (const int input : einsum.inputs) {
    const auto& dimensions = tensor_of(program, input).dimensions;
    all.insert(dimensions.begin(), dimensions.end());
  }
  return {all.begin(), all.end()};
}

std::vector<int> reduced_dimensions(const Program& program, const Einsum& einsum) {
  std::vector<int> reduced = all_dimensions(program, einsum);
  const auto& kept = tensor_of(program, einsum.output).dimensions;
  std::erase_if(reduced, [&](int d) { return std::ranges::find(kept, d) != kept.end(); });
  return reduced;
}

Program with_backward(const Program& program) {
  Program result = program;
  result.forward = static_cast<int>(program.einsums.size());
  std::vector<bool> from_relu(program.tensors.size(), false);
  for (const Einsum& einsum : program.einsums) {
    from_relu[static_cast<std::size_t>(einsum.output)] = einsum.function == Function::relu;
  }
  Gradients gradients(result);
  // Backwards, so that an output's gradient is complete before its einsum hands it on.
  for (auto einsum = program.einsums.rbegin(); einsum != program.einsums.rend(); ++einsum) {
    const int given = gradients.of(einsum->output);
    for (std::size_t i = 0; i < einsum->inputs.size(); ++i) {
      const int input = einsum->inputs[i];
      Einsum gradient;
      gradient.output = gradients.of(input);
      gradient.inputs = einsum->inputs;
      gradient.inputs[i] = given;  // of o = a b: da = do b, the output's gradient in a's place
      if (from_relu[static_cast<std::size_t>(input)]) gradient.masked_by = input;
      result.einsums.push_back(std::move(gradient));
    }
  }
  return result;
}

std::string to_text(const Program& program, const NamedTensor& tensor) {
  std::vector<std::string> names;
  for (const int d : tensor.dimensions)
    names.push_back(program.dimensions[static_cast<std::size_t>(d)].name);
  return fmt::format("{}[{}]", tensor.name, fmt::join(names, ", "));
}

std::string to_text(const Program& program, const Einsum& einsum) {
  std::vector<std::string> names;
  for (const int input : einsum.inputs) names.push_back(tensor_of(program, input).name);
  const std::string product = fmt::format("{}", fmt::join(names, " "));
  const std::string& output = tensor_of(program, einsum.output).name;
  if (einsum.masked_by >= 0) {
    return fmt::format("{} = ({}) where {} > 0", output, product,
                       tensor_of(program, einsum.masked_by).name);
  }
  if (einsum.function == Function::relu) return fmt::format("{} = relu({})", output, product);
  return fmt::format("{} = {}", output, product);
}

}  // namespace weir::layout
