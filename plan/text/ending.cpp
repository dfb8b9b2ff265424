// The one table from exceptions to how a command ends.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/ending.hpp"

#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

#include "plan/text/new_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// A path that cannot even be looked at: a circle of links, a name too long, a folder that is closed
// to us. The system's own text has a path last and says what it was doing with it.
Ending of_a_path(const std::filesystem::filesystem_error& error) {
  try {
    fail_to_write(error.path1(), error.code().value());
  } catch (const RunFailed& no_room) {
    return {EndKind::failed, no_room.what()};
  } catch (const InputError&) {
    return {EndKind::bad_input,
            error.path1().string() + ": cannot be read or written: " + error.code().message()};
  }
}

}  // namespace

Ending ending_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UsageError& error) {
    return {EndKind::usage, error.what()};
  } catch (const InputError& error) {
    return {EndKind::bad_input, error.what()};
  } catch (const NoFeasiblePlan& error) {
    return {EndKind::no_plan, error.what()};
  } catch (const MissingComponent& error) {
    return {EndKind::missing, error.what()};
  } catch (const RunFailed& error) {
    return {EndKind::failed, error.what()};
  } catch (const std::range_error& error) {  // a time that is none: of what was read
    return {EndKind::bad_input, error.what()};
  } catch (const std::bad_alloc&) {
    return {EndKind::failed, "out of memory"};
  } catch (const std::filesystem::filesystem_error& error) {
    return of_a_path(error);
  } catch (const std::system_error& error) {  // no thread, no descriptor, no room
    if (error.code() == std::errc::resource_unavailable_try_again)
      return {EndKind::failed, "out of memory or threads"};
    return {EndKind::failed, error.what()};
  } catch (const std::exception& error) {
    // oneTBB's words where it gets no thread.
    if (std::string_view(error.what()).starts_with("pthread_create has failed"))
      return {EndKind::failed, "out of memory or threads"};
    return {EndKind::bug, std::string("a fault of weir's own: ") + error.what()};
  } catch (...) {
    return {EndKind::bug, "a fault of weir's own: an exception of unknown type"};
  }
}

}  // namespace weir
