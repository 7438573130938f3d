// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>

namespace lumen {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Distance in units of the last place of `expected`.
double Ulps(double found, long double expected) {
  const double size = std::abs(static_cast<double>(expected));
  const double ulp = std::nextafter(size, kInfinity) - size;
  return static_cast<double>(
      std::abs(static_cast<long double>(found) - expected) / ulp);
}

// The largest error over random arguments.
double WorstUlps(double minimum, double maximum,
                 const std::function<double(double)>& function,
                 const std::function<long double(long double)>& reference) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> draw(minimum, maximum);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = draw(random);
    worst = std::max(worst, Ulps(function(x), reference(x)));
  }
  return worst;
}

TEST(Math, ErrorsStayBelowOneUlp) {
  if (std::numeric_limits<long double>::digits < 64) {
    GTEST_SKIP() << "long double is no wider than double here";
  }
  const auto exp = [](long double x) { return std::exp(x); };
  const auto log = [](long double x) { return std::log(x); };
  const auto cos = [](long double x) { return std::cos(x); };
  EXPECT_LT(WorstUlps(-1, 1, Exp, exp), 1);
  EXPECT_LT(WorstUlps(-708, 709.7, Exp, exp), 1);
  EXPECT_LT(WorstUlps(0.5, 2, Log, log), 0.6);
  EXPECT_LT(WorstUlps(0, 1e-300, Log, log), 0.6);
  EXPECT_LT(WorstUlps(0, 1e300, Log, log), 0.6);
  EXPECT_LT(WorstUlps(-7, 7, Cos, cos), 1);
  EXPECT_LT(WorstUlps(-1e5, 1e5, Cos, cos), 1);
  for (const double exponent : {-30.5, -1.0, 0.5, 0.9, 2.0, 3.7, 100.0}) {
    EXPECT_LT(WorstUlps(
                  0.01, 100, [&](double x) { return Pow(x, exponent); },
                  [&](long double x) {
                    return std::pow(x, static_cast<long double>(exponent));
                  }),
              1)
        << exponent;
  }
}

// Correctly rounded values, computed with 60 decimal digits.
TEST(Math, BitsAreTheSameEverywhere) {
  struct Row {
    double (*function)(double);
    double x;
    uint64_t bits;
  };
  constexpr Row kRows[] = {
      {Exp, 1.0, 0x4005BF0A8B145769},
      {Exp, -1.0, 0x3FD78B56362CEF38},
      {Exp, 0.1, 0x3FF1AEC7B35A00D4},
      {Exp, -10.5, 0x3EFCDFC263F6A0BA},
      {Exp, 88.7, 0x47EF4705BBFFAE5C},
      {Exp, 700.25, 0x7F12FD8E4CBFA413},
      {Exp, -740.0, 0x0000000000000055},
      {Log, 2.0, 0x3FE62E42FEFA39EF},
      {Log, 0.1, 0xC0026BB1BBB55515},
      {Log, 0.9999, 0xBF1A3738D2CF1CC2},
      {Log, 10.0, 0x40026BB1BBB55516},
      {Log, 1e-310, 0xC0864E69394D9508},
      {Log, 1.7e308, 0x40862DD08FDC6F88},
      {Cos, 0.5, 0x3FEC1528065B7D50},
      {Cos, 1.0, 0x3FE14A280FB5068C},
      {Cos, 2.5, 0xBFE9A2F7EF858B7D},
      {Cos, -3.0, 0xBFEFAE04BE85E5D2},
      {Cos, 1.5707963267948966, 0x3C91A62633145C07},
      {Cos, 99999.5, 0xBFEB8428C9F69A31},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(std::bit_cast<uint64_t>(row.function(row.x)), row.bits) << row.x;
  }
  EXPECT_EQ(std::bit_cast<uint64_t>(Pow(0.999, 10000)), 0x3F07AF105956A80Fu);
  EXPECT_EQ(std::bit_cast<uint64_t>(Pow(2, 0.5)), 0x3FF6A09E667F3BCDu);
  EXPECT_EQ(std::bit_cast<uint64_t>(Pow(0.3, 1.7)), 0x3FC08819F76D9F8Du);
}

