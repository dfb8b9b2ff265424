// The one table from exceptions to how a command ends.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/ending.hpp"

#include <new>

#include "plan/words/error.hpp"

namespace weir {

Ending ending_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UsageError& error) {
    return {2, error.what()};
  } catch (const InputError& error) {
    return {3, error.what()};
  } catch (const NoFeasiblePlan& error) {
    return {4, error.what()};
  } catch (const MissingComponent& error) {
    return {5, error.what()};
  } catch (const RunFailed& error) {
    return {6, error.what()};
  } catch (const std::bad_alloc&) {
    return {6, "out of memory"};
  } catch (const std::exception& error) {
    return {1, error.what()};
  } catch (...) {
    return {1, "an exception of unknown type"};
  }
}

}  // namespace weir
