// SPDX-License-Identifier: Apache-2.0
// Every row of every kernel table against the scalar reference, bit for bit,
// and the reference against arithmetic written down independently in double.
#include "lumen/sparse/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "lumen/core/philox.h"
#include "lumen/sparse/onednn.h"

namespace lumen::sparse {
namespace {

constexpr int64_t kLanes = 16;

// Equal bits, or both NaN.
void ExpectSame(const std::vector<float>& a, const std::vector<float>& b,
                const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(std::memcmp(&a[i], &b[i], 4), 0)
        << what << " differs at " << i << ": " << a[i] << ", " << b[i];
  }
}

// Random rows, some of them empty, with values in hostile ranges on demand.
struct Case {
  enum class Values { kPlain, kHostile };

  Case(int64_t rows, int64_t columns, int64_t lanes, double density,
       Values values, uint32_t seed)
      : rows(rows), columns(columns), lanes(lanes), random(seed) {
    start.push_back(0);
    std::bernoulli_distribution present(density);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns && r % 5 != 3; ++c) {
        if (present(random)) {
          offset.push_back(static_cast<int32_t>(c * (lanes / kLanes)));
        }
      }
      start.push_back(static_cast<int64_t>(offset.size()));
    }
    weight = Floats(static_cast<int64_t>(offset.size()), values);
    bias = Floats(rows, values);
    x = Floats(columns * lanes, values);
    dy = Floats(rows * lanes, values);
    dense = Floats(rows * columns, values);
  }

  std::vector<float> Floats(int64_t n, Values values) {
    static constexpr float kNasty[] = {std::numeric_limits<float>::infinity(),
                                       -std::numeric_limits<float>::infinity(),
                                       std::numeric_limits<float>::denorm_min(),
                                       -1e-40f,
                                       -0.0f,
                                       0.0f,
                                       std::numeric_limits<float>::max()};
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> pick(0, 40);
    std::vector<float> all(static_cast<size_t>(n));
    for (float& value : all) {
      value = normal(random);
      const int which = pick(random);
      if (values == Values::kHostile && which < 7) value = kNasty[which];
    }
    return all;
  }

  RowView rows_view() const { return {start.data(), offset.data()}; }

  int64_t rows, columns, lanes;
  std::mt19937 random;
  std::vector<int64_t> start;
  std::vector<int32_t> offset;
  std::vector<float> weight, bias, x, dy, dense;
};

class EachIsa : public testing::TestWithParam<Isa> {
 protected:
  const KernelTable& mine() const { return Kernels(GetParam()); }
  const KernelTable& reference() const { return Kernels(Isa::kScalar); }

  // Calls body for lanes 16..128 and a grid of row and column counts.
  template <class Body>
  void ForCases(const Body& body) {
    uint32_t seed = 1;
    for (int64_t lanes = 16; lanes <= 128; lanes += 16) {
      for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 1},
                                   {7, 1},
                                   {1, 33},
                                   {21, 17},
                                   {40, 64}}) {
        for (double density : {0.05, 0.5, 1.0}) {
          for (auto values : {Case::Values::kPlain, Case::Values::kHostile}) {
            body(Case(rows, columns, lanes, density, values, ++seed));
          }
        }
      }
    }
  }
};

TEST_P(EachIsa, SpmmHasTheBitsOfTheReferenceInAnyRowChunks) {
  ForCases([&](const Case& c) {
    for (const float* bias :
         {c.bias.data(), static_cast<const float*>(nullptr)}) {
      std::vector<float> expected(static_cast<size_t>(c.rows * c.lanes), 9);
      std::vector<float> found = expected;
      reference().spmm(c.rows_view(), c.weight.data(), bias, c.x.data(),
                       expected.data(), c.lanes, 0, c.rows);
      for (int64_t begin = 0; begin < c.rows; begin += 4) {
        mine().spmm(c.rows_view(), c.weight.data(), bias, c.x.data(),
                    found.data(), c.lanes, begin, std::min(c.rows, begin + 4));
      }
      ExpectSame(found, expected, "spmm");
    }
  });
}

