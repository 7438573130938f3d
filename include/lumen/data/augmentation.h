// SPDX-License-Identifier: Apache-2.0
// Random changes of training images, and the table of their types.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/panel.h"
#include "lumen/core/philox.h"
#include "lumen/core/schema.h"

namespace lumen::data {

// Changes one image [C][H][W] in place. `random` is all that it may draw from.
using ImageChange =
    std::function<void(const std::array<uint32_t, 4>& random, float* image)>;

// One element of data.augment.
struct Augmentation {
  RandomKey key;
  ImageChange change;

  // A pure function of seed, place in the list, epoch, sample and image: it
  // depends neither on ranks and threads nor on what was read before.
  void Apply(uint32_t epoch, uint64_t sample, float* image) const {
    change(Draw(key, epoch, sample, 0), image);
  }
};

// One row per type.
struct AugmentationType {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  // `spec` is the resolved element, `path` its name in messages; `mean` is what
  // normalisation subtracts per channel. Throws SpecError when it does not fit
  // images of that shape.
  ImageChange (*create)(const Json& spec, const std::string& path,
                        const Shape& shape, const std::vector<float>& mean);
};
// The table: data/augmentation.cc.
std::span<const AugmentationType> AugmentationTypes();
std::vector<Variant> AugmentationVariants();

// All of data.augment, in the order of the list. They see images as the data
// set gives them, before normalisation; `mean` is that of Transform, empty for
// none. Throws SpecError, also for samples that are not images.
std::vector<Augmentation> NewAugmentations(const Json& data_spec,
                                           const Shape& shape,
                                           const std::vector<float>& mean,
                                           uint64_t seed);

}  // namespace lumen::data
