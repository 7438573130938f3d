// SPDX-License-Identifier: Apache-2.0
#include "data/csv_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "data/text_input.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"

namespace lumen::data {
namespace {

constexpr Key kCsvKeyArray[] = {
    {.name = "root",
     .kind = KeyKind::kText,
     .fallback = "\"\"",
     .help = "Folder that relative file names start from.",
     .mathematical = false},
    {.name = "train",
     .kind = KeyKind::kText,
     .help = "File of the training split; plain, gzip, bzip2, xz or zstd.",
     .mathematical = false},
    {.name = "valid",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "File of the validation split.",
     .mathematical = false},
    {.name = "test",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "File of the test split.",
     .mathematical = false},
    {.name = "delimiter",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "One character, as \",\" or \"\\t\". Default: a tab for files "
             "named .tsv or .tab, else a comma."},
    {.name = "header",
     .kind = KeyKind::kBool,
     .fallback = "true",
     .help = "Does the first line name the columns? Else they are named \"1\", "
             "\"2\", ..."},
    {.name = "target",
     .kind = KeyKind::kText,
     .help = "The column to learn: its name, or its number from 1."},
    {.name = "task",
     .kind = KeyKind::kText,
     .fallback = "\"class\"",
     .help = "Is the target a class or a real number?",
     .choices = "class|value"},
    {.name = "classes",
     .kind = KeyKind::kInteger,
     .fallback = "1",
     .help = "Number of classes; 1 for task \"value\".",
     .minimum = 1,
     .maximum = std::numeric_limits<int32_t>::max()},
    {.name = "class_names",
     .kind = KeyKind::kTexts,
     .fallback = "null",
     .help = "What the target column holds for class 0, 1, ... Default: "
             "integers that count from `base`."},
    {.name = "base",
     .kind = KeyKind::kInteger,
     .fallback = "0",
     .help = "The first class where classes are integers.",
     .minimum = 0,
     .maximum = 1},
    {.name = "categorical",
     .kind = KeyKind::kMap,
     .fallback = "{}",
     .help = "Columns that become one input per value: {\"colour\": [\"red\", "
             "\"blue\"], \"size\": null}; null: the values of the training "
             "file, sorted."},
    {.name = "unknown",
     .kind = KeyKind::kText,
     .fallback = "\"error\"",
     .help = "A value that a categorical column does not list: an error, or "
             "zero in all its inputs.",
     .choices = "error|zero"},
    {.name = "ignore",
     .kind = KeyKind::kTexts,
     .fallback = "[]",
     .help = "Columns that are neither input nor target."},
    {.name = "group",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "A column; data.valid_fraction never divides rows that are equal "
             "in it. No input."},
    {.name = "missing",
     .kind = KeyKind::kText,
     .fallback = "\"error\"",
     .help = "Rows with an empty cell, NA, NaN or an infinite number: an "
             "error, or left out and counted.",
     .choices = "error|drop"},
};

[[noreturn]] void Fail(const Json& value, std::string_view key,
                       const std::string& problem) {
  const std::string where = value.where();
  throw SpecError(fmt::format("{}{}data.{}: {}", where,
                              where.empty() ? "" : ": ", key, problem));
}

// The column that `name` names: by name, else by number from 1.
size_t FindColumn(const std::vector<std::string>& names,
                  const std::string& name, const Json& value,
                  std::string_view key, const std::string& path) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  size_t number = 0;
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data(), end, number);
  if (result.ec == std::errc() && result.ptr == end && number >= 1 &&
      number <= names.size()) {
    return number - 1;
  }
  Fail(value, key,
       fmt::format("no column \"{}\"; expected one of {}, the columns of {}, "
                   "or a number from 1 to {}",
                   name, Join(names), path, names.size()));
}

std::vector<std::string> ToTexts(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& item : list.items()) texts.push_back(item.text());
  return texts;
}

void CheckDistinct(const Json& value, std::string_view key,
                   const std::vector<std::string>& texts) {
  std::set<std::string> seen;
  for (const std::string& text : texts) {
    if (!seen.insert(text).second) {
      Fail(value, key, fmt::format("\"{}\" is given twice", text));
    }
  }
}

