// NumPy arrays of images as a file of records that a run trains on (exec/training/batches): for
// each image its labels and then its numbers, channel by channel, a byte each.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/python/bindings.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

using Shape = std::vector<std::int64_t>;

Shape shape_of(const py::object& array) { return array.attr("shape").cast<Shape>(); }

std::string kind_of(const py::object& array) {
  return array.attr("dtype").attr("kind").cast<std::string>();
}

// [n, numbers of an image].
py::object image_rows(const py::object& images) {
  const Shape shape = shape_of(images);
  const bool bytes = kind_of(images) == "u" && images.attr("itemsize").cast<int>() == 1;
  if (!bytes || shape.size() != 4) {
    throw UsageError(
        fmt::format("images: expected an array of uint8, [n, channels, height, width], found {} of "
                    "{} dimensions",
                    py::str(images.attr("dtype")).cast<std::string>(), shape.size()));
  }
  return images.attr("reshape")(shape[0], shape[1] * shape[2] * shape[3]);
}

// [n, labels of an image]: one, or one for each place of images so large.
py::object label_rows(const py::object& labels, const Shape& images) {
  const Shape shape = shape_of(labels);
  const bool one = shape == Shape{images[0]};
  const bool of_places = shape == Shape{images[0], images[2], images[3]};
  const std::string kind = kind_of(labels);
  if ((kind != "i" && kind != "u") || (!one && !of_places)) {
    throw UsageError(
        fmt::format("labels: expected integers, [{}] or [{}, {}, {}] as there are images or places "
                    "of them",
                    images[0], images[0], images[2], images[3]));
  }
  if (images[0] == 0) return labels.attr("reshape")(0, 1).attr("astype")("u1");
  const auto least = labels.attr("min")().cast<std::int64_t>();
  const auto most = labels.attr("max")().cast<std::int64_t>();
  if (least < 0 || most > 255) {
    throw UsageError(fmt::format("labels: expected 0 to 255, found {}", least < 0 ? least : most));
  }
  return labels.attr("reshape")(images[0], -1).attr("astype")("u1");
}

void save_images(const std::filesystem::path& path, const py::object& images,
                 const py::object& labels) {
  const py::module_ numpy = py::module_::import("numpy");
  const py::object pixels = numpy.attr("asarray")(images), classes = numpy.attr("asarray")(labels);
  const py::object rows = image_rows(pixels);
  py::list parts;
  parts.append(label_rows(classes, shape_of(pixels)));
  parts.append(rows);
  const py::object records = numpy.attr("concatenate")(parts, py::arg("axis") = 1);
  write_file_atomically(path, records.attr("tobytes")().cast<std::string>());
}

}  // namespace

void bind_images(py::module_& m) {
  m.def("save_images", &save_images, py::arg("path"), py::arg("images"), py::arg("labels"),
        "Writes images, uint8 [n, channels, height, width], and their classes, [n] or one for each "
        "place, [n, height, width], as records for run's data, whole or not at all. A run takes "
        "0..255 as -1..1.");
}

}  // namespace weir::python
