// SPDX-License-Identifier: Apache-2.0
// Our dense kernels against an independent implementation.
#include "lumen/sparse/onednn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lumen/sparse/kernels.h"
#include "tests/sparse/kernel_data.h"

namespace lumen::sparse {
namespace {

struct Case {
  int64_t batch, inputs, outputs;
};

class OneDnn : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Shapes, OneDnn,
                         ::testing::Values(Case{16, 1, 1}, Case{16, 7, 5},
                                           Case{48, 33, 10}, Case{128, 64, 100},
                                           Case{112, 257, 3}));

// [channel][lane] from row-major [sample][channel].
std::vector<float> ToLanes(const std::vector<float>& rows, int64_t batch) {
  const int64_t channels = std::ssize(rows) / batch;
  std::vector<float> lanes(rows.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < channels; ++c) {
      lanes[static_cast<size_t>(c * batch + b)] =
          rows[static_cast<size_t>(b * channels + c)];
    }
  }
  return lanes;
}

void ExpectNear(const std::vector<float>& expected,
                const std::vector<float>& actual, int64_t terms) {
  ASSERT_EQ(expected.size(), actual.size());
  const double tolerance = 4e-7 * static_cast<double>(terms + 4);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(expected[i], actual[i], tolerance) << i;
  }
}

TEST_P(OneDnn, DenseKernelsAgree) {
  const auto [batch, inputs, outputs] = GetParam();
  Source source(1);
  const auto x = source.Floats(batch * inputs, Values::kOrdinary);
  const auto w = source.Floats(outputs * inputs, Values::kOrdinary);
  const auto bias = source.Floats(outputs, Values::kOrdinary);
  const auto dy = source.Floats(batch * outputs, Values::kOrdinary);

  OneDnnLinear theirs(batch, inputs, outputs);
  std::vector<float> y(dy.size()), dx(x.size()), dw(w.size()), db(bias.size());
  theirs.Forward(x.data(), w.data(), bias.data(), y.data());
  theirs.BackwardData(dy.data(), w.data(), dx.data());
  theirs.BackwardWeights(x.data(), dy.data(), dw.data(), db.data());

  const auto x_lanes = ToLanes(x, batch);
  const auto dy_lanes = ToLanes(dy, batch);
  for (Isa isa : AvailableIsas()) {
    const KernelTable& ours = Kernels(isa);
    std::vector<float> y_lanes(y.size()), dx_lanes(x.size()), our_dw(w.size()),
        our_db(bias.size());
    const int64_t vectors = batch / 16;
    const sparse::Run run = sparse::Run::OfLanes(batch);
    const DenseRows forward(w.data(), inputs, inputs, 1, vectors);
    const DenseRows transposed(w.data(), 1, outputs, inputs, vectors);
    ours.dense(forward.view, bias.data(), x_lanes.data(), y_lanes.data(), run,
               0, 0, outputs);
    ExpectNear(ToLanes(y, batch), y_lanes, inputs);
    ours.dense(transposed.view, nullptr, dy_lanes.data(), dx_lanes.data(), run,
               0, 0, inputs);
    ExpectNear(ToLanes(dx, batch), dx_lanes, outputs);
    const Segment segment = {x_lanes.data(), dy_lanes.data(), vectors};
    const Unit unit = {.segments = &segment, .count = 1, .dy_row = vectors};
    ours.dense_dw(forward.offset.data(), inputs, unit, 0, our_dw.data(), 0,
                  outputs);
    ExpectNear(dw, our_dw, batch);
    ours.bias_gradient(unit, 0, our_db.data(), 0, outputs);
    ExpectNear(db, our_db, batch);
  }
}

TEST(OneDnnBridge, NamesItsVersion) {
  EXPECT_EQ(OneDnnVersion().rfind("oneDNN ", 0), 0u);
}

}  // namespace
}  // namespace lumen::sparse
