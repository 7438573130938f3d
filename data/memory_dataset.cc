// SPDX-License-Identifier: Apache-2.0
#include "data/memory_dataset.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <cmath>
#include <cstring>

#include "lumen/core/error.h"
#include "lumen/core/hash.h"

namespace lumen::data {
namespace {

int64_t Width(StoredType type) { return type == StoredType::kUint8 ? 1 : 4; }

// x - x is 0 for finite x and NaN otherwise; the sum of those tells for all.
bool AllFinite(const float* values, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += values[i] - values[i];
  return sum == 0;
}

void CheckFinite(const std::string& path, const std::string& bytes,
                 int64_t elements) {
  std::vector<float> sample(elements);
  const int64_t sample_bytes = elements * static_cast<int64_t>(sizeof(float));
  const int64_t samples = static_cast<int64_t>(bytes.size()) / sample_bytes;
  for (int64_t s = 0; s < samples; ++s) {
    std::memcpy(sample.data(), bytes.data() + s * sample_bytes, sample_bytes);
    if (AllFinite(sample.data(), elements)) continue;
    int64_t at = 0;
    while (std::isfinite(sample[at])) ++at;
    throw IoError(
        fmt::format("{}: sample {}: {} at element {}; expected finite numbers",
                    path, s, sample[at], at));
  }
}

}  // namespace

MemoryDataset::MemoryDataset(const std::string& x_path,
                             const std::string& y_path, const Shape& shape,
                             int64_t classes, StoredType type,
                             std::string values,
                             const std::vector<int64_t>& labels)
    : shape_(shape),
      classes_(classes),
      type_(type),
      values_(std::move(values)) {
  const int64_t sample_bytes = shape.elements() * Width(type);
  const auto total = static_cast<int64_t>(values_.size());
  CHECK_EQ(total % sample_bytes, 0);
  const int64_t samples = total / sample_bytes;
  if (samples != static_cast<int64_t>(labels.size())) {
    throw IoError(
        fmt::format("{}: found {} samples; expected {}, one for each "
                    "label of {}",
                    x_path, samples, labels.size(), y_path));
  }
  if (samples == 0) {
    throw IoError(x_path + ": found no samples; expected at least one");
  }
  labels_.resize(samples);
  for (int64_t i = 0; i < samples; ++i) {
    if (labels[i] < 0 || labels[i] >= classes) {
      throw IoError(fmt::format(
          "{}: sample {}: label {}; expected 0 to {}, as data.classes is {}",
          y_path, i, labels[i], classes - 1, classes));
    }
    labels_[i] = static_cast<int32_t>(labels[i]);
  }
  if (type == StoredType::kFloat32) {
    CheckFinite(x_path, values_, shape.elements());
  }
  Hasher hasher;
  const int64_t header[] = {shape.channels, shape.depth, shape.height,
                            shape.width,    classes,     Width(type)};
  hasher.Update(std::span<const int64_t>(header));
  hasher.Update(std::span<const int32_t>(labels_));
  hasher.Update(values_);
  fingerprint_ = hasher.Digest();
}

int32_t MemoryDataset::Read(int64_t index, std::span<float> x) const {
  DCHECK(index >= 0 && index < size()) << index;
  const int64_t elements = shape_.elements();
  DCHECK_EQ(static_cast<int64_t>(x.size()), elements);
  float* out = x.data();
  if (type_ == StoredType::kUint8) {
    const auto* in =
        reinterpret_cast<const uint8_t*>(values_.data()) + index * elements;
    for (int64_t i = 0; i < elements; ++i) {
      out[i] = static_cast<float>(in[i]) / 255.0f;
    }
  } else {
    const int64_t bytes = elements * static_cast<int64_t>(sizeof(float));
    std::memcpy(out, values_.data() + index * bytes, bytes);
  }
  return labels_[index];
}

int64_t MemoryDataset::memory_bytes() const {
  return static_cast<int64_t>(values_.size()) +
         static_cast<int64_t>(labels_.size() * sizeof(int32_t));
}

}  // namespace lumen::data
