// The one table from exceptions to how a command ends.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/ending.hpp"

#include <new>
#include <system_error>

#include "plan/words/error.hpp"

namespace weir {

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
  } catch (const std::system_error& error) {  // no thread, no descriptor, no room
    return {EndKind::failed, error.what()};
  } catch (const std::exception& error) {
    return {EndKind::bug, std::string("a fault of weir's own: ") + error.what()};
  } catch (...) {
    return {EndKind::bug, "a fault of weir's own: an exception of unknown type"};
  }
}

}  // namespace weir
