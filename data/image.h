// SPDX-License-Identifier: Apache-2.0
// Image files to floats: decoding, and bringing an image to the size that the
// model takes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lumen::data {

// 8-bit pixels, [height][width][channels]; grey has one channel, RGB three.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;
};

enum class FitKind {
  kCrop,     // the largest centred part that has the shape of the target
  kStretch,  // all of it, each side scaled on its own
  kPad,      // all of it, centred, zeros around
};
struct Fit {
  FitKind kind = FitKind::kCrop;
  int64_t height = 0;
  int64_t width = 0;
};

// Which part of an image goes to which part of the target.
struct Placement {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
  int64_t target_top = 0;
  int64_t target_left = 0;
  int64_t target_height = 0;
  int64_t target_width = 0;
};
Placement Place(const Fit& fit, int64_t height, int64_t width);

// The format is told by the content. Images come out as grey or RGB: palettes
// are looked up, 16 bits become 8, transparency is left out, CMYK becomes RGB.
// A JPEG that is larger than `fit` needs may come out at 1/2, 1/4 or 1/8 of its
// size: the smallest that need not be enlarged. `memory` is used for the pixels
// where it can be: that of the last image, say. Throws IoError "name: what".
// Thread-safe.
Image DecodeImage(std::string_view bytes, const std::string& name,
                  const Fit& fit, std::vector<uint8_t> memory = {});

// The formats, each in its own file.
Image DecodeJpeg(std::string_view bytes, const std::string& name,
                 const Fit& fit, std::vector<uint8_t> memory);
Image DecodePng(std::string_view bytes, const std::string& name,
                std::vector<uint8_t> memory);
Image DecodeTiff(std::string_view bytes, const std::string& name);
// Throws IoError unless the size that a header promises is one we take.
void CheckImageSize(const std::string& name, int64_t height, int64_t width);

// Writes [channels][fit.height][fit.width], scaled to [0, 1]. Sizes change as
// in PIL and torch with antialiasing: each output is the mean of its
// surroundings under a triangle (bilinear) that is as wide as the step between
// outputs, in fp32: rows by KernelTable::sum_rows, then columns in order. An
// image of the right size keeps its values exactly. RGB becomes grey by (19595
// R + 38470 G + 7471 B) / 65536, rounded (ITU-R 601). REQUIRES: channels is 1
// or 3.
void FitImage(const Image& image, const Fit& fit, int64_t channels,
              std::span<float> out);

}  // namespace lumen::data
