// What this process may open from here on, kept by the kernel (Landlock, Linux 5.13): whatever a
// request names, by a link, by .. or by an absolute path, within a script or a plan too, is held to
// it. Files that are open already, and libraries that are loaded, stay.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace weir {

// Reads below `readable`, and what tells about the machine; reads and writes below `writable`;
// starts no program. For this thread and those that it will start, for good. Throws
// MissingComponent where the kernel has no Landlock, InputError where a folder is none.
void confine(const std::filesystem::path& readable, const std::filesystem::path& writable);

}  // namespace weir
