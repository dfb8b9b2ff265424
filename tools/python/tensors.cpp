// Tensors in files as NumPy arrays, by name: the weights that a run begins with or saves, and the
// gradients and logits that it dumps.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/weights/safetensors.hpp"
#include "exec/weights/weight_files.hpp"
#include "tools/python/bindings.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

// NumPy's words for what is no number that fp32 holds; BF16 it does not know.
const char* numpy_word(const std::string& dtype) {
  static constexpr std::pair<std::string_view, const char*> kWords[] = {
      {"F64", "<f8"}, {"I64", "<i8"}, {"I32", "<i4"}, {"I16", "<i2"}, {"I8", "i1"},  {"U64", "<u8"},
      {"U32", "<u4"}, {"U16", "<u2"}, {"U8", "u1"},   {"BOOL", "?"},  {"C64", "<c8"}};
  for (const auto& [word, numpy] : kWords) {
    if (word == dtype) return numpy;
  }
  return nullptr;
}

py::bytes bytes_of(const void* data, std::size_t size) {
  return {static_cast<const char*>(data), size};
}

py::object array_of(const StoredTensor& tensor, const std::string& where) {
  const char* word = numpy_word(tensor.dtype);
  const std::vector<std::byte> stored = tensor.bytes();
  py::bytes bytes = bytes_of(stored.data(), stored.size());
  if (word == nullptr) {  // the rest is fp32 or narrower, or refused
    const std::vector<float> values = to_floats(tensor, where);
    bytes = bytes_of(values.data(), values.size() * sizeof(float));
    word = "<f4";
  }
  const py::object flat =
      py::module_::import("numpy").attr("frombuffer")(bytes, py::arg("dtype") = word);
  // A copy can be written to; the bytes cannot.
  return flat.attr("reshape")(py::cast(tensor.shape)).attr("copy")();
}

py::dict load_tensors(const std::filesystem::path& path) {
  const WeightFiles files(path);
  py::dict arrays;
  for (const auto& [name, tensor] : files.tensors())
    arrays[py::str(name)] = array_of(*tensor, files.name() + ": " + name);
  return arrays;
}

void save_tensors(const std::filesystem::path& path, const py::dict& arrays,
                  const std::map<std::string, std::string>& metadata) {
  const py::object contiguous = py::module_::import("numpy").attr("ascontiguousarray");
  std::vector<TensorShape> shapes;
  std::vector<py::object> tensors;
  for (const auto& [name, array] : arrays) {
    tensors.push_back(contiguous(array, py::arg("dtype") = "<f4"));
    shapes.push_back(
        {name.cast<std::string>(), tensors.back().attr("shape").cast<std::vector<std::int64_t>>()});
  }
  SafetensorsWriter writer(path, shapes, metadata, Seal::own);
  for (const py::object& tensor : tensors) {
    const std::string bytes = tensor.attr("tobytes")().cast<std::string>();
    std::vector<float> values(bytes.size() / sizeof(float));
    std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(values.data()));
    writer.add(values);
  }
  writer.commit();
}

}  // namespace

void bind_tensors(py::module_& m) {
  m.def("load_tensors", &load_tensors, py::arg("path"),
        "Tensors by name as NumPy arrays: of a safetensors file, an index, or a folder with "
        "model.safetensors. 16-bit numbers are widened to float32.");
  m.def("save_tensors", &save_tensors, py::arg("path"), py::arg("tensors"),
        py::arg("metadata") = std::map<std::string, std::string>{{"format", "pt"}},
        "Writes arrays by name as float32 to a safetensors file, whole or not at all.");
}

}  // namespace weir::python
