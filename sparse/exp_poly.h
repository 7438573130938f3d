// SPDX-License-Identifier: Apache-2.0
// Constants of our fp32 exp, shared by all variants of the softmax kernel.
#pragma once

namespace lumen::sparse::exp_poly {

// x = n ln 2 + r with |r| <= ln 2 / 2; exp x = 2^n exp r. ln 2 in two parts,
// the high one short enough that n * high is exact (Cody and Waite 1980,
// chapter 6); exp r by its Taylor series to r^7 / 7!, whose rest is below 6e-9.
inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2High = 0x1.62e4p-1f;
inline constexpr float kLn2Low = 0x1.7f7d1cp-20f;
inline constexpr float kCoefficient[] = {
    1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
// Below this the result is a denormal or zero: +0.
inline constexpr float kLowest = -87.0f;

}  // namespace lumen::sparse::exp_poly