TEST_P(EachIsa, SddmmHasTheBitsOfTheReferenceAtAnyStride) {
  ForCases([&](const Case& c) {
    const int64_t vectors = c.lanes / kLanes;
    for (int64_t groups = 1; groups <= vectors; ++groups) {
      for (int accumulate : {0, 1}) {
        std::vector<float> expected(c.weight.size(), 0.5f);
        std::vector<float> found = expected;
        reference().sddmm(c.rows_view(), {c.x.data(), kLanes},
                          {c.dy.data(), kLanes}, vectors, groups, accumulate,
                          expected.data(), 0, c.rows);
        mine().sddmm(c.rows_view(), {c.x.data(), kLanes}, {c.dy.data(), kLanes},
                     vectors, groups, accumulate, found.data(), 0, c.rows);
        ExpectSame(found, expected, "sddmm");
      }
    }
  });
}

TEST_P(EachIsa, SddmmReadsGroupsOfSixteenLaneTiles) {
  // Three tiles of 16 lanes hold what one tile of 48 lanes holds.
  Case c(9, 30, 48, 0.4, Case::Values::kPlain, 5);
  std::vector<float> x(c.x.size()), dy(c.dy.size());
  for (int64_t g = 0; g < 3; ++g) {
    for (int64_t l = 0; l < kLanes; ++l) {
      for (int64_t k = 0; k < c.columns; ++k) {
        x[(g * c.columns + k) * 16 + l] = c.x[k * 48 + g * 16 + l];
      }
      for (int64_t r = 0; r < c.rows; ++r) {
        dy[(g * c.rows + r) * 16 + l] = c.dy[r * 48 + g * 16 + l];
      }
    }
  }
  std::vector<int32_t> narrow = c.offset;
  for (int32_t& offset : narrow) offset /= 3;
  std::vector<float> wide_dw(c.weight.size()), narrow_dw(c.weight.size());
  mine().sddmm(c.rows_view(), {c.x.data(), kLanes}, {c.dy.data(), kLanes}, 3, 3,
               0, wide_dw.data(), 0, c.rows);
  mine().sddmm({c.start.data(), narrow.data()}, {x.data(), c.columns * 16},
               {dy.data(), c.rows * 16}, 1, 3, 0, narrow_dw.data(), 0, c.rows);
  ExpectSame(narrow_dw, wide_dw, "sddmm in 16-lane tiles");
}

TEST_P(EachIsa, DenseKernelsHaveTheBitsOfTheReference) {
  ForCases([&](const Case& c) {
    const int64_t vectors = c.lanes / kLanes;
    std::vector<float> expected(c.dy.size()), found(c.dy.size());
    reference().dense_forward(c.dense.data(), c.bias.data(), c.x.data(),
                              expected.data(), c.columns, c.lanes, 0, c.rows);
    const int64_t middle = c.rows / 2;
    mine().dense_forward(c.dense.data(), c.bias.data(), c.x.data(),
                         found.data(), c.columns, c.lanes, 0, middle);
    mine().dense_forward(c.dense.data(), c.bias.data(), c.x.data(),
                         found.data(), c.columns, c.lanes, middle, c.rows);
    ExpectSame(found, expected, "dense_forward");

    expected.assign(c.x.size(), 1);
    found.assign(c.x.size(), 2);
    reference().dense_dx(c.dense.data(), c.dy.data(), expected.data(), c.rows,
                         c.columns, c.lanes, 0, c.columns);
    mine().dense_dx(c.dense.data(), c.dy.data(), found.data(), c.rows,
                    c.columns, c.lanes, 0, c.columns);
    ExpectSame(found, expected, "dense_dx");

    for (int accumulate : {0, 1}) {
      expected = c.dense;
      found = c.dense;
      reference().dense_dw({c.x.data(), kLanes}, vectors, {c.dy.data(), kLanes},
                           vectors, vectors, accumulate, expected.data(),
                           c.columns, 0, c.rows);
      mine().dense_dw({c.x.data(), kLanes}, vectors, {c.dy.data(), kLanes},
                      vectors, vectors, accumulate, found.data(), c.columns, 0,
                      c.rows);
      ExpectSame(found, expected, "dense_dw");
    }
    expected = c.bias;
    found = c.bias;
    reference().bias_gradient({c.dy.data(), kLanes}, vectors, vectors, 1,
                              expected.data(), 0, c.rows);
    mine().bias_gradient({c.dy.data(), kLanes}, vectors, vectors, 1,
                         found.data(), 0, c.rows);
    ExpectSame(found, expected, "bias_gradient");
  });
}

