// SPDX-License-Identifier: Apache-2.0
// Statistics per lane, normalisation with parameters per lane, and sums: every
// instruction set against the scalar reference bit for bit, and against double
// precision.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "lumen/sparse/kernels.h"
#include "tests/sparse/kernel_data.h"

namespace lumen::sparse {
namespace {

// Vectors: around the four accumulators and the pieces of 64.
constexpr int64_t kVectors[] = {0, 1, 3, 4, 63, 64, 65, 200};

::testing::AssertionResult SameDoubles(const std::vector<double>& expected,
                                       const std::vector<double>& actual) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    if (std::bit_cast<uint64_t>(expected[i]) ==
        std::bit_cast<uint64_t>(actual[i])) {
      continue;
    }
    return ::testing::AssertionFailure()
           << "lane " << i << ": expected " << expected[i] << ", found "
           << actual[i];
  }
  return ::testing::AssertionSuccess();
}

// x, dy and parameters per lane.
struct LaneData {
  int64_t n;
  std::vector<float> x, dy, mean, a, b, c;
  std::vector<double> sum;  // what was summed before

  LaneData(Source& source, int64_t vectors, Values values)
      : n(vectors),
        x(source.Floats(n * 16, values)),
        dy(source.Floats(n * 16, values)),
        mean(source.Floats(16, values)),
        a(source.Floats(16, values)),
        b(source.Floats(16, values)),
        c(source.Floats(16, values)) {
    for (int i = 0; i < 16; ++i) {
      sum.push_back(double{source.Float(Values::kOrdinary)} * 1e3);
    }
  }
};

