// Convolutional networks from their sizes: `weir.cnn/1`, one object that names a network and says
// how large it is:
//
//   {"schema": "weir.cnn/1", "network": "amoebanet-d", "cells": 18, "filters": 256, "image": 224,
//    "classes": 1000}
//   {"schema": "weir.cnn/1", "network": "resnet", "depth": 101, "image": 224, "classes": 1000}
//   {"schema": "weir.cnn/1", "network": "unet", "depth": 5, "convolutions": 5, "channels": 64,
//    "image": 192}
//
// With "layers": "blocks" a network is made of layers that can be executed; without, of operations
// that can be forecast.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/model/model.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

// Throws InputError with file and key.
[[nodiscard]] Model cnn_model(const Json& json, const std::string& file);

}  // namespace weir
