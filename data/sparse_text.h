// SPDX-License-Identifier: Apache-2.0
// Sparse samples as text, one per line: labels, then index:value. Two formats:
//   svmlight: no header, "#" starts a comment, lines of blanks are no samples;
//   xmc: "samples features labels" in the first line, a line that starts with a
//   blank is a sample without labels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lumen/core/sparse_rows.h"

namespace lumen::data {

struct SparseTextFormat {
  enum Kind { kSvmlight, kXmc } kind = kSvmlight;
  // One class label per sample; -1 or +1 for classes 0 and 1; any number.
  enum Labels { kOne, kSign, kSeveral } labels = kOne;
  int64_t features = 0;
  int64_t classes = 0;
  int64_t base = 0;  // the smallest index
  int64_t label_base = 0;
};

struct SparseTable {
  std::vector<int64_t> row_start = {0};
  std::vector<int32_t> index;
  std::vector<float> value;
  std::vector<int64_t> label_start = {0};  // only with kSeveral
  std::vector<int32_t> label;
  int64_t samples() const { return std::ssize(row_start) - 1; }
};

// What a file holds, told by its separators alone: for planning, and so that
// reading allocates once. Exact for files that ReadSparseText takes, but for
// colons in comments.
struct SparseTextSize {
  int64_t samples = 0;
  int64_t entries = 0;
  int64_t labels = 0;
  int64_t largest_row = 0;
  int64_t largest_set = 0;
};
SparseTextSize MeasureSparseText(const std::string& path,
                                 const SparseTextFormat& format);

// Memory follows the content of the file, never a number in it. Throws IoError
// "file:line: found; expected": ids out of range or twice in a row, values that
// are not finite, another number of rows than the header says.
SparseTable ReadSparseText(const std::string& path,
                           const SparseTextFormat& format);

}  // namespace lumen::data
