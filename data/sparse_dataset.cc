// SPDX-License-Identifier: Apache-2.0
#include "data/sparse_dataset.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "lumen/core/error.h"
#include "lumen/core/hash.h"

namespace lumen::data {
namespace {

template <class T>
std::span<const T> Row(const std::vector<T>& values,
                       const std::vector<int64_t>& start, int64_t row) {
  const auto r = static_cast<size_t>(row);
  return std::span(values).subspan(
      static_cast<size_t>(start[r]),
      static_cast<size_t>(start[r + 1] - start[r]));
}

}  // namespace

SparseDataset::SparseDataset(const std::string& path,
                             const SparseTextFormat& format, SparseTable table)
    : path_(path),
      features_(format.features),
      classes_(format.classes),
      has_label_sets_(format.labels == SparseTextFormat::kSeveral),
      table_(std::move(table)) {
  if (size() == 0) {
    throw IoError(path + ": found no samples; expected at least one");
  }
  sizes_ = SizesOf(*this);
  for (int64_t i = 0; i < size(); ++i) {
    const SparseSample sample = ReadSparse(i);
    without_entry_ += sample.index.empty();
    without_label_ += has_label_sets_ && sample.labels.empty();
  }
  const int64_t header[] = {features_, classes_, has_label_sets_ ? 1 : 0};
  Hasher hasher;
  hasher.Update(std::span<const int64_t>(header));
  hasher.Update(std::span<const int64_t>(table_.row_start));
  hasher.Update(std::span<const int32_t>(table_.index));
  hasher.Update(std::span<const float>(table_.value));
  if (has_label_sets_) {
    hasher.Update(std::span<const int64_t>(table_.label_start));
  }
  hasher.Update(std::span<const int32_t>(table_.label));
  fingerprint_ = hasher.Digest();
}

SparseSample SparseDataset::ReadSparse(int64_t index) const {
  DCHECK(index >= 0 && index < size()) << index;
  SparseSample sample{.index = Row(table_.index, table_.row_start, index),
                      .value = Row(table_.value, table_.row_start, index)};
  if (has_label_sets_) {
    sample.labels = Row(table_.label, table_.label_start, index);
  } else {
    sample.label = table_.label[static_cast<size_t>(index)];
  }
  return sample;
}

int32_t SparseDataset::Read(int64_t index, std::span<float> x,
                            std::span<float> /*targets*/) const {
  const SparseSample sample = ReadSparse(index);
  std::ranges::fill(x, 0.0f);
  for (size_t i = 0; i < sample.index.size(); ++i) {
    x[static_cast<size_t>(sample.index[i])] = sample.value[i];
  }
  return sample.label;
}

std::vector<std::string> SparseDataset::notes() const {
  std::vector<std::string> notes;
  const auto note = [&](int64_t rows, std::string_view what) {
    if (rows == 0) return;
    notes.push_back(
        fmt::format("{}: {} of {} rows have no {}", path_, rows, size(), what));
  };
  note(without_label_, "label");
  note(without_entry_, "value");
  return notes;
}

int64_t SparseDataset::memory_bytes() const {
  return SparseMemoryBytes(size(), sizes_, has_label_sets_);
}

RowSizes SizesOf(const Dataset& data) {
  RowSizes sizes;
  for (int64_t i = 0; i < data.size(); ++i) {
    const SparseSample sample = data.ReadSparse(i);
    const int64_t entries = std::ssize(sample.index);
    const int64_t labels = std::ssize(sample.labels);
    sizes.entries += entries;
    sizes.labels += labels;
    sizes.largest_row = std::max(sizes.largest_row, entries);
    sizes.largest_set = std::max(sizes.largest_set, labels);
  }
  return sizes;
}

int64_t SparseMemoryBytes(int64_t samples, const RowSizes& sizes,
                          bool has_label_sets) {
  constexpr int64_t kStart = sizeof(int64_t);
  constexpr int64_t kLabel = sizeof(int32_t);
  constexpr int64_t kEntry = sizeof(int32_t) + sizeof(float);
  const int64_t answers = has_label_sets
                              ? samples * kStart + sizes.labels * kLabel
                              : samples * kLabel;
  return samples * kStart + sizes.entries * kEntry + answers;
}

}  // namespace lumen::data
