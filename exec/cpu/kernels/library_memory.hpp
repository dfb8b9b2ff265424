// Room for the machine code that oneDNN generates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir::cpu {

// Throws std::bad_alloc where the library could not get memory for a kernel's code: it does not
// look whether it got any, and writes to address 0. To be called before a primitive is made and
// before it first runs, which generates the rest. Another thread may be faster: what then faults
// ends the command in tools/weir/signals.cpp.
void require_library_memory();

}  // namespace weir::cpu