class LaneKernels : public PerIsaTest {
 protected:
  // Calls task(data, values) for all numbers of vectors and kinds of values.
  template <class Task>
  static void ForData(const Task& task) {
    Source source(1);
    for (Values values : kAllValues) {
      for (int64_t n : kVectors) {
        const LaneData data(source, n, values);
        SCOPED_TRACE(std::to_string(n) + " vectors " + ValuesName(values));
        task(data, values);
      }
    }
  }
  // The sum per lane of term(i) in double, on top of data.sum.
  template <class Term>
  static void ExpectSums(const LaneData& data, const std::vector<double>& sum,
                         const Term& term) {
    for (size_t l = 0; l < 16; ++l) {
      double wanted = 0, scale = 0;
      for (size_t i = l; i < data.x.size(); i += 16) {
        wanted += term(i);
        scale += std::abs(term(i));
      }
      // A difference and a product, then 16 additions and two levels.
      EXPECT_NEAR(sum[l], data.sum[l] + wanted, Bound(4 * scale, 20));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, LaneKernels,
                         ::testing::ValuesIn(AvailableIsas()), NameOfIsa);

TEST_P(LaneKernels, SumsEqualTheReferenceAndDoublePrecision) {
  ForData([&](const LaneData& data, Values values) {
    auto expected = data.sum, actual = data.sum;
    Scalar().lane_sum(data.x.data(), data.n, expected.data());
    table().lane_sum(data.x.data(), data.n, actual.data());
    ASSERT_TRUE(SameDoubles(expected, actual));
    if (values != Values::kOrdinary) return;
    ExpectSums(data, actual, [&](size_t i) { return double{data.x[i]}; });
  });
}

TEST_P(LaneKernels, SquaresEqualTheReferenceAndDoublePrecision) {
  ForData([&](const LaneData& data, Values values) {
    auto expected = data.sum, actual = data.sum;
    Scalar().lane_squares(data.x.data(), data.mean.data(), data.n,
                          expected.data());
    table().lane_squares(data.x.data(), data.mean.data(), data.n,
                         actual.data());
    ASSERT_TRUE(SameDoubles(expected, actual));
    if (values != Values::kOrdinary) return;
    ExpectSums(data, actual, [&](size_t i) {
      const double d = double{data.x[i]} - double{data.mean[i % 16]};
      return d * d;
    });
  });
}

TEST_P(LaneKernels, ProductsEqualTheReferenceAndDoublePrecision) {
  ForData([&](const LaneData& data, Values values) {
    auto expected_dy = data.sum, actual_dy = data.sum;
    auto expected = data.sum, actual = data.sum;
    Scalar().lane_products(data.dy.data(), data.x.data(), data.mean.data(),
                           data.n, expected_dy.data(), expected.data());
    table().lane_products(data.dy.data(), data.x.data(), data.mean.data(),
                          data.n, actual_dy.data(), actual.data());
    ASSERT_TRUE(SameDoubles(expected_dy, actual_dy));
    ASSERT_TRUE(SameDoubles(expected, actual));
    // The sum of dy is lane_sum.
    auto alone = data.sum;
    table().lane_sum(data.dy.data(), data.n, alone.data());
    ASSERT_TRUE(SameDoubles(alone, actual_dy));
    if (values != Values::kOrdinary) return;
    ExpectSums(data, actual, [&](size_t i) {
      return data.dy[i] * (double{data.x[i]} - double{data.mean[i % 16]});
    });
  });
}

// The order is a contract, as for the products: vector v in accumulator v mod
// 4, then (0 + 1) + (2 + 3), pieces of 64 vectors in double.
TEST_P(LaneKernels, MultiplyAddsEndWhereTheReferenceEnds) {
  for (int64_t rounds : {0, 1, 3, 100}) {
    alignas(64) float expected[16], actual[16];
    for (int l = 0; l < 16; ++l)
      expected[l] = actual[l] = 0.3f * static_cast<float>(l);
    Scalar().multiply_adds(rounds, expected);
    table().multiply_adds(rounds, actual);
    for (int l = 0; l < 16; ++l) EXPECT_EQ(expected[l], actual[l]);
  }
}

TEST_P(LaneKernels, SumsFollowTheCanonicalOrder) {
  std::vector<float> x(66 * 16, 0.0f);
  const auto set = [&](size_t vector, float value) { x[vector * 16] = value; };
  const auto sum = [&] {
    std::vector<double> sums(16);
    table().lane_sum(x.data(), 66, sums.data());
    return sums[0];
  };
  set(0, 1e8f);
  set(4, -1e8f);  // the same accumulator
  set(1, 1.0f);
  EXPECT_EQ(sum(), 1.0);
  set(4, 0);
  set(5, -1e8f);  // that of the one, which is lost
  EXPECT_EQ(sum(), 0.0);
  set(5, 0);
  set(65, -1e8f);  // another piece: the one was lost in fp32 before
  EXPECT_EQ(sum(), 0.0);
  set(1, 0);
  set(64, 1.0f);  // beside -1e8 in fp32, but in accumulator 0
  EXPECT_EQ(sum(), 0.0);
  set(65, 0);
  EXPECT_EQ(sum(), 1e8 + 1.0);  // in double
}

TEST_P(LaneKernels, AffineEqualsTheReferenceAndDoublePrecisionAlsoInPlace) {
  ForData([&](const LaneData& data, Values values) {
    std::vector<float> expected(data.x.size() + 16, kUntouched);
    auto actual = expected;
    Scalar().lane_affine(data.x.data(), data.mean.data(), data.a.data(),
                         data.b.data(), expected.data(), data.n);
    table().lane_affine(data.x.data(), data.mean.data(), data.a.data(),
                        data.b.data(), actual.data(), data.n);
    ASSERT_TRUE(SameBits(expected, actual));
    EXPECT_EQ(actual.back(), kUntouched);
    auto in_place = data.x;
    table().lane_affine(in_place.data(), data.mean.data(), data.a.data(),
                        data.b.data(), in_place.data(), data.n);
    expected.resize(data.x.size());
    ASSERT_TRUE(SameBits(expected, in_place));
    if (values != Values::kOrdinary) return;
    for (size_t i = 0; i < data.x.size(); ++i) {
      const size_t l = i % 16;
      const double d = double{data.x[i]} - double{data.mean[l]};
      EXPECT_NEAR(actual[i], d * data.a[l] + data.b[l], Bound(3, 1));
    }
  });
}

TEST_P(LaneKernels, AffineGradientEqualsTheReferenceAndDoublePrecision) {
  ForData([&](const LaneData& data, Values values) {
    for (int accumulate : {0, 1}) {
      std::vector<float> expected(data.x.size() + 16, 0.5f);
      auto actual = expected;
      const auto run = [&](const KernelTable& kernels, float* dx) {
        kernels.lane_affine_gradient(
            data.dy.data(), data.x.data(), data.mean.data(), data.a.data(),
            data.b.data(), data.c.data(), accumulate, dx, data.n);
      };
      run(Scalar(), expected.data());
      run(table(), actual.data());
      ASSERT_TRUE(SameBits(expected, actual));
      EXPECT_EQ(actual.back(), 0.5f);
      if (values != Values::kOrdinary) continue;
      for (size_t i = 0; i < data.x.size(); ++i) {
        const size_t l = i % 16;
        const double d = double{data.x[i]} - double{data.mean[l]};
        const double wanted = double{data.a[l]} * data.dy[i] + data.b[l] * d +
                              data.c[l] + 0.5 * accumulate;
        EXPECT_NEAR(actual[i], wanted, Bound(5, 2));
      }
    }
  });
}

TEST_P(LaneKernels, SumIsElementWiseAtAnyAlignment) {
  Source source(2);
  for (Values values : kAllValues) {
    for (int64_t vectors : kVectors) {
      for (int64_t n = vectors * 16 - 1; n <= vectors * 16 + 1; ++n) {
        if (n < 0) continue;
        const auto x = source.Floats(n + 1, values);
        const auto y = source.Floats(n + 1, values);
        std::vector<float> expected(x.size() + 1, kUntouched);
        auto actual = expected, reference = expected;
        for (size_t i = 1; i < x.size(); ++i) expected[i] = x[i] + y[i];
        Scalar().sum(x.data() + 1, y.data() + 1, reference.data() + 1, n);
        table().sum(x.data() + 1, y.data() + 1, actual.data() + 1, n);
        ASSERT_TRUE(SameBits(expected, reference)) << n;
        ASSERT_TRUE(SameBits(expected, actual)) << n;
        auto in_place = y;
        table().sum(x.data() + 1, in_place.data() + 1, in_place.data() + 1, n);
        expected[0] = y[0];
        expected.pop_back();
        ASSERT_TRUE(SameBits(expected, in_place)) << n;
      }
    }
  }
}

}  // namespace
}  // namespace lumen::sparse
