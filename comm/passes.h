// SPDX-License-Identifier: Apache-2.0
// Element-wise passes over long arrays on all threads of a rank. The bits do
// not depend on the threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "lumen/sparse/compute.h"

namespace lumen::comm {

// Calls body(begin, end) for pieces of [0, n); every piece but the last has a
// whole number of sum_of_squares units.
void ForPieces(const sparse::Compute& compute, int64_t n,
               const std::function<void(int64_t, int64_t)>& body);

// y += x.
void AddTo(const sparse::Compute& compute, std::span<const float> x,
           std::span<float> y);
// The same, and whether every sum is finite: one pass over memory.
bool AddToIsFinite(const sparse::Compute& compute, std::span<const float> x,
                   std::span<float> y);
void ScaleBy(const sparse::Compute& compute, float factor, std::span<float> x);
bool IsFinite(const sparse::Compute& compute, std::span<const float> x);
// The bits of the kernel sum_of_squares over the whole array.
double SumOfSquares(const sparse::Compute& compute, std::span<const float> x);

// What to multiply by so that the norm is at most `limit`: 1 when it is, and
// for a norm of 0.
float ClipFactor(double sum_of_squares, double limit);

}  // namespace lumen::comm
