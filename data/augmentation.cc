// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/augmentation.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <algorithm>
#include <cstring>

#include "lumen/core/error.h"

namespace lumen::data {
namespace {

constexpr double kMaxSide = 1 << 30;

constexpr Key kPadCropKeys[] = {
    {.name = "pad",
     .kind = KeyKind::kInteger,
     .fallback = "4",
     .help = "Pixels added on each side; less than height and width.",
     .minimum = 1,
     .maximum = kMaxSide},
    {.name = "fill",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "Value of the added pixels, before normalisation.",
     .minimum = -1e30,
     .maximum = 1e30},
};

constexpr Key kCutoutKeys[] = {
    {.name = "size",
     .kind = KeyKind::kInteger,
     .help = "Side of the square; at most height and width.",
     .minimum = 1,
     .maximum = kMaxSide},
};

// 0 to count - 1, each equally likely up to count / 2^32.
int64_t Uniform(uint32_t bits, int64_t count) {
  return static_cast<int64_t>(uint64_t{bits} * static_cast<uint64_t>(count) >>
                              32);
}

std::string Where(const Json& value, const std::string& path) {
  return value.where().empty() ? path : value.where() + ": " + path;
}

// image[y][x] = image[y + down][x + right], `fill` from outside. Rows are
// written in the order in which none is needed later.
void Shift(int64_t down, int64_t right, float fill, int64_t height,
           int64_t width, float* image) {
  const int64_t begin = std::max<int64_t>(0, -right);
  const int64_t end = std::min(width, width - right);
  for (int64_t i = 0; i < height; ++i) {
    const int64_t y = down >= 0 ? i : height - 1 - i;
    float* row = image + y * width;
    if (y + down < 0 || y + down >= height) {
      std::fill_n(row, width, fill);
      continue;
    }
    std::memmove(row + begin, image + (y + down) * width + begin + right,
                 (end - begin) * sizeof(float));
    std::fill(row, row + begin, fill);
    std::fill(row + end, row + width, fill);
  }
}

ImageChange NewPadCrop(const Json& spec, const std::string& path,
                       const Shape& shape, const std::vector<float>&) {
  const int64_t pad = spec.at("pad").integer();
  const auto fill = static_cast<float>(spec.at("fill").number());
  const int64_t side = std::min(shape.height, shape.width);
  if (pad >= side) {
    throw SpecError(fmt::format(
        "{}: {}; expected less than {}, the smaller side of an image of {}",
        Where(spec.at("pad"), path + ".pad"), pad, side, shape.ToString()));
  }
  return [=](const std::array<uint32_t, 4>& random, float* image) {
    const int64_t down = Uniform(random[0], 2 * pad + 1) - pad;
    const int64_t right = Uniform(random[1], 2 * pad + 1) - pad;
    for (int64_t c = 0; c < shape.channels; ++c) {
      Shift(down, right, fill, shape.height, shape.width,
            image + c * shape.height * shape.width);
    }
  };
}

ImageChange NewFlip(const Json&, const std::string&, const Shape& shape,
                    const std::vector<float>&) {
  return [=](const std::array<uint32_t, 4>& random, float* image) {
    if (Uniform(random[0], 2) == 0) return;
    for (int64_t row = 0; row < shape.channels * shape.height; ++row) {
      std::reverse(image + row * shape.width, image + (row + 1) * shape.width);
    }
  };
}

// DeVries and Taylor 2017, section 3. The mean becomes exactly 0 when it is
// normalised.
ImageChange NewCutout(const Json& spec, const std::string& path,
                      const Shape& shape, const std::vector<float>& mean) {
  const int64_t size = spec.at("size").integer();
  const int64_t side = std::min(shape.height, shape.width);
  if (size > side) {
    throw SpecError(fmt::format(
        "{}: {}; expected at most {}, the smaller side of an image of {}",
        Where(spec.at("size"), path + ".size"), size, side, shape.ToString()));
  }
  return [=](const std::array<uint32_t, 4>& random, float* image) {
    const int64_t top = Uniform(random[0], shape.height) - size / 2;
    const int64_t left = Uniform(random[1], shape.width) - size / 2;
    const int64_t begin = std::max<int64_t>(0, left);
    const int64_t end = std::min(shape.width, left + size);
    for (int64_t c = 0; c < shape.channels; ++c) {
      float* plane = image + c * shape.height * shape.width;
      const float value = mean.empty() ? 0.0f : mean[c];
      for (int64_t y = std::max<int64_t>(0, top);
           y < std::min(shape.height, top + size); ++y) {
        std::fill(plane + y * shape.width + begin,
                  plane + y * shape.width + end, value);
      }
    }
  };
}

constexpr AugmentationType kTypes[] = {
    {"pad_crop", kPadCropKeys,
     "The image is padded on each side and cut back at a random place.",
     NewPadCrop},
    {"flip",
     {},
     "Left and right change places in half of the images.",
     NewFlip},
    {"cutout", kCutoutKeys,
     "A square around a random pixel, cut off at the border, is set to "
     "normalize.mean, or to 0 without normalize.",
     NewCutout},
};

const AugmentationType& TypeOf(const Json& spec) {
  for (const AugmentationType& type : kTypes) {
    if (type.type == spec.at("type").text()) return type;
  }
  LOG(FATAL) << "unresolved augmentation " << spec.Dump();
}

}  // namespace

std::span<const AugmentationType> AugmentationTypes() { return kTypes; }

std::vector<Variant> AugmentationVariants() {
  std::vector<Variant> variants;
  for (const AugmentationType& type : kTypes) {
    variants.push_back({type.type, type.keys, type.help});
  }
  return variants;
}

std::vector<Augmentation> NewAugmentations(const Json& data_spec,
                                           const Shape& shape,
                                           const std::vector<float>& mean,
                                           uint64_t seed) {
  const Json* list = data_spec.Find("augment");
  if (list == nullptr || list->items().empty()) return {};
  if (shape.depth != 1 || shape.height * shape.width == 1) {
    throw SpecError(fmt::format(
        "{}: found samples of {}; expected images, [channels, height, width]",
        Where(*list, "data.augment"), shape.ToString()));
  }
  std::vector<Augmentation> augmentations;
  for (size_t i = 0; i < list->items().size(); ++i) {
    const Json& spec = list->items()[i];
    const std::string path = fmt::format("data.augment[{}]", i);
    augmentations.push_back(
        {NewRandomKey(seed, Stream::kAugment, static_cast<uint32_t>(i)),
         TypeOf(spec).create(spec, path, shape, mean)});
  }
  return augmentations;
}

}  // namespace lumen::data
