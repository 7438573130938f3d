// SPDX-License-Identifier: Apache-2.0
// Records of a CSV or TSV file: RFC 4180, with blanks around cells left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_input.h"

namespace lumen::data {

class CsvReader {
 public:
  CsvReader(const std::string& path, char delimiter)
      : input_(path), path_(path), delimiter_(delimiter) {}

  // The cells of the next record; empty lines are left out. Blanks around a
  // cell that is not quoted are not part of it; a quoted one may hold
  // delimiters, doubled quotes and newlines (LF, whatever the file has). False
  // at the end. Throws IoError "file:line: column: found; expected".
  bool Next(std::vector<std::string>* cells);
  int64_t line() const { return line_; }  // where the record begins
  std::string where() const;              // "file:line"

 private:
  // Reads the cell at `*at` of text_ and steps behind it.
  void ReadQuoted(size_t* at, size_t column, std::string* cell);
  void ReadPlain(size_t* at, size_t column, std::string* cell);
  bool IsBlank(size_t at) const;
  void SkipBlanks(size_t* at) const;

  TextInput input_;
  std::string path_;
  char delimiter_;
  std::string_view text_;  // the line read last
  int64_t line_ = 0;
};

// A decimal number with nothing around it; nullopt for anything else and for
// what a double cannot hold. Takes "nan" and "inf".
std::optional<double> ParseNumber(std::string_view text);
// `text` in quotes for a message, cut to 40 characters.
std::string Quoted(std::string_view text);

}  // namespace lumen::data
