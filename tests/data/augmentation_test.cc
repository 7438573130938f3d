// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/augmentation.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "lumen/core/error.h"
#include "lumen/data/loader.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

using Image = std::vector<float>;

Json Spec(const std::string& augment, const std::string& more = "") {
  return DataSpec("{\"type\": \"synthetic\", \"classes\": 2, \"augment\": " +
                  augment + more + "}");
}

std::vector<Augmentation> New(const std::string& augment, const Shape& shape,
                              const std::vector<float>& mean = {},
                              uint64_t seed = 7) {
  return NewAugmentations(Spec(augment), shape, mean, seed);
}

// A random word for which outcome `k` of `count` equally likely ones is drawn.
uint32_t Word(int64_t k, int64_t count) {
  return static_cast<uint32_t>(((k << 32) + count - 1) / count);
}

// `image` after the only element of `augment`, which draws `random`.
Image Changed(const std::string& augment, const Shape& shape, Image image,
              std::array<uint32_t, 4> random,
              const std::vector<float>& mean = {}) {
  New(augment, shape, mean).at(0).change(random, image.data());
  return image;
}

Image Ramp(const Shape& shape) {
  Image image(shape.elements());
  std::iota(image.begin(), image.end(), 1.0f);
  return image;
}

TEST(Augmentation, TheTableNamesEveryTypeOnce) {
  std::set<std::string_view> types;
  for (const AugmentationType& type : AugmentationTypes()) {
    EXPECT_TRUE(types.insert(type.type).second) << type.type;
    EXPECT_FALSE(type.help.empty()) << type.type;
    for (const Key& key : type.keys) EXPECT_FALSE(key.help.empty()) << key.name;
  }
  EXPECT_EQ(types, (std::set<std::string_view>{"pad_crop", "flip", "cutout"}));
}

TEST(Augmentation, PadCropShowsEveryPartOfThePaddedImage) {
  const Shape shape{.channels = 1, .height = 2, .width = 3};
  const std::string spec = R"([{"type": "pad_crop", "pad": 1, "fill": 9}])";
  const Image image = {1, 2, 3,  //
                       4, 5, 6};
  const std::map<std::pair<int, int>, Image> expected = {
      {{0, 0}, {9, 9, 9, 9, 1, 2}}, {{0, 1}, {9, 9, 9, 1, 2, 3}},
      {{0, 2}, {9, 9, 9, 2, 3, 9}}, {{1, 0}, {9, 1, 2, 9, 4, 5}},
      {{1, 1}, {1, 2, 3, 4, 5, 6}}, {{1, 2}, {2, 3, 9, 5, 6, 9}},
      {{2, 0}, {9, 4, 5, 9, 9, 9}}, {{2, 1}, {4, 5, 6, 9, 9, 9}},
      {{2, 2}, {5, 6, 9, 9, 9, 9}}};
  for (const auto& [offset, pixels] : expected) {
    EXPECT_EQ(Changed(spec, shape, image,
                      {Word(offset.first, 3), Word(offset.second, 3), 1, 2}),
              pixels)
        << offset.first << ", " << offset.second;
  }
}

TEST(Augmentation, PadCropCutsAllChannelsAlike) {
  const Shape shape{.channels = 3, .height = 5, .width = 4};
  const int64_t pad = 3;
  for (int64_t top = 0; top <= 2 * pad; ++top) {
    for (int64_t left = 0; left <= 2 * pad; ++left) {
      const Image image =
          Changed(R"([{"type": "pad_crop", "pad": 3}])", shape, Ramp(shape),
                  {Word(top, 2 * pad + 1), Word(left, 2 * pad + 1), 0, 0});
      for (int64_t c = 0; c < 3; ++c) {
        for (int64_t h = 0; h < 5; ++h) {
          for (int64_t w = 0; w < 4; ++w) {
            const int64_t y = h + top - pad;
            const int64_t x = w + left - pad;
            const bool inside = y >= 0 && y < 5 && x >= 0 && x < 4;
            ASSERT_EQ(image[(c * 5 + h) * 4 + w],
                      inside ? static_cast<float>(1 + (c * 5 + y) * 4 + x) : 0);
          }
        }
      }
    }
  }
}