// The stated values of a categorical column; none for null.
std::vector<std::string> StatedValues(const Json& value,
                                      const std::string& key) {
  if (value.is_null()) return {};
  bool texts = value.is_array() && !value.items().empty();
  if (texts) {
    texts = std::ranges::all_of(value.items(), [](const Json& item) {
      return item.kind() == Json::Kind::kText;
    });
  }
  if (!texts) {
    Fail(value, key,
         fmt::format("found {}; expected a list of texts, or null for the "
                     "values of the training file",
                     value.Dump()));
  }
  std::vector<std::string> values = ToTexts(value);
  CheckDistinct(value, key, values);
  return values;
}

void ReadClasses(const Json& spec, CsvTable* table) {
  const Json& classes = spec.at("classes");
  table->classes = spec.at("task").text() == "class";
  table->number_of_classes = classes.integer();
  table->base = spec.at("base").integer();
  if (!table->classes && classes.integer() != 1) {
    Fail(classes, "classes",
         fmt::format("{}; expected 1 for task \"value\"", classes.integer()));
  }
  if (table->classes && classes.integer() < 2) {
    Fail(classes, "classes",
         fmt::format("{}; expected the number of classes, at least 2",
                     classes.integer()));
  }
  const Json& names = spec.at("class_names");
  if (names.is_null()) return;
  if (!table->classes) {
    Fail(names, "class_names", "given; expected none for task \"value\"");
  }
  table->class_names = ToTexts(names);
  CheckDistinct(names, "class_names", table->class_names);
  if (static_cast<int64_t>(table->class_names.size()) != classes.integer()) {
    Fail(names, "class_names",
         fmt::format("{} names; expected {}, as data.classes is {}",
                     table->class_names.size(), classes.integer(),
                     classes.integer()));
  }
}

}  // namespace

constinit const std::span<const Key> kCsvKeys = kCsvKeyArray;

int64_t CsvTable::inputs() const {
  int64_t inputs = 0;
  for (const CsvColumn& column : columns) inputs += column.inputs();
  return inputs;
}

char CsvDelimiter(const Json& spec, const std::string& path) {
  const Json& given = spec.at("delimiter");
  if (given.is_null()) {
    const std::string extension = TextExtension(path);
    return extension == ".tsv" || extension == ".tab" ? '\t' : ',';
  }
  const std::string& text = given.text();
  if (text.size() != 1 || text[0] == '"' || text[0] == '\n' ||
      text[0] == '\r' || text[0] == ' ') {
    Fail(given, "delimiter",
         given.Dump() +
             "; expected one character as \",\", \";\" or \"\\t\", no blank, "
             "quote or newline");
  }
  return text[0];
}

CsvTable NewCsvTable(const Json& spec, const std::string& path,
                     const std::vector<std::string>& names) {
  CsvTable table;
  table.names = names;
  table.drop_missing = spec.at("missing").text() == "drop";
  table.unknown_is_zero = spec.at("unknown").text() == "zero";
  ReadClasses(spec, &table);

  std::vector<bool> used(names.size(), true);
  const Json& target = spec.at("target");
  table.target = FindColumn(names, target.text(), target, "target", path);
  used[table.target] = false;
  for (const Json& name : spec.at("ignore").items()) {
    const size_t column = FindColumn(names, name.text(), name, "ignore", path);
    if (column == table.target) {
      Fail(name, "ignore", "\"" + name.text() + "\" is the target");
    }
    used[column] = false;
  }

  const Json& group = spec.at("group");
  if (!group.is_null()) {
    table.group = FindColumn(names, group.text(), group, "group", path);
    used[*table.group] = false;
  }

  const Json& categorical = spec.at("categorical");
  if (!categorical.is_object()) {
    Fail(categorical, "categorical",
         "found " + categorical.Dump() + "; expected an object");
  }
  std::vector<CsvColumn> columns(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    columns[i].index = i;
    columns[i].name = names[i];
  }
  for (const auto& [name, value] : categorical.members()) {
    const std::string key = "categorical." + name;
    CsvColumn& column = columns[FindColumn(names, name, value, key, path)];
    if (!used[column.index] || column.categorical) {
      Fail(value, key,
           "the column is the target, ignored or given twice; expected an "
           "input");
    }
    column.categorical = true;
    column.values = StatedValues(value, key);
  }
  for (const CsvColumn& column : columns) {
    if (used[column.index]) table.columns.push_back(column);
  }
  if (table.columns.empty()) {
    throw IoError(fmt::format(
        "{}: found no column but the target and ignored ones; expected at "
        "least one input",
        path));
  }
  return table;
}

}  // namespace lumen::data
