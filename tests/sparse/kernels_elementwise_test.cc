// SPDX-License-Identifier: Apache-2.0
// The element-wise rows of the kernel table, softmax and the norms: every
// instruction set against the scalar reference and against their definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lumen/core/philox.h"
#include "lumen/sparse/kernels.h"
#include "tests/sparse/kernel_data.h"

namespace lumen::sparse {
namespace {

// Around the widths of registers and of the units of a norm.
constexpr int64_t kLengths[] = {0,  1,  7,  8,    15,   16,   17,   31,
                                33, 63, 64, 1023, 1024, 1025, 2048, 5003};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class ElementwiseKernels : public PerIsaTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, ElementwiseKernels,
                         ::testing::ValuesIn(AvailableIsas()), NameOfIsa);

TEST_P(ElementwiseKernels, ReluKeepsPositivesAndNanAndHasNoNegativeZero) {
  const std::vector<float> x = {1.5f, -2.0f, 0.0f,      -0.0f,     1e-45f,
                                kNan, -kNan, kInfinity, -kInfinity};
  std::vector<float> y(x.size(), 9.0f);
  table().relu(x.data(), y.data(), static_cast<int64_t>(x.size()));
  EXPECT_TRUE(SameBits(
      {1.5f, 0.0f, 0.0f, 0.0f, 1e-45f, kNan, kNan, kInfinity, 0.0f}, y));
}

TEST_P(ElementwiseKernels, ReluAndItsGradientEqualTheDefinitionAlsoInPlace) {
  Source source(1);
  for (Values values : kAllValues) {
    for (int64_t n : kLengths) {
      // One float off any alignment.
      const auto x = source.Floats(n + 1, values);
      const auto dy = source.Floats(n + 1, values);
      auto y = x;
      auto dx = dy;
      for (int64_t i = 1; i <= n; ++i) {
        const auto at = static_cast<size_t>(i);
        y[at] = std::isnan(x[at]) || x[at] > 0 ? x[at] : 0.0f;
        dx[at] = y[at] > 0 ? dy[at] : 0.0f;
      }
      auto actual = x;
      table().relu(actual.data() + 1, actual.data() + 1, n);
      ASSERT_TRUE(SameBits(y, actual)) << n;
      auto actual_dx = dy;
      table().relu_backward(actual.data() + 1, actual_dx.data() + 1,
                            actual_dx.data() + 1, n);
      ASSERT_TRUE(SameBits(dx, actual_dx)) << n;
    }
  }
}

TEST_P(ElementwiseKernels, DropoutFollowsDraw) {
  Source source(2);
  const RandomKey key = NewRandomKey(42, Stream::kDropout, 3);
  for (int64_t elements : {0, 1, 7, 8, 9, 40}) {
    for (int64_t stride : {16, 48}) {
      for (uint32_t threshold : {0u, 1u, 6554u, 32768u, 65535u, 65536u}) {
        uint64_t sample[16];
        for (uint64_t& s : sample) {
          s = static_cast<uint64_t>(source.Int(0, 1 << 30))
              << source.Int(0, 34);
        }
        const uint32_t epoch = 5;
        const float scale = 1.25f;
        const auto x = source.Floats(elements * stride + 16, Values::kFinite);
        auto expected = x;
        for (int64_t e = 0; e < elements; ++e) {
          for (int64_t l = 0; l < 16; ++l) {
            const uint32_t word = Draw(
                key, epoch, sample[l],
                static_cast<uint32_t>(e / 8))[static_cast<size_t>(e / 2 % 4)];
            const uint32_t half = e % 2 == 0 ? word & 0xFFFF : word >> 16;
            float& to = expected[static_cast<size_t>(e * stride + l)];
            to = half >= threshold ? to * scale : 0.0f;
          }
        }
        auto actual = x;
        table().dropout(key, epoch, sample, threshold, scale, actual.data(),
                        actual.data(), elements, stride);
        ASSERT_TRUE(SameBits(expected, actual))
            << elements << " elements, threshold " << threshold;
      }
    }
  }
}

TEST_P(ElementwiseKernels, SoftmaxEqualsTheReference) {
  Source source(3);
  for (Values values : kAllValues) {
    for (int64_t classes : {1, 2, 3, 10, 100}) {
      for (int64_t stride : {16, 64}) {
        auto expected = source.Floats(classes * stride, values);
        for (float& f : expected) f *= 30.0f;
        auto actual = expected;
        const auto before = expected;
        std::vector<float> max(16), sum(16), max_actual(16), sum_actual(16);
        Scalar().softmax(expected.data(), classes, stride, max.data(),
                         sum.data());
        table().softmax(actual.data(), classes, stride, max_actual.data(),
                        sum_actual.data());
        ASSERT_TRUE(SameBits(expected, actual)) << classes;
        ASSERT_TRUE(SameBits(max, max_actual)) << classes;
        // Lanes beyond the vector belong to others.
        for (size_t i = 0; i < before.size(); ++i) {
          if (static_cast<int64_t>(i) % stride >= 16) {
            ASSERT_TRUE(SameBits({before[i]}, {actual[i]}));
          }
        }
        ASSERT_TRUE(SameBits(sum, sum_actual)) << classes;
      }
    }
  }
}

TEST_P(ElementwiseKernels, SoftmaxIsCloseToDoublePrecision) {
  Source source(4);
  for (int64_t classes : {1, 2, 10, 1000}) {
    auto p = source.Floats(classes * 16, Values::kOrdinary);
    for (float& f : p) f *= 40.0f;
    const auto x = p;
    float max[16], sum[16];
    table().softmax(p.data(), classes, 16, max, sum);
    for (int64_t l = 0; l < 16; ++l) {
      const auto at = [&](int64_t c) {
        return static_cast<size_t>(c * 16 + l);
      };
      float largest = x[at(0)];
      for (int64_t c = 1; c < classes; ++c)
        largest = std::max(largest, x[at(c)]);
      EXPECT_EQ(max[l], largest);
      double total = 0;
      for (int64_t c = 0; c < classes; ++c) {
        total += std::exp(double{x[at(c)]} - double{largest});
      }
      EXPECT_NEAR(sum[l], total, total * 1e-6);
      for (int64_t c = 0; c < classes; ++c) {
        const double wanted = std::exp(double{x[at(c)]} - largest) / total;
        // x - largest is rounded once: up to 80 * 2^-24 in the exponent.
        EXPECT_NEAR(p[at(c)], wanted, wanted * 6e-6 + 1e-37);
      }
    }
  }
}

TEST_P(ElementwiseKernels, BadLogitsSpoilOnlyTheirOwnLane) {
  std::vector<float> p(4 * 16, 1.0f);
  p[1] = kNan;
  p[16 + 2] = kInfinity;
  p[16 + 3] = -kInfinity;
  for (int64_t c = 0; c < 4; ++c)
    p[static_cast<size_t>(c * 16 + 4)] = -kInfinity;
  float max[16], sum[16];
  table().softmax(p.data(), 4, 16, max, sum);
  EXPECT_TRUE(std::isnan(sum[1]));
  EXPECT_TRUE(std::isnan(sum[2]));
  EXPECT_EQ(sum[3], 3.0f);
  EXPECT_EQ(p[16 + 3], 0.0f);
  EXPECT_TRUE(std::isnan(sum[4]));
  for (size_t l : {0u, 5u, 15u}) EXPECT_EQ(p[l], 0.25f);
}

// exp of x <= 0 as softmax computes it, 15 at a time: below -18 a largest
// logit of 0 makes the sum exactly 1, so the probability is the exponential.
TEST_P(ElementwiseKernels, ExpIsWithinTwoUlp) {
  double worst = 0;
  float x = -18.0f;
  while (x > -87.0f) {
    std::vector<float> p(32, 0.0f);
    for (size_t l = 16; l < 32; ++l) {
      p[l] = x;
      x += x * 0x1p-13f;  // not a power of two apart: all mantissas are met
    }
    const auto before = p;
    float max[16], sum[16];
    table().softmax(p.data(), 2, 16, max, sum);
    for (size_t l = 16; l < 32; ++l) {
      if (before[l] < -87.0f) continue;
      const double wanted = std::exp(double{before[l]});
      const double ulp = std::ldexp(1.0, std::ilogb(wanted) - 23);
      worst = std::max(worst, std::abs(p[l] - wanted) / ulp);
    }
  }
  EXPECT_LT(worst, 2.0);
  RecordProperty("worst_ulp", std::to_string(worst));
  // Near zero, where the sum rounds as well: two roundings more.
  for (x = -1e-7f; x > -18.0f; x *= 1.01f) {
    std::vector<float> p(32, 0.0f);
    for (size_t l = 16; l < 32; ++l) p[l] = x;
    float max[16], sum[16];
    table().softmax(p.data(), 2, 16, max, sum);
    const double wanted = std::exp(double{x});
    const double ulp = std::ldexp(1.0, std::ilogb(wanted) - 23);
    EXPECT_LT(std::abs(double{p[16]} / p[0] - wanted) / ulp, 4.0) << x;
  }
}

// torch.optim.SGD, one element: weight decay is part of the gradient, the first
// step copies it into the momentum buffer.
void TorchSgd(float& w, float& v, float g, float lr, float mu, float decay,
              bool nesterov, bool first) {
  const float gradient = g + decay * w;
  v = first ? gradient : mu * v + gradient;
  const float direction = nesterov ? gradient + mu * v : v;
  w = w - lr * direction;
}

TEST_P(ElementwiseKernels, SgdIsTheFormulaOfPyTorch) {
  Source source(5);
  for (Values values : kAllValues) {
    for (int64_t n : kLengths) {
      for (int nesterov : {0, 1}) {
        for (int first : {0, 1}) {
          for (float decay : {0.0f, 5e-4f}) {
            auto w = source.Floats(n, values);
            // At the first step whatever the buffer held is gone.
            auto v = source.Floats(n, first ? Values::kAny : values);
            const auto g = source.Floats(n, values);
            auto w_actual = w, v_actual = v;
            for (size_t i = 0; i < w.size(); ++i) {
              TorchSgd(w[i], v[i], g[i], 0.1f, 0.9f, decay, nesterov, first);
            }
            table().sgd(w_actual.data(), v_actual.data(), g.data(), 0.1f, 0.9f,
                        decay, nesterov, first, n);
            ASSERT_TRUE(SameBits(w, w_actual)) << n << " first " << first;
            ASSERT_TRUE(SameBits(v, v_actual)) << n << " first " << first;
          }
        }
      }
    }
  }
}

TEST_P(ElementwiseKernels, SgdWithoutMomentumNeedsNoBuffer) {
  Source source(6);
  for (int64_t n : kLengths) {
    auto w = source.Floats(n, Values::kFinite);
    const auto g = source.Floats(n, Values::kFinite);
    auto actual = w;
    for (size_t i = 0; i < w.size(); ++i) {
      const float gradient = g[i] + 1e-3f * w[i];
      w[i] = w[i] - 0.05f * gradient;
    }
    table().sgd(actual.data(), nullptr, g.data(), 0.05f, 0.0f, 1e-3f, 0, 1, n);
    ASSERT_TRUE(SameBits(w, actual)) << n;
  }
}

// torch.optim.Adam and AdamW, one element, with the bias corrections in `s`.
void TorchAdam(float& w, float& m, float& v, float g, const AdamStep& s,
               float decay, float shrink) {
  const float gradient = g + decay * w;
  m = s.keep_mean * m + s.take_mean * gradient;
  v = s.keep_square * v + s.take_square * gradient * gradient;
  const float size = std::sqrt(v) * s.root_scale + s.epsilon;
  w = shrink * w - s.rate * m / size;
}

TEST_P(ElementwiseKernels, AdamIsTheFormulaOfPyTorch) {
  const AdamStep step{.keep_mean = 0.9f,
                      .take_mean = 0.1f,
                      .keep_square = 0.999f,
                      .take_square = 0.001f,
                      .rate = 0.02f,
                      .root_scale = 3.7f,
                      .epsilon = 1e-8f};
  Source source(10);
  for (Values values : kAllValues) {
    for (int64_t n : kLengths) {
      for (float decay : {0.0f, 5e-4f}) {
        for (float shrink : {1.0f, 0.99f}) {
          auto w = source.Floats(n, values);
          auto m = source.Floats(n, values);
          auto v = source.Floats(n, values);
          for (float& f : v) f = std::abs(f);
          const auto g = source.Floats(n, values);
          auto w_actual = w, m_actual = m, v_actual = v;
          for (size_t i = 0; i < w.size(); ++i) {
            TorchAdam(w[i], m[i], v[i], g[i], step, decay, shrink);
          }
          table().adam(w_actual.data(), m_actual.data(), v_actual.data(),
                       g.data(), step, decay, shrink, n);
          ASSERT_TRUE(SameBits(w, w_actual)) << n;
          ASSERT_TRUE(SameBits(m, m_actual)) << n;
          ASSERT_TRUE(SameBits(v, v_actual)) << n;
        }
      }
    }
  }
}

TEST_P(ElementwiseKernels, AverageIsElementWiseAndKeepsWhatIsEqual) {
  Source source(11);
  for (Values values : kAllValues) {
    for (int64_t n : kLengths) {
      for (float keep : {0.0f, 0.5f, 0.999f}) {
        const auto x = source.Floats(n, values);
        auto mean = source.Floats(n, values);
        auto actual = mean;
        const float take = 1.0f - keep;
        for (size_t i = 0; i < x.size(); ++i) {
          mean[i] = keep * mean[i] + take * x[i];
        }
        table().average(x.data(), actual.data(), keep, n);
        ASSERT_TRUE(SameBits(mean, actual)) << n;
      }
    }
  }
  const std::vector<float> x = {1.0f, -0.5f, 1024.0f, 0.0f};
  auto mean = x;
  for (int i = 0; i < 100; ++i)
    table().average(x.data(), mean.data(), 0.999f, 4);
  EXPECT_TRUE(SameBits(x, mean));
}

TEST_P(ElementwiseKernels, AddAndScaleAreElementWise) {
  Source source(7);
  for (Values values : kAllValues) {
    for (int64_t n : kLengths) {
      const auto x = source.Floats(n + 1, values);
      const auto y = source.Floats(n + 1, values);
      auto sum = y, scaled = x;
      for (size_t i = 1; i < x.size(); ++i) {
        sum[i] = y[i] + x[i];
        scaled[i] = x[i] * 0.3f;
      }
      auto actual = y;
      table().add(x.data() + 1, actual.data() + 1, n);
      ASSERT_TRUE(SameBits(sum, actual)) << n;
      actual = x;
      table().scale(0.3f, actual.data() + 1, n);
      ASSERT_TRUE(SameBits(scaled, actual)) << n;
    }
  }
}

TEST_P(ElementwiseKernels, SumOfSquaresEqualsTheReferenceAndIsClose) {
  Source source(8);
  for (Values values : kAllValues) {
    for (int64_t n : kLengths) {
      const auto x = source.Floats(n + 1, values);
      const double expected = Scalar().sum_of_squares(x.data() + 1, n);
      const double actual = table().sum_of_squares(x.data() + 1, n);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(actual)) << n;
        continue;
      }
      EXPECT_EQ(expected, actual) << n;
      double wanted = 0;
      for (int64_t i = 1; i <= n; ++i) {
        wanted += double{x[static_cast<size_t>(i)]} * x[static_cast<size_t>(i)];
      }
      if (values == Values::kOrdinary) {
        EXPECT_NEAR(actual, wanted, wanted * 1e-5) << n;
      }
    }
  }
}

TEST_P(ElementwiseKernels, AllFiniteSeesEveryPlace) {
  Source source(9);
  for (int64_t n : kLengths) {
    auto x = source.Floats(n, Values::kFinite);
    if (n > 0) x[0] = std::numeric_limits<float>::max();
    EXPECT_EQ(table().all_finite(x.data(), n), 1) << n;
    for (int64_t i = 0; i < n; i += 1 + n / 40) {
      for (float bad : {kInfinity, -kInfinity, kNan}) {
        const float kept = std::exchange(x[static_cast<size_t>(i)], bad);
        EXPECT_EQ(table().all_finite(x.data(), n), 0) << n << " at " << i;
        x[static_cast<size_t>(i)] = kept;
      }
    }
  }
}

}  // namespace
}  // namespace lumen::sparse
