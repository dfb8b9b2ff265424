// How signals end the command: with one line and the exit code of a run that failed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir {

// From here on Ctrl-C and SIGTERM end the process so, and so do limits of time and file size; what
// was being written is not there, what was there before is. A closed pipe is an output that cannot
// be written, as a full device is.
void take_signals();

// The end of a process that has no room to say more than this. The same is the end of an exception
// that nobody catches.
[[noreturn]] void end_without_memory() noexcept;

}  // namespace weir
