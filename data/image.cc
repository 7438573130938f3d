// SPDX-License-Identifier: Apache-2.0
#include "data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lumen/core/error.h"

namespace lumen::data {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 28;

// The inputs of each output along one side: `taps` weights from input first[i]
// on, zeros behind the last.
struct Filter {
  int64_t taps = 0;
  std::vector<int64_t> first;
  std::vector<float> weights;  // [outputs][taps]
};

// `size` of the `inputs` from `start` on become `outputs`.
Filter NewFilter(int64_t inputs, double start, double size, int64_t outputs) {
  const double step = size / static_cast<double>(outputs);
  const double reach = std::max(step, 1.0);  // half the triangle's width
  Filter filter;
  filter.taps =
      std::min(inputs, static_cast<int64_t>(std::ceil(reach)) * 2 + 1);
  filter.first.resize(outputs);
  filter.weights.resize(outputs * filter.taps);
  for (int64_t i = 0; i < outputs; ++i) {
    const double centre = start + (static_cast<double>(i) + 0.5) * step;
    int64_t first =
        std::max<int64_t>(0, static_cast<int64_t>(centre - reach + 0.5));
    const int64_t last =
        std::min(inputs, static_cast<int64_t>(centre + reach + 0.5));
    const int64_t taps = last - first;
    // Weights end before the last input.
    const int64_t shift = std::max<int64_t>(0, first + filter.taps - inputs);
    first -= shift;
    float* weights = filter.weights.data() + i * filter.taps + shift;
    double sum = 0;
    const auto weight = [&](int64_t t) {
      const auto at = static_cast<double>(first + shift + t) + 0.5;
      return std::max(0.0, 1 - std::abs(at - centre) / reach);
    };
    for (int64_t t = 0; t < taps; ++t) sum += weight(t);
    for (int64_t t = 0; t < taps; ++t) {
      weights[t] = static_cast<float>(weight(t) / sum);
    }
    filter.first[i] = first;
  }
  return filter;
}

// One output row: sums over the input rows, of the values [begin, end) of each.
void MixRows(const Image& image, const Filter& rows, int64_t y, int64_t begin,
             int64_t end, float* out) {
  const int64_t row_values = image.width * image.channels;
  std::fill(out + begin, out + end, 0.0f);
  for (int64_t t = 0; t < rows.taps; ++t) {
    const float weight = rows.weights[y * rows.taps + t];
    if (weight == 0) continue;
    const uint8_t* in = image.pixels.data() + (rows.first[y] + t) * row_values;
    for (int64_t i = begin; i < end; ++i) {
      out[i] += weight * static_cast<float>(in[i]);
    }
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

bool StartsWith(std::string_view bytes, std::string_view magic) {
  return bytes.substr(0, magic.size()) == magic;
}

}  // namespace

void CheckImageSize(const std::string& name, int64_t height, int64_t width) {
  if (height >= 1 && width >= 1 && height * width <= kMaxPixels) return;
  throw IoError(fmt::format(
      "{}: promises {}x{} pixels; expected at least 1x1, at most {} in all",
      name, height, width, kMaxPixels));
}

Placement Place(const Fit& fit, int64_t height, int64_t width) {
  const auto h = static_cast<double>(height);
  const auto w = static_cast<double>(width);
  const auto to_h = static_cast<double>(fit.height);
  const auto to_w = static_cast<double>(fit.width);
  Placement place{0, 0, h, w, 0, 0, fit.height, fit.width};
  if (fit.kind == FitKind::kCrop) {
    place.height = std::min(h, w * to_h / to_w);
    place.width = std::min(w, h * to_w / to_h);
    place.top = (h - place.height) / 2;
    place.left = (w - place.width) / 2;
  } else if (fit.kind == FitKind::kPad) {
    const double scale = std::min(to_h / h, to_w / w);
    const auto side = [&](double from, int64_t most) {
      return std::clamp<int64_t>(std::llround(from * scale), 1, most);
    };
    place.target_height = side(h, fit.height);
    place.target_width = side(w, fit.width);
    place.target_top = (fit.height - place.target_height) / 2;
    place.target_left = (fit.width - place.target_width) / 2;
  }
  return place;
}

Image DecodeImage(std::string_view bytes, const std::string& name,
                  const Fit& fit) {
  using std::string_view_literals::operator""sv;
  if (StartsWith(bytes, "\xff\xd8"sv)) return DecodeJpeg(bytes, name, fit);
  if (StartsWith(bytes, "\x89PNG\r\n\x1a\n"sv)) return DecodePng(bytes, name);
  if (StartsWith(bytes, "II*\0"sv) || StartsWith(bytes, "MM\0*"sv) ||
      StartsWith(bytes, "II+\0"sv) || StartsWith(bytes, "MM\0+"sv)) {
    return DecodeTiff(bytes, name);
  }
  throw IoError(name +
                (bytes.empty() ? ": is empty" : ": found other content") +
                "; expected a JPEG, PNG or TIFF image");
}

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
  const Filter rows =
      NewFilter(image.height, place.top, place.height, place.target_height);
  const Filter columns =
      NewFilter(image.width, place.left, place.width, place.target_width);
  const int64_t begin = columns.first.front() * image.channels;
  const int64_t end = (columns.first.back() + columns.taps) * image.channels;
  std::vector<float> mixed(image.width * image.channels);
  for (int64_t y = 0; y < place.target_height; ++y) {
    MixRows(image, rows, y, begin, end, mixed.data());
    float* target =
        out.data() + (place.target_top + y) * fit.width + place.target_left;
    for (int64_t x = 0; x < place.target_width; ++x) {
      const float* weights = columns.weights.data() + x * columns.taps;
      const float* in = mixed.data() + columns.first[x] * image.channels;
      if (image.channels == 1) {
        float sum = 0;
        for (int64_t t = 0; t < columns.taps; ++t) sum += weights[t] * in[t];
        for (int64_t c = 0; c < channels; ++c) {
          target[c * plane + x] = sum / 255.0f;
        }
        continue;
      }
      float red = 0;
      float green = 0;
      float blue = 0;
      for (int64_t t = 0; t < columns.taps; ++t) {
        red += weights[t] * in[3 * t];
        green += weights[t] * in[3 * t + 1];
        blue += weights[t] * in[3 * t + 2];
      }
      target[x] = red / 255.0f;
      target[plane + x] = green / 255.0f;
      target[2 * plane + x] = blue / 255.0f;
    }
  }
}

}  // namespace lumen::data
