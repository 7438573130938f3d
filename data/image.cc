// SPDX-License-Identifier: Apache-2.0
#include "data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lumen/core/error.h"

namespace lumen::data {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 28;

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
                  const Fit& fit, std::vector<uint8_t> memory) {
  using std::string_view_literals::operator""sv;
  if (StartsWith(bytes, "\xff\xd8"sv)) {
    return DecodeJpeg(bytes, name, fit, std::move(memory));
  }
  if (StartsWith(bytes, "\x89PNG\r\n\x1a\n"sv)) {
    return DecodePng(bytes, name, std::move(memory));
  }
  if (StartsWith(bytes, "II*\0"sv) || StartsWith(bytes, "MM\0*"sv) ||
      StartsWith(bytes, "II+\0"sv) || StartsWith(bytes, "MM\0+"sv)) {
    return DecodeTiff(bytes, name);
  }
  throw IoError(name +
                (bytes.empty() ? ": is empty" : ": found other content") +
                "; expected a JPEG, PNG or TIFF image");
}

}  // namespace lumen::data
