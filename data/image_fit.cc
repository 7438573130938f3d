// SPDX-License-Identifier: Apache-2.0
// Images at the size that the model takes: rows are mixed first, by the kernel
// that sums rows for sparse layers, then the columns of each mixed row. Only
// order and precision make the bits; both are the same in every kernel.
#include <algorithm>
#include <cmath>

#include "data/image.h"
#include "lumen/sparse/kernels.h"

namespace lumen::data {
namespace {

// Four floats in a register of baseline x86-64; a pixel fills three of them.
using Four = float __attribute__((vector_size(16)));

Four LoadFour(const float* from) {
  Four four;
  __builtin_memcpy(&four, from, sizeof(four));
  return four;
}

void Store(Four four, float* to) { __builtin_memcpy(to, &four, sizeof(four)); }

// The inputs of each output along one side: `taps` weights from input first[i]
// on, some of them 0.
struct Filter {
  int64_t taps = 0;
  std::vector<int64_t> first;
  std::vector<float> weights;  // [outputs][taps]

  // `size` of the `inputs` from `start` on become `outputs`.
  void Set(int64_t inputs, double start, double size, int64_t outputs);
};

void Filter::Set(int64_t inputs, double start, double size, int64_t outputs) {
  const double step = size / static_cast<double>(outputs);
  const double reach = std::max(step, 1.0);  // half the triangle's width
  const auto centre = [&](int64_t output) {
    return start + (static_cast<double>(output) + 0.5) * step;
  };
  const auto last = [&](int64_t output) {
    return std::min(inputs, static_cast<int64_t>(centre(output) + reach + 0.5));
  };
  first.resize(outputs);
  taps = 0;
  for (int64_t i = 0; i < outputs; ++i) {
    first[i] =
        std::max<int64_t>(0, static_cast<int64_t>(centre(i) - reach + 0.5));
    taps = std::max(taps, last(i) - first[i]);
  }
  weights.assign(outputs * taps, 0.0f);
  std::vector<double> triangle(taps);
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t count = last(i) - first[i];
    double sum = 0;
    for (int64_t t = 0; t < count; ++t) {
      const double away =
          std::abs(static_cast<double>(first[i] + t) + 0.5 - centre(i));
      triangle[t] = std::max(0.0, 1 - away / reach);
      sum += triangle[t];
    }
    // Weights end before the last input.
    const int64_t shift = std::max<int64_t>(0, first[i] + taps - inputs);
    first[i] -= shift;
    for (int64_t t = 0; t < count; ++t) {
      weights[i * taps + shift + t] = static_cast<float>(triangle[t] / sum);
    }
  }
}

// Kept between images: fresh memory costs more than the arithmetic.
struct Workspace {
  Filter rows;
  Filter columns;
  std::vector<float> ring;   // [taps of rows][values of a row]
  std::vector<float> mixed;  // a row, and three more that are read and ignored
  std::vector<int32_t> slots;
};

void ToFloat(const uint8_t* __restrict from, int64_t count,
             float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

// Outputs of one channel from `in`, which holds a pixel in every float.
void MixGrey(const Filter& columns, const float* in, int64_t outputs,
             float* target) {
  for (int64_t x = 0; x < outputs; ++x) {
    const float* weights = columns.weights.data() + x * columns.taps;
    float sum = 0;
    for (int64_t t = 0; t < columns.taps; ++t) {
      sum += weights[t] * in[columns.first[x] + t];
    }
    target[x] = sum / 255.0f;
  }
}

// Sums a pixel at a time. kTaps 0: as many as the filter says.
template <int64_t kTaps>
void MixRgb(const Filter& columns, const float* in, int64_t outputs,
            float* target, int64_t plane) {
  const int64_t taps = kTaps > 0 ? kTaps : columns.taps;
  const auto pixel = [&](int64_t x) __attribute__((always_inline)) {
    const float* weights = columns.weights.data() + x * taps;
    const float* from = in + 3 * columns.first[x];
    Four sum = {};
    for (int64_t t = 0; t < taps; ++t) {
      sum += weights[t] * LoadFour(from + 3 * t);
    }
    return sum;
  };
  int64_t x = 0;
  for (; x + 4 <= outputs; x += 4) {
    const Four a = pixel(x);
    const Four b = pixel(x + 1);
    const Four c = pixel(x + 2);
    const Four d = pixel(x + 3);
    const Four red_green_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const Four red_green_high = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const Four blue_low = __builtin_shufflevector(a, b, 2, 6, 2, 6);
    const Four blue_high = __builtin_shufflevector(c, d, 2, 6, 2, 6);
    const auto store = [&](Four values, int64_t channel) {
      Store(values / 255.0f, target + channel * plane + x);
    };
    store(__builtin_shufflevector(red_green_low, red_green_high, 0, 1, 4, 5),
          0);
    store(__builtin_shufflevector(red_green_low, red_green_high, 2, 3, 6, 7),
          1);
    store(__builtin_shufflevector(blue_low, blue_high, 0, 1, 4, 5), 2);
  }
  for (; x < outputs; ++x) {
    const Four sum = pixel(x);
    for (int64_t c = 0; c < 3; ++c) target[c * plane + x] = sum[c] / 255.0f;
  }
}

using MixRgbFunction = void (*)(const Filter&, const float*, int64_t, float*,
                                int64_t);
MixRgbFunction MixRgbOf(int64_t taps) {
  switch (taps) {
    case 1:
      return MixRgb<1>;
    case 2:
      return MixRgb<2>;
    case 3:
      return MixRgb<3>;
    case 4:
      return MixRgb<4>;
    case 5:
      return MixRgb<5>;
    default:
      return MixRgb<0>;
  }
}

Image ToGrey(const Image& image) {
  Image grey{image.height, image.width, 1, {}};
  grey.pixels.resize(image.height * image.width);
  const uint8_t* in = image.pixels.data();
  for (uint8_t& out : grey.pixels) {
    out = static_cast<uint8_t>(
        (19595 * in[0] + 38470 * in[1] + 7471 * in[2] + 32768) >> 16);
    in += 3;
  }
  return grey;
}

}  // namespace

void FitImage(const Image& image, const Fit& fit, int64_t channels,
              std::span<float> out) {
  if (image.channels == 3 && channels == 1) {
    FitImage(ToGrey(image), fit, channels, out);
    return;
  }
  const int64_t plane = fit.height * fit.width;
  const Placement place = Place(fit, image.height, image.width);
  if (place.target_height < fit.height || place.target_width < fit.width) {
    std::ranges::fill(out, 0.0f);
  }
  static const sparse::KernelTable& kernels =
      sparse::Kernels(sparse::DetectIsa());
  thread_local Workspace work;
  Filter& rows = work.rows;
  Filter& columns = work.columns;
  rows.Set(image.height, place.top, place.height, place.target_height);
  columns.Set(image.width, place.left, place.width, place.target_width);
  const int64_t row_values = image.width * image.channels;
  // What of a row the columns need.
  const int64_t begin = columns.first.front() * image.channels;
  const int64_t values =
      (columns.first.back() + columns.taps) * image.channels - begin;
  for (int64_t& first : columns.first) first -= begin / image.channels;
  work.ring.resize(rows.taps * values);
  work.mixed.resize(values + 3);
  work.slots.resize(rows.taps);
  const MixRgbFunction mix_rgb = MixRgbOf(columns.taps);
  int64_t next = 0;  // the first input row that is not in the ring
  for (int64_t y = 0; y < place.target_height; ++y) {
    const int64_t first = rows.first[y];
    for (next = std::max(next, first); next < first + rows.taps; ++next) {
      ToFloat(image.pixels.data() + next * row_values + begin, values,
              work.ring.data() + next % rows.taps * values);
    }
    for (int64_t t = 0; t < rows.taps; ++t) {
      work.slots[t] = static_cast<int32_t>((first + t) % rows.taps);
    }
    kernels.sum_rows(work.slots.data(), rows.weights.data() + y * rows.taps,
                     rows.taps, work.ring.data(), values, nullptr,
                     work.mixed.data());
    float* target =
        out.data() + (place.target_top + y) * fit.width + place.target_left;
    if (image.channels == 3) {
      mix_rgb(columns, work.mixed.data(), place.target_width, target, plane);
      continue;
    }
    MixGrey(columns, work.mixed.data(), place.target_width, target);
    for (int64_t c = 1; c < channels; ++c) {
      std::copy_n(target, place.target_width, target + c * plane);
    }
  }
}

}  // namespace lumen::data
