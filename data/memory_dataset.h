// SPDX-License-Identifier: Apache-2.0
// A data set held in memory in the type it was stored in.
#pragma once

#include <string>
#include <vector>

#include "lumen/data/dataset.h"
#include "lumen/data/npz.h"

namespace lumen::data {

enum class StoredType { kUint8, kFloat32 };

// What is to be learnt, in file order: a label per sample, or targets.
struct Answers {
  std::vector<int64_t> labels;
  std::vector<float> targets;      // [samples][targets_per_sample]
  int64_t targets_per_sample = 0;  // 0: labels

  int64_t samples() const {
    return static_cast<int64_t>(targets_per_sample == 0
                                    ? labels.size()
                                    : targets.size() / targets_per_sample);
  }
};

// 0: labels. Throws IoError for an array y that is neither labels nor targets,
// SpecError when data.classes is not the number of targets.
int64_t TargetsPerSample(const Json& spec, const std::string& path,
                         const NpyHeader& y);
// Throw IoError naming the sample: a label outside [0, classes), a target that
// is not finite.
std::vector<int32_t> CheckedLabels(const std::string& path,
                                   const std::vector<int64_t>& labels,
                                   int64_t classes);
void CheckTargets(const std::string& path, const std::vector<float>& targets,
                  int64_t per_sample);

class MemoryDataset : public Dataset {
 public:
  // `values` holds samples in file order; uint8 is scaled by 1/255 when read.
  // Throws IoError naming the file and the sample: x and y of different length,
  // no samples at all, a label outside [0, classes), a value or target that is
  // not finite.
  MemoryDataset(const std::string& x_path, const std::string& y_path,
                const Shape& shape, int64_t classes, StoredType type,
                std::string values, Answers answers);

  int64_t size() const override { return samples_; }
  Shape shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  int64_t targets() const override { return targets_per_sample_; }
  int32_t Read(int64_t index, std::span<float> x,
               std::span<float> targets) const override;
  int32_t Label(int64_t index) const override {
    return targets_per_sample_ == 0 ? labels_[index] : 0;
  }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t memory_bytes() const override;

 private:
  Shape shape_;
  int64_t classes_;
  StoredType type_;
  std::string values_;
  int64_t samples_ = 0;
  std::vector<int32_t> labels_;
  int64_t targets_per_sample_;
  std::vector<float> targets_;
  uint64_t fingerprint_ = 0;
};

}  // namespace lumen::data
