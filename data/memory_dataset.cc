// SPDX-License-Identifier: Apache-2.0
#include "data/memory_dataset.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/text.h"
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

int64_t TargetsPerSample(const Json& spec, const std::string& path,
                         const NpyHeader& y) {
  const bool whole = y.kind == 'i' || y.kind == 'u';
  int64_t targets = 0;
  if (y.shape.size() == 1 && whole) return 0;
  if (y.shape.size() == 1 && y.kind == 'f') targets = 1;
  if (y.shape.size() == 2) targets = y.shape[1];
  if (targets == 0) {
    throw IoError(fmt::format(
        "{}: found {} of shape [{}]; expected labels (integers of shape [n]) "
        "or targets (floats of shape [n], any numbers of shape [n, targets])",
        path, y.TypeName(), Joined(y.shape, ", ")));
  }
  const Json& classes = spec.at("classes");
  if (classes.integer() != targets) {
    const std::string where = classes.where();
    throw SpecError(fmt::format(
        "{}{}data.classes: {}; expected {}, the targets per sample in {}, {} "
        "of shape [{}]; labels are integers of shape [n]",
        where, where.empty() ? "" : ": ", classes.integer(), targets, path,
        y.TypeName(), Joined(y.shape, ", ")));
  }
  return targets;
}

std::vector<int32_t> CheckedLabels(const std::string& path,
                                   const std::vector<int64_t>& labels,
                                   int64_t classes) {
  std::vector<int32_t> checked(labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= classes) {
      throw IoError(fmt::format(
          "{}: sample {}: label {}; expected 0 to {}, as data.classes is {}",
          path, i, labels[i], classes - 1, classes));
    }
    checked[i] = static_cast<int32_t>(labels[i]);
  }
  return checked;
}

void CheckTargets(const std::string& path, const std::vector<float>& targets,
                  int64_t per_sample) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (std::isfinite(targets[i])) continue;
    throw IoError(
        fmt::format("{}: sample {}: {} at target {}; expected finite numbers",
                    path, i / per_sample, targets[i], i % per_sample));
  }
}

MemoryDataset::MemoryDataset(const std::string& x_path,
                             const std::string& y_path, const Shape& shape,
                             int64_t classes, StoredType type,
                             std::string values, Answers answers)
    : shape_(shape),
      classes_(classes),
      type_(type),
      values_(std::move(values)),
      targets_per_sample_(answers.targets_per_sample) {
  const int64_t sample_bytes = shape.elements() * Width(type);
  const auto total = static_cast<int64_t>(values_.size());
  CHECK_EQ(total % sample_bytes, 0);
  samples_ = total / sample_bytes;
  if (samples_ != answers.samples()) {
    throw IoError(fmt::format(
        "{}: found {} samples; expected {}, one for each {} of {}", x_path,
        samples_, answers.samples(),
        targets_per_sample_ == 0 ? "label" : "row of targets", y_path));
  }
  if (samples_ == 0) {
    throw IoError(x_path + ": found no samples; expected at least one");
  }
  labels_ = CheckedLabels(y_path, answers.labels, classes);
  CheckTargets(y_path, answers.targets, targets_per_sample_);
  targets_ = std::move(answers.targets);
  if (type == StoredType::kFloat32) {
    CheckFinite(x_path, values_, shape.elements());
  }
  Hasher hasher;
  const int64_t header[] = {shape.channels, shape.depth, shape.height,
                            shape.width,    classes,     Width(type)};
  hasher.Update(std::span<const int64_t>(header));
  hasher.Update(std::span<const int32_t>(labels_));
  hasher.Update(values_);
  if (targets_per_sample_ > 0) {
    hasher.Update(&targets_per_sample_, sizeof(targets_per_sample_));
    hasher.Update(std::span<const float>(targets_));
  }
  fingerprint_ = hasher.Digest();
}

int32_t MemoryDataset::Read(int64_t index, std::span<float> x,
                            std::span<float> targets) const {
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
  DCHECK_EQ(static_cast<int64_t>(targets.size()), targets_per_sample_);
  if (targets_per_sample_ == 0) return labels_[index];
  std::copy_n(targets_.data() + index * targets_per_sample_,
              targets_per_sample_, targets.data());
  return 0;
}

int64_t MemoryDataset::memory_bytes() const {
  return static_cast<int64_t>(values_.size() +
                              labels_.size() * sizeof(int32_t) +
                              targets_.size() * sizeof(float));
}

}  // namespace lumen::data
