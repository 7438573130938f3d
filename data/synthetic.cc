// SPDX-License-Identifier: Apache-2.0
// Samples made from their index: x = a * s(class) + noise, in constant memory.
//
// s is a pattern of random signs per class. Along depth, height and width it
// repeats every 8 positions, so that convolutions can learn it as well as
// linear layers. The noise is uniform with variance 1. The amplitude a is
// chosen so that the expected distance of two class means is data.separability.
#include <fmt/format.h>
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/files.h"
#include "lumen/core/error.h"
#include "lumen/core/hash.h"
#include "lumen/core/philox.h"

namespace lumen::data {
namespace {

// Items of Stream::kSynthetic; part of the mathematics.
constexpr uint32_t kPatternItem = 0;
constexpr uint32_t kLabelItem = 1;
constexpr uint32_t kNoiseItem = 2;

constexpr int64_t kPeriod = 8;
constexpr float kRootThree = 1.7320508f;  // of uniform noise of variance 1

constexpr Key kSyntheticKeys[] = {
    {.name = "classes",
     .kind = KeyKind::kInteger,
     .help = "Number of classes.",
     .minimum = 1,
     .maximum = std::numeric_limits<int32_t>::max()},
    {.name = "separability",
     .kind = KeyKind::kNumber,
     .fallback = "6.0",
     .help = "Expected distance between two class means, in standard "
             "deviations of the noise.",
     .minimum = 0,
     .maximum = 1e6},
    {.name = "seed",
     .kind = KeyKind::kInteger,
     .fallback = "1",
     .help = "Selects the patterns, labels and noise.",
     .minimum = 0},
};

// Bits of a class's pattern, 128 per draw, read in ascending order.
class PatternBits {
 public:
  PatternBits(RandomKey key, int64_t label)
      : key_(key), label_(static_cast<uint64_t>(label)) {}

  bool At(int64_t index) {
    if (index / 128 != block_) {
      block_ = index / 128;
      words_ = Draw(key_, 0, label_, static_cast<uint32_t>(block_));
    }
    return words_[index / 32 % 4] >> (index % 32) & 1;
  }

 private:
  RandomKey key_;
  uint64_t label_;
  int64_t block_ = -1;
  std::array<uint32_t, 4> words_ = {};
};

class SyntheticDataset : public Dataset {
 public:
  SyntheticDataset(uint64_t seed, Split split, int64_t samples,
                   const Shape& shape, int64_t classes, double separability)
      : split_(static_cast<uint32_t>(split)),
        samples_(samples),
        shape_(shape),
        classes_(classes),
        amplitude_(static_cast<float>(
            separability /
            std::sqrt(2.0 * static_cast<double>(shape.elements())))),
        pattern_key_(NewRandomKey(seed, Stream::kSynthetic, kPatternItem)),
        label_key_(NewRandomKey(seed, Stream::kSynthetic, kLabelItem)),
        noise_key_(NewRandomKey(seed, Stream::kSynthetic, kNoiseItem)) {
    Hasher hasher;
    hasher.Update("synthetic 1");
    const int64_t numbers[] = {static_cast<int64_t>(seed),
                               int64_t{split_},
                               samples,
                               shape.channels,
                               shape.depth,
                               shape.height,
                               shape.width,
                               classes};
    hasher.Update(std::span<const int64_t>(numbers));
    hasher.Update(&amplitude_, sizeof(amplitude_));
    fingerprint_ = hasher.Digest();
  }

  int64_t size() const override { return samples_; }
  Shape shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t memory_bytes() const override { return 0; }

  int32_t Read(int64_t index, std::span<float> x,
               std::span<float> /*targets*/) const override {
    DCHECK(index >= 0 && index < samples_) << index;
    const auto sample = static_cast<uint64_t>(index);
    const uint64_t random = Draw(label_key_, split_, sample, 0)[0];
    const int64_t label =
        static_cast<int64_t>(random * static_cast<uint64_t>(classes_) >> 32);
    WritePattern(label, x.data());
    AddNoise(sample, x);
    return static_cast<int32_t>(label);
  }

