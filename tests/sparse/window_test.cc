// SPDX-License-Identifier: Apache-2.0
// Addresses of windows: a convolution and its input gradient computed through
// them, against loops over pixels.
#include "lumen/sparse/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lumen/sparse/pattern.h"
#include "tests/sparse/kernel_data.h"

namespace lumen::sparse {
namespace {

struct Case {
  Shape input;
  int64_t outputs = 1;
  Window window;

  bool Fits() const {
    const std::array<int64_t, 2> in = {input.height, input.width};
    for (size_t d = 0; d < 2; ++d) {
      if (window.dilation[d] * (window.size[d] - 1) + 1 >
          in[d] + 2 * window.padding[d]) {
        return false;
      }
    }
    return true;
  }
  std::string Text() const {
    const auto pair = [](const std::array<int64_t, 2>& p) {
      return std::to_string(p[0]) + "x" + std::to_string(p[1]);
    };
    return input.ToString() + " to " + std::to_string(outputs) + ", window " +
           pair(window.size) + ", stride " + pair(window.stride) +
           ", padding " + pair(window.padding) + ", dilation " +
           pair(window.dilation) + ", groups " + std::to_string(window.groups);
  }
};

Case Square(int64_t channels, int64_t extent, int64_t outputs, int64_t size,
            int64_t stride, int64_t padding, int64_t dilation = 1,
            int64_t groups = 1) {
  return {{.channels = channels, .height = extent, .width = extent},
          outputs,
          {.size = {size, size},
           .stride = {stride, stride},
           .padding = {padding, padding},
           .dilation = {dilation, dilation},
           .groups = groups}};
}

// The usual ones, the odd ones, and 1500 drawn ones.
std::vector<Case> Cases() {
  std::vector<Case> cases = {
      Square(4, 7, 3, 3, 1, 1),
      Square(4, 8, 3, 3, 2, 1),
      Square(3, 9, 4, 7, 2, 3),
      Square(5, 6, 2, 1, 1, 0),
      Square(5, 6, 2, 1, 2, 0),
      Square(5, 7, 2, 1, 3, 0),
      Square(2, 5, 3, 2, 2, 0),
      Square(2, 6, 3, 4, 2, 1),
      Square(6, 5, 6, 3, 1, 1, 1, 6),  // depthwise
      Square(6, 5, 4, 1, 1, 0, 1, 2),  // pointwise in groups
      Square(4, 9, 4, 3, 1, 2, 2, 2),  // dilated, in groups
      Square(2, 7, 2, 3, 2, 3, 3),
      Square(2, 4, 2, 1, 1, 2),                   // padded 1x1
      Square(2, 3, 2, 2, 3, 3),                   // padding beyond the window
      Square(1, 1, 1, 1, 1, 0),                   // a map of one pixel
      Square(3, 1, 2, 3, 1, 1),                   // only padding around it
      Square(3, 1, 2, 1, 2, 0),                   // stride beyond the map
      Square(1, 6, 1, 3, 1, 1),                   // one channel, copied
      {{.channels = 1, .height = 9, .width = 1},  // one column, copied
       2,
       {.size = {3, 1}, .padding = {1, 0}}},
      {{.channels = 1, .height = 9, .width = 1},
       1,
       {.size = {5, 3}, .stride = {2, 3}, .padding = {0, 1}}},
      {{.channels = 3, .height = 1, .width = 12},  // one row
       2,
       {.size = {1, 4}, .stride = {1, 2}, .padding = {0, 3}}},
  };
  std::mt19937 random(1);
  const auto draw = [&](int64_t begin, int64_t end) {  // inclusive
    return begin + static_cast<int64_t>(random() %
                                        static_cast<uint32_t>(end - begin + 1));
  };
  const size_t named = cases.size();
  while (cases.size() < named + 1500) {
    Case c;
    Window& w = c.window;
    w.groups = draw(0, 2) ? 1 : draw(2, 3);
    c.input.channels = w.groups * draw(1, 3);
    c.outputs = w.groups * draw(1, 3);
    c.input.height = draw(1, 9);
    c.input.width = draw(1, 9);
    for (size_t d = 0; d < 2; ++d) {
      w.size[d] = draw(1, 5);
      w.stride[d] = draw(1, 3);
      w.padding[d] = draw(0, 3);
      w.dilation[d] = draw(1, 3);
    }
    if (c.Fits()) cases.push_back(c);
  }
  return cases;
}

Addressing AddressingOf(const Case& c) {
  return Addressing::OfWindow(c.input, c.outputs, c.window);
}

// Small integers: sums in double are exact in any order.
std::vector<double> Numbers(uint32_t seed, int64_t count) {
  std::mt19937 random(seed);
  std::vector<double> out(static_cast<size_t>(count));
  for (double& value : out) value = static_cast<double>(random() % 19) - 9;
  return out;
}

// [channel][row][column] of a shape.
size_t Pixel(const Shape& shape, int64_t c, int64_t h, int64_t w) {
  return static_cast<size_t>((c * shape.height + h) * shape.width + w);
}

// A map as a layer puts it where the products read: in place, or copied to
// [row][channel][column] with zeros around it.
std::vector<double> Laid(const MapLayout& map, const Shape& shape,
                         const std::vector<double>& values) {
  if (!map.copied) {
    EXPECT_EQ(map.extent[0], shape.height);
    EXPECT_EQ(map.extent[1], shape.width);
    return values;
  }
  std::vector<double> out;
  for (int64_t i = 0; i < map.extent[0]; ++i) {
    for (int64_t c = 0; c < shape.channels; ++c) {
      for (int64_t j = 0; j < map.extent[1]; ++j) {
        const int64_t h = i - map.before[0], w = j - map.before[1];
        const bool inside =
            h >= 0 && h < shape.height && w >= 0 && w < shape.width;
        out.push_back(inside ? values[Pixel(shape, c, h, w)] : 0);
      }
    }
  }
  return out;
}

// Calls task(n, k, c, output h, output w, input h, input w) for each product of
// a convolution inside the map: weight (n, k), k = (channel of the group, r,
// q).
template <class Task>
void ForProducts(const Case& c, const Shape& output, const Task& task) {
  const Window& w = c.window;
  const int64_t inputs = c.input.channels / w.groups;
  for (int64_t n = 0; n < c.outputs; ++n) {
    const int64_t group = n / (c.outputs / w.groups);
    for (int64_t k = 0; k < inputs * w.size[0] * w.size[1]; ++k) {
      const int64_t q = k % w.size[1], r = k / w.size[1] % w.size[0];
      const int64_t channel = group * inputs + k / w.size[1] / w.size[0];
      for (int64_t h = 0; h < output.height; ++h) {
        for (int64_t v = 0; v < output.width; ++v) {
          const int64_t ih = h * w.stride[0] - w.padding[0] + r * w.dilation[0];
          const int64_t iw = v * w.stride[1] - w.padding[1] + q * w.dilation[1];
          if (ih < 0 || ih >= c.input.height || iw < 0 || iw >= c.input.width) {
            continue;
          }
          task(n, k, channel, h, v, ih, iw);
        }
      }
    }
  }
}

TEST(Addressing, ShapesAreThoseOfTheConvolution) {
  const Addressing at = AddressingOf(Square(4, 8, 6, 3, 2, 1, 1, 2));
  EXPECT_EQ(at.rows(), 6);
  EXPECT_EQ(at.columns(), 2 * 9);
  EXPECT_EQ(at.output(), (Shape{.channels = 6, .height = 4, .width = 4}));
  EXPECT_EQ(at.phases(), 4);
  EXPECT_EQ(at.transposed_rows(), 4 * 4);
}

TEST(Addressing, ColumnIsTheInverseOfOffset) {
  for (const Case& c : Cases()) {
    const Addressing at = AddressingOf(c);
    for (int64_t n = 0; n < at.rows(); ++n) {
      for (int64_t k = 0; k < at.columns(); ++k) {
        const int64_t offset = at.Offset(n, k);
        ASSERT_EQ(at.Column(n, offset), k) << c.Text() << " row " << n;
        ASSERT_GE(offset, 0);
        ASSERT_LT(offset, at.reach()) << c.Text();
      }
    }
  }
}

TEST(Addressing, EachWeightHasAPlaceOfItsOwnInTheTranspose) {
  for (const Case& c : Cases()) {
    const Addressing at = AddressingOf(c);
    std::set<std::pair<int64_t, int64_t>> places;
    for (int64_t n = 0; n < at.rows(); ++n) {
      for (int64_t k = 0; k < at.columns(); ++k) {
        const int64_t row = at.TransposedRow(n, k);
        const int64_t offset = at.TransposedOffset(n, k);
        ASSERT_GE(row, 0) << c.Text();
        ASSERT_LT(row, at.transposed_rows()) << c.Text();
        ASSERT_GE(offset, 0) << c.Text();
        ASSERT_LT(offset, at.reach()) << c.Text();
        ASSERT_TRUE(places.emplace(row, offset).second) << c.Text();
      }
    }
  }
}

TEST(Addressing, ProductsOverOffsetsAreTheConvolution) {
  for (const Case& c : Cases()) {
    const Addressing at = AddressingOf(c);
    const Shape& out = at.output();
    const MapLayout& map = at.forward_map();
    const auto x = Numbers(1, c.input.elements());
    const auto weight = Numbers(2, at.rows() * at.columns());
    std::vector<double> expected(static_cast<size_t>(out.elements()));
    ForProducts(c, out,
                [&](int64_t n, int64_t k, int64_t channel, int64_t h, int64_t w,
                    int64_t ih, int64_t iw) {
                  expected[Pixel(out, n, h, w)] +=
                      weight[static_cast<size_t>(n * at.columns() + k)] *
                      x[Pixel(c.input, channel, ih, iw)];
                });
    const auto laid = Laid(map, c.input, x);
    std::vector<double> y(expected.size());
    for (int64_t n = 0; n < at.rows(); ++n) {
      for (int64_t k = 0; k < at.columns(); ++k) {
        for (int64_t h = 0; h < out.height; ++h) {
          for (int64_t w = 0; w < out.width; ++w) {
            const int64_t from = at.Offset(n, k) +
                                 h * c.window.stride[0] * map.row_pitch +
                                 w * c.window.stride[1];
            ASSERT_LT(from, std::ssize(laid)) << c.Text();
            y[Pixel(out, n, h, w)] +=
                weight[static_cast<size_t>(n * at.columns() + k)] *
                laid[static_cast<size_t>(from)];
          }
        }
      }
    }
    ASSERT_EQ(y, expected) << c.Text();
  }
}

TEST(Addressing, ProductsOverTransposedOffsetsAreTheInputGradient) {
  for (const Case& c : Cases()) {
    const Addressing at = AddressingOf(c);
    const Shape& out = at.output();
    const MapLayout& map = at.backward_map();
    const auto dy = Numbers(3, out.elements());
    const auto weight = Numbers(4, at.rows() * at.columns());
    std::vector<double> expected(static_cast<size_t>(c.input.elements()));
    ForProducts(c, out,
                [&](int64_t n, int64_t k, int64_t channel, int64_t h, int64_t w,
                    int64_t ih, int64_t iw) {
                  expected[Pixel(c.input, channel, ih, iw)] +=
                      weight[static_cast<size_t>(n * at.columns() + k)] *
                      dy[Pixel(out, n, h, w)];
                });
    const auto laid = Laid(map, out, dy);
    const auto& stride = c.window.stride;
    std::vector<double> dx(expected.size());
    for (int64_t n = 0; n < at.rows(); ++n) {
      for (int64_t k = 0; k < at.columns(); ++k) {
        const int64_t phase = at.TransposedRow(n, k) / c.input.channels;
        const int64_t channel = at.TransposedRow(n, k) % c.input.channels;
        // Input pixel stride * (i, j) + phase.
        for (int64_t i = 0;; ++i) {
          const int64_t h = i * stride[0] + phase / stride[1];
          if (h >= c.input.height) break;
          for (int64_t j = 0;; ++j) {
            const int64_t w = j * stride[1] + phase % stride[1];
            if (w >= c.input.width) break;
            const int64_t from =
                at.TransposedOffset(n, k) + i * map.row_pitch + j;
            ASSERT_LT(from, std::ssize(laid)) << c.Text();
            dx[Pixel(c.input, channel, h, w)] +=
                weight[static_cast<size_t>(n * at.columns() + k)] *
                laid[static_cast<size_t>(from)];
          }
        }
      }
    }
    ASSERT_EQ(dx, expected) << c.Text();
  }
}

TEST(Addressing, LinearLayersAreWindowsOfOnePixelOverMoreLanes) {
  for (int64_t lanes : {16, 48, 128}) {
    const Addressing at = Addressing::OfLinear(5, 7, lanes);
    EXPECT_EQ(at.transposed_rows(), 7);
    for (int64_t n = 0; n < 5; ++n) {
      for (int64_t k = 0; k < 7; ++k) {
        EXPECT_EQ(at.Offset(n, k), k * lanes / 16);
        EXPECT_EQ(at.Column(n, k * lanes / 16), k);
        EXPECT_EQ(at.TransposedRow(n, k), k);
        EXPECT_EQ(at.TransposedOffset(n, k), n * lanes / 16);
      }
    }
  }
}

TEST(KernelRows, PositionsOfWindowsRoundTripAndWeightsKeepTheirPlaces) {
  uint32_t number = 0;
  for (const Case& c : Cases()) {
    const Addressing at = AddressingOf(c);
    const int64_t nnz = (at.rows() * at.columns() + 2) / 3;
    const Pattern pattern =
        NewRandomPattern(NewRandomKey(5, Stream::kMask, number++), at.rows(),
                         at.columns(), nnz, Parallel());
    std::vector<int64_t> positions(static_cast<size_t>(nnz)), again(positions);
    pattern.Positions(0, positions);
    KernelRows rows(pattern.Clone(), at, Parallel());
    rows.Positions(0, again);
    ASSERT_EQ(again, positions) << c.Text();
    ASSERT_TRUE(rows.ToPattern() == pattern) << c.Text();
    // The value of a weight is found at its address in both products.
    std::vector<float> value(static_cast<size_t>(nnz));
    std::iota(value.begin(), value.end(), 1.0f);
    rows.Refresh(value, Parallel());
    std::map<std::pair<int64_t, int64_t>, float> transposed;
    ForEntries(rows.transposed(), at.transposed_rows(),
               [&](int64_t r, int64_t, int64_t p) {
                 transposed[{r, rows.transposed().offset[p]}] =
                     rows.transposed_value()[p];
               });
    ASSERT_EQ(std::ssize(transposed), nnz) << c.Text();
    std::map<int64_t, int64_t> place;  // in the pattern, of each position
    for (size_t p = 0; p < positions.size(); ++p) place[positions[p]] = p;
    ForEntries(
        rows.forward(), at.rows(), [&](int64_t n, int64_t at_first, int64_t p) {
          const int64_t k = at.Column(n, rows.forward().offset[p]);
          const int64_t wanted = place.at(n * at.columns() + k);
          EXPECT_EQ(at_first, wanted) << c.Text();
          EXPECT_EQ(rows.forward_value(value.data())[p],
                    value[static_cast<size_t>(wanted)]);
          const std::pair<int64_t, int64_t> there = {at.TransposedRow(n, k),
                                                     at.TransposedOffset(n, k)};
          EXPECT_EQ(transposed[there], value[static_cast<size_t>(wanted)])
              << c.Text();
        });
  }
}

// The parts of each row have ascending channels, at most `most_channels` of
// them, and all parts are stored one after the other.
void ExpectParts(const KernelRows& rows, bool transposed, int64_t row_count,
                 int64_t most_channels, const MapLayout& map) {
  const RowView whole = transposed ? rows.transposed() : rows.forward();
  ASSERT_EQ(whole.parts,
            transposed ? rows.transposed_parts() : rows.forward_parts());
  int64_t next_channel = 0, next_entry = 0;
  for (int64_t part = 0; part < whole.parts; ++part) {
    const RowView view =
        transposed ? rows.transposed(part) : rows.forward(part);
    ASSERT_EQ(view.offset, whole.offset);
    ASSERT_EQ(view.start, whole.start + part * whole.part_stride);
    ASSERT_EQ(view.first, whole.first == nullptr
                              ? nullptr
                              : whole.first + part * whole.part_stride);
    int64_t first = next_channel, last = first;
    for (int64_t r = 0; r < row_count; ++r) {
      ASSERT_EQ(view.start[r], next_entry);
      ASSERT_LE(view.start[r], view.end[r]);
      next_entry = view.end[r];
      for (int64_t p = view.start[r]; p < view.end[r]; ++p) {
        const int64_t offset = whole.offset[p];
        const int64_t channel =
            (map.copied ? offset % map.row_pitch : offset) / map.channel_pitch;
        ASSERT_GE(channel, first);
        last = std::max(last, channel);
      }
    }
    ASSERT_LT(last - first, most_channels);
    next_channel = last + 1;
  }
  ASSERT_EQ(next_entry, rows.nnz());
}

TEST(KernelRows, PartsOfRowsReadFewChannels) {
  // A strip of 14 outputs reads 3 x 16 vectors of a channel: 9 channels fit.
  const Addressing at = AddressingOf(Square(40, 28, 50, 3, 1, 1));
  for (double density : {0.05, 0.2, 1.0}) {
    const auto nnz = static_cast<int64_t>(density * 40 * 50 * 9);
    const KernelRows rows(
        NewRandomPattern(NewRandomKey(5, Stream::kMask, 0), at.rows(),
                         at.columns(), nnz, Parallel()),
        at, Parallel());
    EXPECT_EQ(rows.forward_parts(), density < 0.1 ? 1 : 5);
    EXPECT_EQ(rows.transposed_parts(), density < 0.1 ? 1 : 6);
    const int64_t most = density < 0.1 ? 50 : 9;
    ExpectParts(rows, false, at.rows(), most, at.forward_map());
    ExpectParts(rows, true, at.transposed_rows(), most, at.backward_map());
    // Starts of rows and of their parts; places and values of parts.
    const int64_t starts =
        51 + 41 + (density < 0.1 ? 51 + 41 : (5 * 50 + 1) + (6 * 40 + 1));
    EXPECT_EQ(
        KernelRows::MemoryBytes(at, nnz),
        16 * nnz + 8 * starts + (density < 0.1 ? 0 : 4 * nnz + 8 * 5 * 50));
  }
}

TEST(KernelRows, PartsCoverTheRowsOfAnyWindow) {
  uint32_t number = 0;
  for (const Case& c : Cases()) {
    const Addressing at = AddressingOf(c);
    const KernelRows rows(
        NewRandomPattern(NewRandomKey(5, Stream::kMask, number++), at.rows(),
                         at.columns(), at.rows() * at.columns(), Parallel()),
        at, Parallel());
    for (bool transposed : {false, true}) {
      SCOPED_TRACE(c.Text());
      ExpectParts(rows, transposed,
                  transposed ? at.transposed_rows() : at.rows(),
                  transposed ? c.outputs : c.input.channels,
                  transposed ? at.backward_map() : at.forward_map());
    }
  }
}

}  // namespace
}  // namespace lumen::sparse
