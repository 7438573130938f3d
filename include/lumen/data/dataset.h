// SPDX-License-Identifier: Apache-2.0
// A data set: numbered samples that can be read in any order, and the table of
// readers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/panel.h"
#include "lumen/core/schema.h"
#include "lumen/core/sparse_rows.h"

namespace lumen::data {

// One sample of a sparse data set. Valid as long as the data set.
struct SparseSample {
  std::span<const int32_t> index;  // of the values, ascending
  std::span<const float> value;
  int32_t label = 0;                // 0 in data with sets of labels
  std::span<const int32_t> labels;  // of a set, ascending
};

// The most that one sample holds, and what all hold together.
struct RowSizes {
  int64_t largest_row = 0;
  int64_t largest_set = 0;
  int64_t entries = 0;
  int64_t labels = 0;  // in sets
};

// Read and ReadSparse are thread-safe. All samples have one shape. What a model
// learns of a sample is its class label, a number of real targets, or a set of
// labels.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Shape shape() const = 0;
  // Outputs of a model: the number of classes, or of targets.
  virtual int64_t classes() const = 0;
  // Targets per sample; 0: samples have labels.
  virtual int64_t targets() const { return 0; }
  virtual SampleKind kind() const { return SampleKind::kDense; }
  // Does a sample have any number of labels? Sparse data only.
  virtual bool has_label_sets() const { return false; }
  virtual RowSizes row_sizes() const { return {}; }
  // Raw values of sample `index` in [C][D][H][W] order, images scaled to [0,
  // 1], and its targets, all finite. Returns the label in [0, classes), or 0
  // for a sample with targets. Throws IoError naming file and sample.
  // REQUIRES: `targets` holds targets() values.
  virtual int32_t Read(int64_t index, std::span<float> x,
                       std::span<float> targets) const = 0;
  // The label alone; without an override it reads the sample.
  virtual int32_t Label(int64_t index) const;
  // REQUIRES: kind() is kSparse.
  virtual SparseSample ReadSparse(int64_t index) const;
  // Samples of one group never fall into two splits (data.group).
  virtual uint64_t Group(int64_t index) const {
    return static_cast<uint64_t>(index);
  }
  // Of the content, not of paths: part of the mathematical digest.
  virtual uint64_t fingerprint() const = 0;
  // Bytes of memory it holds.
  virtual int64_t memory_bytes() const = 0;
  // Names of the classes, in order, and of a sample (the path of an image);
  // none where the files give none: numbers do.
  virtual std::vector<std::string> class_names() const { return {}; }
  virtual std::string SampleName(int64_t /*index*/) const { return ""; }
  // What the log should say of how it was read, as "a.csv: 3 of 100 rows left
  // out: ..." or rows without a label.
  virtual std::vector<std::string> notes() const { return {}; }
};

enum class Split { kTrain, kValid, kTest };
std::string_view SplitName(Split split);  // "train", "valid", "test"

// What plan needs to know without reading samples.
struct DatasetInfo {
  Shape shape;
  int64_t classes = 0;
  int64_t targets = 0;  // as Dataset::targets; 0 when the files are absent
  int64_t train_samples = 0;
  int64_t valid_samples = 0;  // 0: no such split
  int64_t test_samples = 0;
  int64_t memory_bytes = 0;  // of all splits, per rank
  bool has_label_sets = false;
  RowSizes row_sizes = {};  // of the training split, when the files are there
  double density = 1;       // share of its values that are there
};

// What a reader made of a path.
struct Discovery {
  Json spec;  // an unresolved "data" object, with the full path as root
  std::vector<std::string> notes;  // how a doubtful key was told
};

// One row per reader. `spec` is the resolved "data" object.
struct DatasetReader {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  // nullptr when the spec names no such split. Throws IoError, SpecError.
  std::unique_ptr<Dataset> (*open)(const Json& spec, Split split);
  // Reads headers only, or the keys data.shape, data.classes, data.samples when
  // the files are absent. Throws SpecError saying which keys to add.
  DatasetInfo (*info)(const Json& spec);
  SampleKind kind = SampleKind::kDense;
  // Looks for files of this reader at a file or folder; nullopt when there are
  // none. Throws IoError where they are damaged, or need a choice. nullptr:
  // this reader cannot tell.
  std::optional<Discovery> (*discover)(const std::string& path) = nullptr;
};
// The table: data/dataset.cc.
std::span<const DatasetReader> DatasetReaders();
std::vector<Variant> DatasetVariants();
// Keys that every data object takes, of order, values, splits and weights.
extern const std::span<const Key> kCommonDataKeys;

// nullptr when the spec names no such split. With data.valid_fraction the
// training and the validation split are parts of the training files.
std::unique_ptr<Dataset> OpenDataset(const Json& spec, Split split);

struct Datasets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> valid;  // nullptr: no such split
  std::unique_ptr<Dataset> test;
};
// The same; parts of the training files share them in memory.
Datasets OpenDatasets(const Json& spec);
// Samples without answers, of a NumPy file ("x.npy", "file.npz:x"): all labels
// are 0. Throws IoError.
std::unique_ptr<Dataset> OpenUnlabelled(const std::string& x, int64_t classes);
DatasetInfo GetDatasetInfo(const Json& spec);
SampleKind KindOfSamples(const Json& spec);

// The factor of each class in the training loss by data.class_weights, which
// is a mean over samples; empty: 1 for all. "balanced" is samples / (classes *
// samples of the class), 1 on average over the training samples. Throws
// SpecError.
std::vector<float> ClassWeights(const Json& spec, const Dataset& train);

}  // namespace lumen::data
