// SPDX-License-Identifier: Apache-2.0
#include "data/csv.h"

#include <fmt/format.h>

#include <charconv>

#include "lumen/core/error.h"

namespace lumen::data {

bool CsvReader::IsBlank(size_t at) const {
  return (text_[at] == ' ' || text_[at] == '\t') && text_[at] != delimiter_;
}

void CsvReader::SkipBlanks(size_t* at) const {
  while (*at < text_.size() && IsBlank(*at)) ++*at;
}

void CsvReader::ReadQuoted(size_t* at, size_t column, std::string* cell) {
  ++*at;
  while (true) {
    const size_t quote = text_.find('"', *at);
    cell->append(text_.substr(*at, quote - *at));
    if (quote == text_.npos) {
      cell->push_back('\n');
      *at = 0;
      if (input_.Next(&text_)) continue;
      throw IoError(fmt::format(
          "{}: column {}: found a quoted cell without end; expected a closing "
          "quote",
          where(), column));
    }
    *at = quote + 1;
    if (*at == text_.size() || text_[*at] != '"') break;
    cell->push_back('"');
    ++*at;
  }
  SkipBlanks(at);
  if (*at < text_.size() && text_[*at] != delimiter_) {
    throw IoError(fmt::format(
        "{}: column {}: found {} after a closing quote; expected a delimiter "
        "or the end of the line",
        input_.where(), column, Quoted(text_.substr(*at, 1))));
  }
}

void CsvReader::ReadPlain(size_t* at, size_t column, std::string* cell) {
  const size_t begin = *at;
  size_t end = std::min(text_.find(delimiter_, begin), text_.size());
  *at = end;
  while (end > begin && IsBlank(end - 1)) --end;
  cell->assign(text_.substr(begin, end - begin));
  if (cell->find('"') != cell->npos) {
    throw IoError(fmt::format(
        "{}: column {}: found {}, a quote inside; expected the whole cell in "
        "quotes and its quotes doubled",
        input_.where(), column, Quoted(*cell)));
  }
}

bool CsvReader::Next(std::vector<std::string>* cells) {
  do {
    if (!input_.Next(&text_)) return false;
  } while (text_.empty());
  line_ = input_.line();
  // Cells keep their memory from record to record.
  size_t count = 0;
  size_t at = 0;
  while (true) {
    if (count == cells->size()) cells->emplace_back();
    std::string& cell = (*cells)[count++];
    cell.clear();
    SkipBlanks(&at);
    if (at < text_.size() && text_[at] == '"') {
      ReadQuoted(&at, count, &cell);
    } else {
      ReadPlain(&at, count, &cell);
    }
    if (at >= text_.size()) break;
    ++at;
  }
  cells->resize(count);
  return true;
}

std::string CsvReader::where() const {
  return fmt::format("{}:{}", path_, line_);
}

std::optional<double> ParseNumber(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  double number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kMost = 40;
  if (text.size() <= kMost) return fmt::format("\"{}\"", text);
  return fmt::format("\"{}...\"", text.substr(0, kMost));
}

}  // namespace lumen::data
