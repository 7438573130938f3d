// SPDX-License-Identifier: Apache-2.0
#include "data/csv_rows.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "data/csv_keys.h"
#include "lumen/core/error.h"

namespace lumen::data {

CsvRows::CsvRows(const Json& spec, const std::string& path)
    : reader_(path, CsvDelimiter(spec, path)),
      held_(!spec.at("header").boolean()) {
  if (!reader_.Next(&cells_)) {
    throw IoError(fmt::format("{}: found an empty file; expected {}", path,
                              held_ ? "rows" : "a line of column names"));
  }
  names_ = cells_;
  std::set<std::string> seen;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (held_) names_[i] = std::to_string(i + 1);
    if (seen.insert(names_[i]).second) continue;
    throw IoError(fmt::format(
        "{}: column {}: found the name {} again; expected different names",
        reader_.where(), i + 1, Quoted(names_[i])));
  }
}

bool CsvRows::Next() {
  if (!held_ && !reader_.Next(&cells_)) return false;
  held_ = false;
  if (cells_.size() != names_.size()) {
    throw IoError(
        fmt::format("{}: found {} columns; expected {}, as in the first line",
                    reader_.where(), cells_.size(), names_.size()));
  }
  return true;
}

std::string CsvRows::Found(size_t column) const {
  return fmt::format("{}: column {} {}: found {}; expected ", reader_.where(),
                     column + 1, Quoted(names_[column]),
                     Quoted(cells_[column]));
}

bool IsMissing(const std::string& cell) { return cell.empty() || cell == "NA"; }

double NumberOf(const CsvRows& rows, size_t column) {
  const std::string& cell = rows.cells()[column];
  if (IsMissing(cell)) throw MissingValue{rows.Found(column) + "a number"};
  const std::optional<double> number = ParseNumber(cell);
  if (!number) throw IoError(rows.Found(column) + "a number");
  if (!std::isfinite(*number)) {
    throw MissingValue{rows.Found(column) + "a finite number"};
  }
  return *number;
}

float FloatOf(const CsvRows& rows, size_t column) {
  const auto number = static_cast<float>(NumberOf(rows, column));
  if (std::isfinite(number)) return number;
  throw IoError(rows.Found(column) + "a number that float32 holds");
}

}  // namespace lumen::data