TEST(Augmentation, FlipMirrorsRowsOrDoesNothing) {
  const Shape shape{.channels = 2, .height = 2, .width = 3};
  const Image image = Ramp(shape);
  const std::string spec = R"([{"type": "flip"}])";
  EXPECT_EQ(Changed(spec, shape, image, {Word(0, 2), 0, 0, 0}), image);
  EXPECT_EQ(Changed(spec, shape, image, {0x7fffffff, 0, 0, 0}), image);
  EXPECT_EQ(Changed(spec, shape, image, {0x80000000, 0, 0, 0}),
            (Image{3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10}));
}

TEST(Augmentation, CutoutIsCutOffAtTheBorder) {
  const Shape shape{.channels = 1, .height = 3, .width = 3};
  const auto cut = [&](const std::string& size, int64_t y, int64_t x) {
    return Changed(R"([{"type": "cutout", "size": )" + size + "}]", shape,
                   Image(9, 1), {Word(y, 3), Word(x, 3), 0, 0});
  };
  EXPECT_EQ(cut("1", 1, 2), (Image{1, 1, 1, 1, 1, 0, 1, 1, 1}));
  // An even square reaches further up and left.
  EXPECT_EQ(cut("2", 0, 0), (Image{0, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(cut("2", 1, 2), (Image{1, 0, 0, 1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(cut("3", 1, 1), Image(9, 0));
  EXPECT_EQ(cut("3", 2, 0), (Image{1, 1, 1, 0, 0, 1, 0, 0, 1}));
}

TEST(Augmentation, CutoutIsCentredOnEveryPixel) {
  const Shape shape{.channels = 2, .height = 4, .width = 5};
  const std::vector<float> mean = {0.3f, -7.0f};
  for (int64_t size = 1; size <= 4; ++size) {
    for (int64_t y = 0; y < 4; ++y) {
      for (int64_t x = 0; x < 5; ++x) {
        const Image image = Changed(
            R"([{"type": "cutout", "size": )" + std::to_string(size) + "}]",
            shape, Ramp(shape), {Word(y, 4), Word(x, 5), 0, 0}, mean);
        for (int64_t c = 0; c < 2; ++c) {
          for (int64_t h = 0; h < 4; ++h) {
            for (int64_t w = 0; w < 5; ++w) {
              const int64_t down = h - (y - size / 2);
              const int64_t right = w - (x - size / 2);
              const bool hole =
                  down >= 0 && down < size && right >= 0 && right < size;
              const int64_t at = (c * 4 + h) * 5 + w;
              ASSERT_EQ(image[at], hole ? mean[c] : static_cast<float>(at + 1));
            }
          }
        }
      }
    }
  }
}

// The draws are part of the mathematics of every augmented run. The outcomes
// come from a second implementation, in Python.
TEST(Augmentation, DrawsStayAsDefined) {
  const Shape shape{.channels = 1, .height = 5, .width = 6};
  const auto augmentations = New(
      R"([{"type": "pad_crop", "pad": 2}, {"type": "flip"},
          {"type": "cutout", "size": 1}])",
      shape);
  struct Case {
    int64_t down, right, flip, y, x;
  };
  const Case cases[] = {{1, 4, 1, 0, 2}, {1, 3, 1, 1, 0}, {4, 0, 0, 1, 0},
                        {1, 4, 0, 1, 5}, {0, 3, 0, 1, 1}, {1, 1, 1, 1, 3}};
  for (uint64_t sample = 0; sample < std::size(cases); ++sample) {
    const Case& c = cases[sample];
    Image expected = Changed(R"([{"type": "pad_crop", "pad": 2}])", shape,
                             Ramp(shape), {Word(c.down, 5), Word(c.right, 5)});
    expected = Changed(R"([{"type": "flip"}])", shape, std::move(expected),
                       {Word(c.flip, 2)});
    expected[c.y * 6 + c.x] = 0;
    Image image = Ramp(shape);
    for (const Augmentation& augmentation : augmentations) {
      augmentation.Apply(3, sample, image.data());
    }
    EXPECT_EQ(image, expected) << sample;
  }
}

TEST(Augmentation, HalfOfTheImagesAreFlipped) {
  const auto flip =
      New(R"([{"type": "flip"}])", {.channels = 1, .height = 1, .width = 2});
  int64_t flipped = 0;
  for (uint64_t sample = 0; sample < 10000; ++sample) {
    Image image = {0, 1};
    flip[0].Apply(1, sample, image.data());
    flipped += image[0] == 1;
  }
  EXPECT_NEAR(static_cast<double>(flipped), 5000, 250);  // five deviations
}

TEST(Augmentation, CropsAreUniformAndIndependent) {
  const Shape shape{.channels = 1, .height = 5, .width = 5};
  const auto crop = New(R"([{"type": "pad_crop", "pad": 2}])", shape);
  std::map<Image, int64_t> count;
  for (uint64_t sample = 0; sample < 25000; ++sample) {
    Image image = Ramp(shape);
    crop[0].Apply(0, sample, image.data());
    ++count[image];
  }
  EXPECT_EQ(count.size(), 25u);
  for (const auto& [image, times] : count) {
    EXPECT_NEAR(static_cast<double>(times), 1000, 160);
  }
}

TEST(Augmentation, EpochsSeedsAndPlacesInTheListDiffer) {
  const Shape shape{.channels = 1, .height = 32, .width = 32};
  const std::string twice = R"([{"type": "pad_crop"}, {"type": "pad_crop"}])";
  const auto first = New(twice, shape);
  const auto other_seed = New(twice, shape, {}, 8);
  std::set<Image> epochs;
  std::set<Image> variants;
  int64_t same_place = 0;
  for (uint32_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<Image> images(3, Ramp(shape));
    first[0].Apply(epoch, 5, images[0].data());
    first[1].Apply(epoch, 5, images[1].data());
    other_seed[0].Apply(epoch, 5, images[2].data());
    epochs.insert(images[0]);
    same_place += images[0] == images[1];
    same_place += images[0] == images[2];
  }
  EXPECT_GT(epochs.size(), 15u);
  EXPECT_LT(same_place, 5);
}

// Data of which every image is a ramp that starts at its index.
class Images : public Dataset {
 public:
  int64_t size() const override { return 100; }
  Shape shape() const override {
    return {.channels = 2, .height = 4, .width = 5};
  }
  int64_t classes() const override { return 1; }
  int32_t Read(int64_t index, std::span<float> x,
               std::span<float>) const override {
    std::iota(x.begin(), x.end(), static_cast<float>(index));
    return 0;
  }
  uint64_t fingerprint() const override { return 0; }
  int64_t memory_bytes() const override { return 0; }
};

constexpr char kAll[] =
    R"([{"type": "pad_crop", "pad": 2, "fill": -3}, {"type": "flip"},
        {"type": "cutout", "size": 2}])";
constexpr char kNormalize[] =
    R"(, "normalize": {"mean": [0.3, 17.7], "std": [3, 0.7]})";

// Image of every epoch and sample that a loader gives.
std::map<std::pair<int64_t, uint64_t>, Image> LoadImages(int shards,
                                                         int64_t max_lanes,
                                                         int64_t first_step) {
  const Images data;
  const SampleOrder order(data.size(), 24, shards, 3, Order::kShuffle,
                          Tail::kDrop);
  std::vector<int> all(shards);
  std::iota(all.begin(), all.end(), 0);
  Loader loader(&data, order,
                NewTrainingTransform(Spec(kAll, kNormalize), data.shape(), 7),
                LaneLayout::For(order.shard_batch(), max_lanes), all,
                first_step, 12);
  std::map<std::pair<int64_t, uint64_t>, Image> images;
  while (const Batch* batch = loader.Next()) {
    const int64_t lanes = batch->x.layout.lanes;
    for (int64_t i = 0; i < batch->x.layout.samples; ++i) {
      Image image(data.shape().elements());
      for (size_t e = 0; e < image.size(); ++e) {
        image[e] = batch->x.tile(i / lanes)[e * lanes + i % lanes];
      }
      images[{batch->epoch, batch->samples[i]}] = std::move(image);
    }
  }
  return images;
}

TEST(Augmentation, TheLoaderChangesImagesBeforeItNormalisesThem) {
  const Images data;
  const std::vector<float> mean = {0.3f, 17.7f};
  const std::vector<float> deviation = {3, 0.7f};
  const auto augmentations = New(kAll, data.shape(), mean);
  const auto images = LoadImages(1, 128, 0);
  EXPECT_EQ(images.size(), 12u * 24);
  for (const auto& [place, image] : images) {
    Image expected(image.size());
    data.Read(static_cast<int64_t>(place.second), expected, {});
    for (const Augmentation& augmentation : augmentations) {
      augmentation.Apply(static_cast<uint32_t>(place.first), place.second,
                         expected.data());
    }
    int64_t holes = 0;
    for (size_t e = 0; e < expected.size(); ++e) {
      const size_t c = e / 20;
      holes += image[e] == 0;
      expected[e] = (expected[e] - mean[c]) / deviation[c];
    }
    EXPECT_EQ(image, expected);
    EXPECT_GE(holes, 2);  // cutout gives exact zeros
  }
}

TEST(Augmentation, ImagesDependNeitherOnShardsNorOnLanesNorOnResuming) {
  const auto images = LoadImages(1, 128, 0);
  EXPECT_EQ(LoadImages(2, 128, 0), images);
  EXPECT_EQ(LoadImages(4, 16, 0), images);
  const auto resumed = LoadImages(3, 16, 5);
  EXPECT_EQ(resumed.size(), 7u * 24);
  for (const auto& [place, image] : resumed) EXPECT_EQ(images.at(place), image);
}

TEST(Augmentation, OnlyTheTrainingTransformHasIt) {
  const Shape shape = Images().shape();
  const Json spec = Spec(kAll, kNormalize);
  EXPECT_TRUE(NewTransform(spec, shape).augmentations.empty());
  EXPECT_EQ(NewTrainingTransform(spec, shape, 1).augmentations.size(), 3u);
  EXPECT_EQ(NewTrainingTransform(spec, shape, 1).mean,
            NewTransform(spec, shape).mean);
}

TEST(Augmentation, WhatDoesNotFitTheImageIsASpecError) {
  const Shape shape{.channels = 1, .height = 4, .width = 9};
  const auto make = [](const std::string& augment, const Shape& shape) {
    return [augment, shape] { New(augment, shape); };
  };
  ExpectError<SpecError>(
      make(R"([{"type": "flip"}, {"type": "pad_crop"}])", shape),
      {"test.json:1: data.augment[1].pad: 4", "less than 4", "1x4x9"});
  ExpectError<SpecError>(
      make(R"([{"type": "cutout", "size": 5}])", shape),
      {"test.json:1: data.augment[0].size: 5", "at most 4", "1x4x9"});
  EXPECT_EQ(New(R"([{"type": "cutout", "size": 4},
                    {"type": "pad_crop", "pad": 3}])",
                shape)
                .size(),
            2u);
  for (const Shape& other :
       {Shape{.channels = 784},
        Shape{.channels = 1, .depth = 2, .height = 9, .width = 9}}) {
    ExpectError<SpecError>(
        make(R"([{"type": "flip"}])", other),
        {"test.json:1: data.augment", other.ToString(), "expected images"});
    EXPECT_TRUE(New("[]", other).empty());
  }
  EXPECT_THROW(Spec(R"([{"type": "pad_crop", "pad": 0}])"), SpecError);
  EXPECT_THROW(Spec(R"([{"type": "cutout"}])"), SpecError);
  EXPECT_THROW(Spec(R"([{"type": "rotate"}])"), SpecError);
}

}  // namespace
}  // namespace lumen::data
