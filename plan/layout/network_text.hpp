// The one-line texts of a network: "weight w[io, hidden]", "n = norm(x gain) over hidden".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "plan/layout/network.hpp"

namespace weir::layout {

// Appends to the layer. Throw std::invalid_argument, in words: unknown or repeated names, texts of
// another form, operations that cannot be.
void append_tensor(std::string_view text, const Network& network, NetworkLayer& layer);
void append_operation(std::string_view text, const Network& network, NetworkLayer& layer);
// What must hold of a layer as a whole, behind those that the network has; sets what it is given,
// and its steps. Throws likewise.
void finish_layer(const Network& network, NetworkLayer& layer);
// What must hold of all layers together. Throws likewise.
void finish_network(const Network& network);

// Rules as "batch:d, heads:m, optimizer:d" of a layout whose mesh is set; a dimension may come more
// than once. Throws likewise.
void set_network_rules(std::string_view rules, const Network& network, NetworkLayout& layout);

}  // namespace weir::layout