// Not each of these is correctly rounded; all are what every machine gets.
TEST(Math, BitsOfASweepAreTheSameEverywhere) {
  uint64_t mixed = 0;
  const auto mix = [&](double value) {
    mixed = std::rotl(mixed, 7) * 0x9E3779B97F4A7C15 +
            std::bit_cast<uint64_t>(value);
  };
  for (int i = 1; i < 20000; ++i) {
    const double x = i * 0.0173;
    mix(Exp(x));
    mix(Exp(-x));
    mix(Log(x));
    mix(Cos(x));
    mix(Pow(x, 0.37));
    mix(Pow(0.99, x));
  }
  EXPECT_EQ(mixed, 12286443037922806498u);
}

TEST(Math, LimitsOfExp) {
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(-0.0), 1);
  EXPECT_EQ(Exp(1e-300), 1);
  EXPECT_LT(Exp(709.78), kInfinity);
  EXPECT_EQ(Exp(709.79), kInfinity);
  EXPECT_EQ(Exp(1e300), kInfinity);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(-745.1), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(Exp(-745.2), 0);
  EXPECT_EQ(Exp(-kInfinity), 0);
  EXPECT_TRUE(std::isnan(Exp(kNan)));
}

TEST(Math, LimitsOfLog) {
  EXPECT_EQ(std::bit_cast<uint64_t>(Log(1)), 0u);
  EXPECT_EQ(Log(0), -kInfinity);
  EXPECT_EQ(Log(-0.0), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(-1)));
  EXPECT_TRUE(std::isnan(Log(-kInfinity)));
  EXPECT_TRUE(std::isnan(Log(kNan)));
  EXPECT_EQ(Log(std::numeric_limits<double>::denorm_min()),
            std::log(std::numeric_limits<double>::denorm_min()));
}

TEST(Math, CosIsEvenAndKnowsItsLimits) {
  EXPECT_EQ(Cos(0), 1);
  EXPECT_EQ(Cos(3.141592653589793), -1);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(Cos(i * 0.37), Cos(-i * 0.37));
  EXPECT_TRUE(std::isnan(Cos(kNan)));
  EXPECT_TRUE(std::isnan(Cos(kInfinity)));
}

TEST(Math, SmallIntegerPowersAreExact) {
  for (int base = 2; base <= 10; ++base) {
    double expected = 1;
    for (int exponent = 0; exponent <= 15; ++exponent) {
      EXPECT_EQ(Pow(base, exponent), expected) << base << " " << exponent;
      expected *= base;
    }
  }
  EXPECT_EQ(Pow(2, -1074), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(Pow(2, 1023), 0x1p1023);
  EXPECT_EQ(Pow(0.25, 0.5), 0.5);
}

TEST(Math, LimitsOfPow) {
  EXPECT_EQ(Pow(0, 0), 1);
  EXPECT_EQ(Pow(0, 2), 0);
  EXPECT_EQ(Pow(0, -2), kInfinity);
  EXPECT_EQ(Pow(1, kInfinity), 1);
  EXPECT_EQ(Pow(1, kNan), 1);
  EXPECT_EQ(Pow(kNan, 0), 1);
  EXPECT_TRUE(std::isnan(Pow(kNan, 1)));
  EXPECT_TRUE(std::isnan(Pow(2, kNan)));
  EXPECT_EQ(Pow(kInfinity, 2), kInfinity);
  EXPECT_EQ(Pow(kInfinity, -2), 0);
  EXPECT_EQ(Pow(0.5, kInfinity), 0);
  EXPECT_EQ(Pow(0.5, -kInfinity), kInfinity);
  EXPECT_EQ(Pow(2, kInfinity), kInfinity);
  EXPECT_EQ(Pow(2, -kInfinity), 0);
  EXPECT_EQ(Pow(10, 400), kInfinity);
  EXPECT_EQ(Pow(10, -400), 0);
  EXPECT_EQ(Pow(2, 1e308), kInfinity);
}

}  // namespace
}  // namespace lumen
