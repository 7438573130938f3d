// SPDX-License-Identifier: Apache-2.0
// Sparse samples held in memory as they are: a row of entries each.
#pragma once

#include <string>

#include "data/sparse_text.h"
#include "lumen/data/dataset.h"

namespace lumen::data {

class SparseDataset : public Dataset {
 public:
  // Throws IoError when there is no sample.
  SparseDataset(const std::string& path, const SparseTextFormat& format,
                SparseTable table);

  int64_t size() const override { return table_.samples(); }
  Shape shape() const override { return {.channels = features_}; }
  int64_t classes() const override { return classes_; }
  SampleKind kind() const override { return SampleKind::kSparse; }
  bool has_label_sets() const override { return has_label_sets_; }
  RowSizes row_sizes() const override { return sizes_; }
  SparseSample ReadSparse(int64_t index) const override;
  // All values of the sample, most of them 0.
  int32_t Read(int64_t index, std::span<float> x,
               std::span<float> targets) const override;
  int32_t Label(int64_t index) const override {
    return ReadSparse(index).label;
  }
  std::vector<std::string> notes() const override;
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t memory_bytes() const override;

 private:
  std::string path_;
  int64_t features_;
  int64_t classes_;
  bool has_label_sets_;
  SparseTable table_;
  RowSizes sizes_;
  int64_t without_label_ = 0;
  int64_t without_entry_ = 0;
  uint64_t fingerprint_ = 0;
};

// Of all samples of `data`. REQUIRES: they are sparse.
RowSizes SizesOf(const Dataset& data);

// Bytes of such a data set.
int64_t SparseMemoryBytes(int64_t samples, const RowSizes& sizes,
                          bool has_label_sets);

}  // namespace lumen::data