TEST_P(EachIsa, ADenseKernelIsTheSparseOneWithEveryWeight) {
  Case c(20, 31, 64, 1.0, Case::Values::kPlain, 77);
  std::vector<int64_t> start;
  std::vector<int32_t> offset;
  for (int64_t r = 0; r <= c.rows; ++r) start.push_back(r * c.columns);
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t k = 0; k < c.columns; ++k) {
      offset.push_back(static_cast<int32_t>(k * 4));
    }
  }
  const RowView full{start.data(), offset.data()};
  std::vector<float> dense(c.dy.size()), sparse(c.dy.size());
  mine().dense_forward(c.dense.data(), c.bias.data(), c.x.data(), dense.data(),
                       c.columns, c.lanes, 0, c.rows);
  mine().spmm(full, c.dense.data(), c.bias.data(), c.x.data(), sparse.data(),
              c.lanes, 0, c.rows);
  ExpectSame(dense, sparse, "forward");
  std::vector<float> dense_dw(c.dense.size()), sparse_dw(c.dense.size());
  mine().dense_dw({c.x.data(), kLanes}, 4, {c.dy.data(), kLanes}, 4, 4, 0,
                  dense_dw.data(), c.columns, 0, c.rows);
  mine().sddmm(full, {c.x.data(), kLanes}, {c.dy.data(), kLanes}, 4, 4, 0,
               sparse_dw.data(), 0, c.rows);
  ExpectSame(dense_dw, sparse_dw, "dW");
}

TEST_P(EachIsa, ProductsAreRightInDouble) {
  Case c(30, 50, 128, 0.3, Case::Values::kPlain, 3);
  std::vector<float> y(c.dy.size()), dw(c.weight.size());
  mine().spmm(c.rows_view(), c.weight.data(), c.bias.data(), c.x.data(),
              y.data(), c.lanes, 0, c.rows);
  mine().sddmm(c.rows_view(), {c.x.data(), kLanes}, {c.dy.data(), kLanes}, 8, 8,
               0, dw.data(), 0, c.rows);
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t l = 0; l < c.lanes; ++l) {
      double sum = c.bias[r];
      for (int64_t p = c.start[r]; p < c.start[r + 1]; ++p) {
        sum += double{c.weight[p]} * c.x[c.offset[p] * 16 + l];
      }
      ASSERT_NEAR(y[r * c.lanes + l], sum, 1e-4);
    }
    for (int64_t p = c.start[r]; p < c.start[r + 1]; ++p) {
      double sum = 0;
      for (int64_t l = 0; l < c.lanes; ++l) {
        sum += double{c.dy[r * c.lanes + l]} * c.x[c.offset[p] * 16 + l];
      }
      ASSERT_NEAR(dw[p], sum, 1e-3);
    }
  }
}

