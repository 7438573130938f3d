// SPDX-License-Identifier: Apache-2.0
// A checkpoint as a file of named tensors that other programs read.
#pragma once

#include <cstdint>
#include <string>

namespace lumen::train {

// Which weights of a checkpoint: the average if there is one, else the last.
enum class Weights { kBest, kAverage, kLast };

struct ExportOptions {
  // kDense: absent weights are 0. kSparse: a tensor NAME with a mask becomes
  // the arrays NAME.values, NAME.row_start, NAME.column and NAME.shape, as in
  // model.h5.
  enum Layout { kDense, kSparse };

  std::string checkpoint;  // a run folder gives its best checkpoint
  std::string to;
  std::string format;  // "npz" or "safetensors"; "": by the extension of `to`
  Layout layout = kDense;
  Weights weights = Weights::kBest;
};

struct ExportResult {
  std::string checkpoint;
  std::string format;
  int64_t tensors = 0;    // running statistics included
  int64_t zeros = 0;      // weights that exist and are exactly 0
  bool averaged = false;  // the average was written
};

// Parameters and running statistics under their names. Held in memory as they
// are written. The file is replaced in one step. Throws SpecError, IoError.
ExportResult Export(const ExportOptions& options);

}  // namespace lumen::train
