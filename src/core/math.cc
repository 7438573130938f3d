// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lumen {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ln 2 and pi / 2 in two parts: the high ones have trailing zero bits, so that
// small integer multiples are exact (Cody and Waite 1980, chapter 6).
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kHalfPiHigh = 0x1.921fb544p+0;
constexpr double kHalfPiLow = 0x1.0b4611a626331p-34;

double ScaleByPowerOfTwo(double x, int exponent) {
  const auto power = [](int e) {
    return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52);
  };
  // In two steps, so that denormal results are rounded once.
  const int half = exponent / 2;
  return x * power(half) * power(exponent - half);
}

// Taylor series of exp on |r| <= ln 2 / 2, where r^14 / 14! is below 1e-17.
double ExpSeries(double r) {
  double factorial[14];
  factorial[0] = 1;
  for (int i = 1; i < 14; ++i) factorial[i] = factorial[i - 1] * i;
  double sum = 1 / factorial[13];
  for (int i = 12; i >= 0; --i) sum = std::fma(sum, r, 1 / factorial[i]);
  return sum;
}

// Taylor series of sine and cosine on |r| <= pi / 4.
double SinSeries(double r) {
  const double r2 = r * r;
  double sum = 0;
  for (int i = 19; i >= 3; i -= 2) {
    // sum = 1 - r^2 / (2 * 3) * (1 - r^2 / (4 * 5) * ...)
    sum = std::fma(-r2 / (i * (i - 1.0)), 1 + sum, 0.0);
  }
  return std::fma(r, sum, r);
}

double CosSeries(double r) {
  const double r2 = r * r;
  double sum = 0;
  for (int i = 20; i >= 2; i -= 2) {
    sum = std::fma(-r2 / (i * (i - 1.0)), 1 + sum, 0.0);
  }
  return 1 + sum;
}

}  // namespace

double Exp(double x) {
  if (x != x) return x;
  if (x > 709.79) return kInfinity;
  if (x < -745.2) return 0;
  const double n = std::floor(std::fma(x, 0x1.71547652b82fep+0, 0.5));
  double r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);
  return ScaleByPowerOfTwo(ExpSeries(r), static_cast<int>(n));
}

double Log(double x) {
  if (x != x || x < 0) return kNan;
  if (x == 0) return -kInfinity;
  if (x == kInfinity) return x;
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double m =
      std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (m > 0x1.6a09e667f3bcdp+0) {  // sqrt(2)
    m *= 0.5;
    ++exponent;
  }
  // log m = 2 artanh(s) = 2 (s + s^3/3 + s^5/5 + ...), s = (m-1)/(m+1),
  // |s|<0.172
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int i = 23; i >= 3; i -= 2) sum = std::fma(sum, s2, 1.0 / i);
  const double fraction = std::fma(2 * s * s2, sum, 2 * s);
  return std::fma(exponent, kLn2High, std::fma(exponent, kLn2Low, fraction));
}

double Cos(double x) {
  const double n = std::floor(std::fma(x, 0x1.45f306dc9c883p-1, 0.5));
  double r = std::fma(n, -kHalfPiHigh, x);
  r = std::fma(n, -kHalfPiLow, r);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return CosSeries(r);
    case 1:
      return -SinSeries(r);
    case 2:
      return -CosSeries(r);
    default:
      return SinSeries(r);
  }
}

double Pow(double base, double exponent) {
  if (exponent == 0) return 1;
  if (base == 0) return exponent > 0 ? 0 : kInfinity;
  if (exponent == 1) return base;
  return Exp(exponent * Log(base));
}

}  // namespace lumen