TEST_P(EachIsa, DenseAgreesWithOneDnn) {
  const int64_t batch = 48, inputs = 37, outputs = 29;
  Case c(outputs, inputs, batch, 1, Case::Values::kPlain, 11);
  const auto transpose = [](const std::vector<float>& a, int64_t rows,
                            int64_t columns) {
    std::vector<float> b(a.size());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < columns; ++k)
        b[k * rows + r] = a[r * columns + k];
    }
    return b;
  };
  const std::vector<float> x = transpose(c.x, inputs, batch);
  const std::vector<float> dy = transpose(c.dy, outputs, batch);
  OneDnnLinear other(batch, inputs, outputs);
  std::vector<float> y(batch * outputs), dx(batch * inputs),
      dw(outputs * inputs), db(outputs);
  other.Forward(x.data(), c.dense.data(), c.bias.data(), y.data());
  other.BackwardData(dy.data(), c.dense.data(), dx.data());
  other.BackwardWeights(x.data(), dy.data(), dw.data(), db.data());
  std::vector<float> my_y(y.size()), my_dx(dx.size()), my_dw(dw.size()),
      my_db(db.size());
  mine().dense_forward(c.dense.data(), c.bias.data(), c.x.data(), my_y.data(),
                       inputs, batch, 0, outputs);
  mine().dense_dx(c.dense.data(), c.dy.data(), my_dx.data(), outputs, inputs,
                  batch, 0, inputs);
  mine().dense_dw({c.x.data(), kLanes}, 3, {c.dy.data(), kLanes}, 3, 3, 0,
                  my_dw.data(), inputs, 0, outputs);
  mine().bias_gradient({c.dy.data(), kLanes}, 3, 3, 0, my_db.data(), 0,
                       outputs);
  const auto near = [](const std::vector<float>& a,
                       const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-4);
  };
  near(transpose(my_y, outputs, batch), y);
  near(transpose(my_dx, inputs, batch), dx);
  near(my_dw, dw);
  near(my_db, db);
}

TEST_P(EachIsa, SoftmaxHasTheBitsOfTheReferenceAndIsRight) {
  for (int64_t classes : {1, 2, 10, 1000}) {
    for (auto values : {Case::Values::kPlain, Case::Values::kHostile}) {
      Case c(classes, 1, 32, 0, values, static_cast<uint32_t>(classes));
      std::vector<float> expected = c.dy, found = c.dy;
      std::vector<float> most(16), sums(16), my_most(16), my_sums(16);
      reference().softmax(expected.data(), classes, 32, most.data(),
                          sums.data());
      mine().softmax(found.data(), classes, 32, my_most.data(), my_sums.data());
      ExpectSame(found, expected, "softmax");
      ExpectSame(my_most, most, "maximum");
      ExpectSame(my_sums, sums, "sum");
      if (values == Case::Values::kHostile) continue;
      for (int64_t l = 0; l < 16; ++l) {
        double sum = 0;
        for (int64_t k = 0; k < classes; ++k) {
          sum += std::exp(double{c.dy[k * 32 + l]} - most[l]);
        }
        for (int64_t k = 0; k < classes; ++k) {
          const double right =
              std::exp(double{c.dy[k * 32 + l]} - most[l]) / sum;
          // The sum of a thousand terms in fp32 rounds more than exp does.
          const double tolerance = classes > 100 ? 3e-6 : 5e-7;
          ASSERT_NEAR(found[k * 32 + l], right, tolerance * right + 1e-37);
        }
        // Lanes beyond the vector belong to somebody else.
        ASSERT_EQ(found[16 + l], c.dy[16 + l]);
      }
    }
  }
}

TEST_P(EachIsa, DropoutIsTheDrawThatItsCommentPromises) {
  const RandomKey key = NewRandomKey(3, Stream::kDropout, 2);
  Case c(37, 1, 32, 0, Case::Values::kPlain, 4);
  uint64_t sample[16];
  for (int l = 0; l < 16; ++l) {
    sample[l] = l * 1000 + (l > 7 ? uint64_t{1} << 40 : 0);
  }
  std::vector<float> y = c.dy;
  const uint32_t threshold = 20000;
  mine().dropout(key, 5, sample, threshold, 1.5f, c.dy.data(), y.data(), 37,
                 32);
  for (int64_t e = 0; e < 37; ++e) {
    for (int l = 0; l < 16; ++l) {
      const uint32_t word = Draw(key, 5, sample[l], e / 8)[e / 2 % 4];
      const uint32_t half = e % 2 ? word >> 16 : word & 0xFFFF;
      const float expected = half >= threshold ? c.dy[e * 32 + l] * 1.5f : 0.0f;
      ASSERT_EQ(y[e * 32 + l], expected);
      ASSERT_EQ(y[e * 32 + 16 + l], c.dy[e * 32 + 16 + l]);
    }
  }
}