 private:
  void WritePattern(int64_t label, float* x) const {
    const int64_t depth = std::min(shape_.depth, kPeriod);
    const int64_t height = std::min(shape_.height, kPeriod);
    const int64_t width = std::min(shape_.width, kPeriod);
    PatternBits bits(pattern_key_, label);
    float cell[kPeriod * kPeriod * kPeriod];
    for (int64_t c = 0; c < shape_.channels; ++c) {
      const int64_t size = depth * height * width;
      for (int64_t i = 0; i < size; ++i) {
        cell[i] = bits.At(c * size + i) ? amplitude_ : -amplitude_;
      }
      for (int64_t d = 0; d < shape_.depth; ++d) {
        for (int64_t h = 0; h < shape_.height; ++h) {
          const float* row =
              cell + (d % kPeriod * height + h % kPeriod) * width;
          for (int64_t w = 0; w < shape_.width; ++w) *x++ = row[w % kPeriod];
        }
      }
    }
  }

  // Eight elements per draw, 16 bits each: exact in fp32.
  void AddNoise(uint64_t sample, std::span<float> x) const {
    for (size_t begin = 0; begin < x.size(); begin += 8) {
      const std::array<uint32_t, 4> words =
          Draw(noise_key_, split_, sample, static_cast<uint32_t>(begin / 8));
      const size_t end = std::min(x.size(), begin + 8);
      for (size_t i = begin; i < end; ++i) {
        const uint32_t half = words[(i - begin) / 2] >> (i % 2 * 16) & 0xffff;
        const float unit = static_cast<float>(half) * 0x1p-15f - 1.0f;
        x[i] += unit * kRootThree;
      }
    }
  }

  uint32_t split_;
  int64_t samples_;
  Shape shape_;
  int64_t classes_;
  float amplitude_;
  RandomKey pattern_key_;
  RandomKey label_key_;
  RandomKey noise_key_;
  uint64_t fingerprint_ = 0;
};

Shape RequiredShape(const Json& spec) {
  const std::optional<Shape> shape = DeclaredShape(spec);
  if (shape) return *shape;
  throw SpecError(
      "data.shape: not given; a synthetic data set needs the shape of its "
      "samples, for example [784] or [3, 32, 32]");
}

int64_t RequiredSamples(const Json& spec, Split split) {
  const std::optional<int64_t> samples = DeclaredSamples(spec, split);
  if (!samples) {
    throw SpecError(
        "data.samples: not given; a synthetic data set needs its size, for "
        "example {\"train\": 60000, \"test\": 10000}");
  }
  if (*samples == 0 && split == Split::kTrain) {
    throw SpecError("data.samples.train: 0; expected at least 1");
  }
  return *samples;
}

std::unique_ptr<Dataset> Open(const Json& spec, Split split) {
  const int64_t samples = RequiredSamples(spec, split);
  if (samples == 0) return nullptr;
  return std::make_unique<SyntheticDataset>(
      static_cast<uint64_t>(spec.at("seed").integer()), split, samples,
      RequiredShape(spec), spec.at("classes").integer(),
      spec.at("separability").number());
}

DatasetInfo Info(const Json& spec) {
  DatasetInfo info;
  info.shape = RequiredShape(spec);
  info.classes = spec.at("classes").integer();
  info.train_samples = RequiredSamples(spec, Split::kTrain);
  info.valid_samples = RequiredSamples(spec, Split::kValid);
  info.test_samples = RequiredSamples(spec, Split::kTest);
  return info;
}

}  // namespace

DatasetReader SyntheticReader() {
  return {"synthetic", kSyntheticKeys,
          "random samples around one pattern per class, made from their index",
          Open, Info};
}

}  // namespace lumen::data
