// SPDX-License-Identifier: Apache-2.0
// What a spec says about CSV files, checked against the columns of a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/schema.h"

namespace lumen::data {

extern const std::span<const Key> kCsvKeys;

// One column that is read, with the inputs it becomes.
struct CsvColumn {
  size_t index = 0;  // from 0
  std::string name;
  // Of a categorical column: one input each, 1 where the cell says so. Empty:
  // the cell is a number and one input.
  std::vector<std::string> values;
  bool categorical = false;

  int64_t inputs() const {
    return categorical ? static_cast<int64_t>(values.size()) : 1;
  }
};

// Which columns are read, and how.
struct CsvTable {
  std::vector<std::string> names;  // of all columns
  std::vector<CsvColumn> columns;  // the inputs, in file order
  size_t target = 0;
  std::optional<size_t> group;
  bool classes = true;  // the target is a class; else a number
  std::vector<std::string> class_names;
  int64_t number_of_classes = 1;
  int64_t base = 0;  // of integer labels
  bool drop_missing = false;
  bool unknown_is_zero = false;

  int64_t inputs() const;
};

// The delimiter, by data.delimiter or the extension of `path`.
char CsvDelimiter(const Json& spec, const std::string& path);

// `names` are the columns of the training file `path`. Columns whose values
// the spec does not list are left with none. Throws SpecError.
CsvTable NewCsvTable(const Json& spec, const std::string& path,
                     const std::vector<std::string>& names);

}  // namespace lumen::data
