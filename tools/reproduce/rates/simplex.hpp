// The least of a function of a few variables, without derivatives: waves of tiles step where a
// matrix outgrows a tile, so there are none to be had.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace weir {

// Nelder and Mead, "A simplex method for function minimization", The Computer Journal 7(4), 1965,
// with its reflections by 1, expansions by 2, contractions and shrinkages by 1/2; from a simplex
// about `start` whose edges are a tenth of each variable. Ends when the values of its corners agree
// to 1e-10 of the least, or after 2000 steps. Precondition: no variable starts at 0.
[[nodiscard]] std::vector<double> simplex_minimum(
    const std::function<double(std::span<const double>)>& value, const std::vector<double>& start);

// Huber's loss (1964) of relative errors, so that single odd rows do not pull a fit: half the
// square below `width`, straight beyond.
[[nodiscard]] double huber(double error, double width);

}  // namespace weir
