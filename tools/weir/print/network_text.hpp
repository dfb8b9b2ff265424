// What people read of networks under layouts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/app/model/networks.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

void print_networks(Printout& out, const app::NetworksResult& result);

}  // namespace weir
