// How signals end the command: with one line and an exit code of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weir {

// From here on Ctrl-C, SIGTERM and SIGHUP end the process so (128 and the signal's number), and a
// limit of time with the code of a run that failed; what was being written is not there, what was
// there before is. A closed pipe is an output that cannot be written, as a full device is.
void take_signals();

// The end of a process that has no room to say more than this. The same is the end of an exception
// that nobody catches.
[[noreturn]] void end_without_memory() noexcept;

}  // namespace weir