TEST_P(EachIsa, ElementwiseKernelsHaveTheBitsOfPlainLoops) {
  for (int64_t n : {0, 1, 15, 16, 17, 1000, 1024, 2500}) {
    Case c(1, 1, 16, 0, Case::Values::kPlain, static_cast<uint32_t>(n) + 1);
    const std::vector<float> a = c.Floats(n, Case::Values::kHostile);
    const std::vector<float> b = c.Floats(n, Case::Values::kHostile);
    std::vector<float> expected(a.size()), found(a.size());
    for (size_t i = 0; i < a.size(); ++i) expected[i] = a[i] <= 0 ? 0 : a[i];
    mine().relu(a.data(), found.data(), n);
    ExpectSame(found, expected, "relu");
    found = a;
    mine().relu(found.data(), found.data(), n);
    ExpectSame(found, expected, "relu in place");
    for (size_t i = 0; i < a.size(); ++i) expected[i] = a[i] > 0 ? b[i] : 0;
    mine().relu_backward(a.data(), b.data(), found.data(), n);
    ExpectSame(found, expected, "relu_backward");
    expected = found = a;
    for (size_t i = 0; i < a.size(); ++i) expected[i] += b[i];
    mine().add(b.data(), found.data(), n);
    ExpectSame(found, expected, "add");
    for (float& value : expected) value *= 0.3f;
    mine().scale(0.3f, found.data(), n);
    ExpectSame(found, expected, "scale");
  }
}

TEST_P(EachIsa, SgdIsThatOfPyTorch) {
  for (int nesterov : {0, 1}) {
    Case c(1, 1, 16, 0, Case::Values::kPlain, 9);
    const std::vector<float> g = c.Floats(133, Case::Values::kPlain);
    std::vector<float> w = c.Floats(133, Case::Values::kPlain), v(133, 0.25f);
    std::vector<float> my_w = w, my_v = v;
    const float rate = 0.1f, mu = 0.9f, decay = 0.01f;
    for (size_t i = 0; i < w.size(); ++i) {
      const float d = g[i] + decay * w[i];
      v[i] = mu * v[i] + d;
      w[i] = w[i] - rate * (nesterov ? d + mu * v[i] : v[i]);
    }
    mine().sgd(my_w.data(), my_v.data(), g.data(), rate, mu, decay, nesterov, 0,
               133);
    ExpectSame(my_w, w, "weights");
    ExpectSame(my_v, v, "velocity");
  }
}

TEST_P(EachIsa, NormAndFinitenessHoldForAnyLength) {
  for (int64_t n : {0, 1, 16, 1023, 1024, 1025, 5000}) {
    Case c(1, 1, 16, 0, Case::Values::kPlain, static_cast<uint32_t>(n) + 2);
    std::vector<float> a = c.Floats(n, Case::Values::kPlain);
    const double found = mine().sum_of_squares(a.data(), n);
    EXPECT_EQ(found, reference().sum_of_squares(a.data(), n));
    double right = 0;
    for (float value : a) right += double{value} * value;
    EXPECT_NEAR(found, right, 1e-5 * right + 1e-30);
    EXPECT_EQ(mine().all_finite(a.data(), n), 1);
    for (float bad : {INFINITY, -INFINITY, NAN}) {
      if (n == 0) break;
      for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
        const float old = std::exchange(a[at], bad);
        EXPECT_EQ(mine().all_finite(a.data(), n), 0);
        a[at] = old;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EachIsa, testing::ValuesIn(AvailableIsas()),
                         [](const auto& param) {
                           return std::string(IsaName(param.param));
                         });

}  // namespace
}  // namespace lumen::sparse
