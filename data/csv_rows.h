// SPDX-License-Identifier: Apache-2.0
// The rows of a CSV file below its column names, and their cells as numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/csv.h"
#include "lumen/core/json.h"

namespace lumen::data {

class CsvRows {
 public:
  // Reads the column names: the first line, or without a header "1", "2", ...
  // Throws IoError for an empty file and for a name given twice.
  CsvRows(const Json& spec, const std::string& path);

  const std::vector<std::string>& names() const { return names_; }
  // The next row is in cells(); false at the end. Throws IoError where it has
  // another number of cells than there are names.
  bool Next();
  const std::vector<std::string>& cells() const { return cells_; }
  int64_t line() const { return reader_.line(); }
  // "file:line: column 3 "size": found "x"; expected ".
  std::string Found(size_t column) const;

 private:
  CsvReader reader_;
  std::vector<std::string> cells_;
  std::vector<std::string> names_;
  bool held_;  // the first row was read for its length
};

// Thrown for a row that lacks a value: an error, or left out, by data.missing.
struct MissingValue {
  std::string message;
};

bool IsMissing(const std::string& cell);  // empty or "NA"
// Throw MissingValue for a cell that is missing or not finite, IoError for
// anything else but a number, and for one that float32 cannot hold.
double NumberOf(const CsvRows& rows, size_t column);
float FloatOf(const CsvRows& rows, size_t column);

}  // namespace lumen::data
