// SPDX-License-Identifier: Apache-2.0
// Each function reduces its argument exactly or in two doubles (Cody and Waite
// 1980, "Software Manual for the Elementary Functions"), sums a Taylor series,
// whose coefficients are plain fractions, and adds the largest terms with their
// rounding errors (Dekker 1971, "A floating-point technique for extending the
// available precision"). Constants are pi and ln 2 cut into pieces whose
// products with the integers that occur are exact.
//
// Plain products and sums, and fma where the error of a product is wanted: the
// result is the same with and without an fma instruction. REQUIRES: round to
// nearest, no contraction, no fast-math.
#include "lumen/core/math.h"

#include <glog/logging.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lumen {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// high + low, |low| at most half an ulp of high.
struct Pair {
  double high;
  double low;
};

// a + b exactly. REQUIRES: |a| >= |b|, or a == 0.
Pair FastTwoSum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a + b exactly (Knuth, TAOCP 2, 4.2.2, theorem B).
Pair TwoSum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// a * b exactly, short of underflow.
Pair TwoProduct(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

// Nearest integer, for |x| < 2^51: the sum has no bits for a fraction.
double Round(double x) {
  constexpr double kShift = 0x1.8p52;
  return (x + kShift) - kShift;
}

// c[0] + c[1] x + ... by Horner's rule.
template <int kTerms>
double Polynomial(double x, const double (&c)[kTerms]) {
  double sum = c[kTerms - 1];
  for (int i = kTerms - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

// ln 2: 40 bits, so that multiples up to 2^13 are exact, and the rest.
constexpr double kLn2High = 0x1.62e42fefa2000p-1;
constexpr double kLn2Low = 0x1.9ef35793c7673p-41;

// 2^power. REQUIRES: -1022 <= power <= 1023.
double PowerOfTwo(int64_t power) {
  return std::bit_cast<double>(static_cast<uint64_t>(power + 1023) << 52);
}

// exp(high + low).
double ExpOfPair(double high, double low) {
  if (high > 710) return kInfinity;
  if (high < -746) return 0;
  constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
  const double k = Round(high * kInverseLn2);
  const Pair r = FastTwoSum(high - k * kLn2High, low - k * kLn2Low);
  // exp(r) = 1 + r + r^2 (1/2! + r/3! + ...); |r| <= ln(2) / 2, the first term
  // left out is below r^14/14! = 4e-18.
  constexpr double kSeries[] = {
      1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
      1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
      1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0,
  };
  const double square = r.high * r.high;
  const Pair one_and_r = FastTwoSum(1, r.high);
  const double rest = square * Polynomial(r.high, kSeries) + r.low;
  const double result = one_and_r.high + (one_and_r.low + rest);
  // In two steps, as 2^k alone may overflow or underflow.
  const auto power = static_cast<int64_t>(k);
  const int64_t half = power / 2;
  return result * PowerOfTwo(half) * PowerOfTwo(power - half);
}

// log(x) to about 64 bits. REQUIRES: 0 < x < inf.
Pair LogAsPair(double x) {
  int64_t exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  // x = 2^exponent m, with m in [sqrt(1/2), sqrt(2)).
  const auto bits = std::bit_cast<uint64_t>(x);
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;
  exponent += static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & kMantissa) | uint64_t{1023} << 52);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  // log(m) = 2 atanh(s) = 2s + s^3 (2/3 + 2/5 s^2 + ...), s = (m-1) / (m+1).
  const double numerator = m - 1;
  const double denominator = m + 1;
  const double denominator_low = m - (denominator - 1);
  Pair s;
  s.high = numerator / denominator;
  const double remainder = std::fma(-s.high, denominator, numerator);
  s.low = (remainder - s.high * denominator_low) / denominator;
  Pair square = TwoProduct(s.high, s.high);
  square.low += 2 * s.high * s.low;
  Pair cube = TwoProduct(s.high, square.high);
  cube.low += s.high * square.low + s.low * square.high;
  // s^2 <= 0.0295: the first term left out is below 2^-70 of the sum.
  constexpr double kSeries[] = {2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19,
                                2.0 / 21, 2.0 / 23, 2.0 / 25};
  constexpr Pair kTwoThirds = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
  Pair factor = FastTwoSum(kTwoThirds.high,
                           square.high * Polynomial(square.high, kSeries));
  factor.low += kTwoThirds.low;
  Pair term = TwoProduct(cube.high, factor.high);
  term.low += cube.high * factor.low + cube.low * factor.high;
  const Pair sum = FastTwoSum(2 * s.high, term.high);
  const auto k = static_cast<double>(exponent);
  const Pair total = FastTwoSum(k * kLn2High, sum.high);
  const double low =
      total.low + ((sum.low + (2 * s.low + term.low)) + k * kLn2Low);
  return FastTwoSum(total.high, low);
}

}  // namespace

double Exp(double x) {
  if (std::isnan(x)) return x;
  return ExpOfPair(x, 0);
}

double Log(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -kInfinity;
  return LogAsPair(x).high;
}

double Cos(double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  DCHECK_LE(std::abs(x), 1e5);
  // pi/2 in pieces of 36, 36 and 53 bits; multiples up to 2^17 of the first two
  // are exact.
  constexpr double kHalfPi[] = {0x1.921fb54440000p+0, 0x1.68c234c4c0000p-39,
                                0x1.98a2e03707345p-77};
  constexpr double kInverse = 0x1.45f306dc9c883p-1;
  const double k = Round(x * kInverse);
  const Pair difference = TwoSum(x - k * kHalfPi[0], -(k * kHalfPi[1]));
  const Pair r = TwoSum(difference.high, difference.low - k * kHalfPi[2]);
  const Pair square = TwoProduct(r.high, r.high);
  const auto quadrant = static_cast<int64_t>(k) & 3;
  if (quadrant % 2 == 0) {
    // 1 - r^2/2! + r^4 (1/4! - r^2/6! + ...); the first term left out is below
    // (pi/4)^18 / 18! = 2e-18.
    constexpr double kSeries[] = {1.0 / 24,
                                  -1.0 / 720,
                                  1.0 / 40320,
                                  -1.0 / 3628800,
                                  1.0 / 479001600,
                                  -1.0 / 87178291200.0,
                                  1.0 / 20922789888000.0};
    const Pair start = FastTwoSum(1, -0.5 * square.high);
    const double rest =
        square.high * square.high * Polynomial(square.high, kSeries);
    const double low = -0.5 * square.low - r.high * r.low;
    const double cosine = start.high + (start.low + (rest + low));
    return quadrant == 0 ? cosine : -cosine;
  }
  // sin(r) = r + r^3 (-1/3! + r^2/5! - ...), left out: (pi/4)^19 / 19! = 1e-19.
  constexpr double kSeries[] = {-1.0 / 6,
                                1.0 / 120,
                                -1.0 / 5040,
                                1.0 / 362880,
                                -1.0 / 39916800,
                                1.0 / 6227020800.0,
                                -1.0 / 1307674368000.0,
                                1.0 / 355687428096000.0};
  const double cube = square.high * r.high;
  const double rest = cube * Polynomial(square.high, kSeries);
  const double low = r.low * (1 - 0.5 * square.high);
  const double sine = r.high + (rest + low);
  return quadrant == 1 ? -sine : sine;
}

double Pow(double base, double exponent) {
  if (exponent == 0 || base == 1) return 1;
  if (std::isnan(base) || std::isnan(exponent)) return base + exponent;
  DCHECK_GE(base, 0);
  if (base == 0 || base == kInfinity) {
    return (base == 0) == (exponent > 0) ? 0 : kInfinity;
  }
  if (std::isinf(exponent)) {
    return (base < 1) == (exponent > 0) ? 0 : kInfinity;
  }
  const Pair log = LogAsPair(base);
  const Pair product = TwoProduct(exponent, log.high);
  return ExpOfPair(product.high, product.low + exponent * log.low);
}

}  // namespace lumen
