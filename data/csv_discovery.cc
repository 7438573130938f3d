// SPDX-License-Identifier: Apache-2.0
#include "data/csv_discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "data/csv.h"
#include "data/csv_rows.h"
#include "data/found_files.h"
#include "data/text_input.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"

namespace lumen::data {
namespace {

namespace fs = std::filesystem;

// More different cells than this are not kept.
constexpr size_t kMostValues = 1000;
// A column of words with more of them is an identifier, not a category.
constexpr size_t kMostCategories = 64;
// Integers with at most this many different values are classes.
constexpr size_t kMostClasses = 100;

struct Column {
  std::string name;
  bool numbers = true;   // every cell that is there
  bool integers = true;  // every number
  double least = 0;
  double most = 0;
  int64_t present = 0;
  int64_t missing = 0;
  std::set<std::string> values;  // up to kMostValues + 1 different cells

  void Add(const std::string& cell) {
    const std::optional<double> number = ParseNumber(cell);
    if (IsMissing(cell) || (number && !std::isfinite(*number))) {
      ++missing;
      return;
    }
    if (values.size() <= kMostValues) values.insert(cell);
    numbers &= number.has_value();
    if (number) {
      integers &= *number == std::trunc(*number);
      least = present == 0 ? *number : std::min(least, *number);
      most = present == 0 ? *number : std::max(most, *number);
    }
    ++present;
  }
};

bool IsTable(const std::string& path) {
  const std::string extension = TextExtension(path);
  return extension == ".csv" || extension == ".tsv" || extension == ".tab";
}

bool IsNamed(const std::string& name,
             std::initializer_list<const char*> words) {
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return std::ranges::find(words, lower) != words.end();
}

// The delimiter that cuts the first line into most cells.
char DelimiterOf(const std::string& path) {
  const std::string extension = TextExtension(path);
  char best = extension == ".csv" ? ',' : '\t';
  size_t most = 1;
  for (const char delimiter : {best, ';', '\t', '|', ','}) {
    std::vector<std::string> cells;
    if (CsvReader(path, delimiter).Next(&cells) && cells.size() > most) {
      most = cells.size();
      best = delimiter;
    }
  }
  return best;
}

// A first line without a number, over cells of which some are numbers, or that
// repeats no cell.
bool HasHeader(const std::string& path, char delimiter) {
  CsvReader reader(path, delimiter);
  std::vector<std::string> cells;
  if (!reader.Next(&cells)) return true;
  return std::ranges::none_of(cells,
                              [](const std::string& cell) {
                                return cell.empty() || ParseNumber(cell);
                              }) &&
         std::set<std::string>(cells.begin(), cells.end()).size() ==
             cells.size();
}

std::vector<Column> ReadColumns(const Json& format, const std::string& path) {
  CsvRows rows(format, path);
  std::vector<Column> columns;
  for (const std::string& name : rows.names())
    columns.push_back({.name = name});
  while (rows.Next()) {
    for (size_t c = 0; c < columns.size(); ++c) columns[c].Add(rows.cells()[c]);
  }
  return columns;
}

size_t TargetOf(const std::vector<Column>& columns, Discovery* discovery) {
  for (size_t c = 0; c < columns.size(); ++c) {
    if (IsNamed(columns[c].name,
                {"target", "label", "labels", "class", "y", "outcome"})) {
      return c;
    }
  }
  discovery->notes.push_back(fmt::format(
      "the target is the last column, {}; if that is wrong, change data.target",
      Quoted(columns.back().name)));
  return columns.size() - 1;
}

void DescribeTarget(const std::string& path, const Column& target,
                    Discovery* discovery) {
  Json& spec = discovery->spec;
  spec.Set("target", target.name);
  const auto classes = static_cast<int64_t>(target.values.size());
  if (classes < 2) {
    throw IoError(fmt::format(
        "{}: column {}: found {}; expected a target of at least two values",
        path, Quoted(target.name), CountOf(classes, "value")));
  }
  if (target.numbers &&
      !(target.integers && target.values.size() <= kMostClasses)) {
    spec.Set("task", "value");
    spec.Set("classes", 1);
    return;
  }
  if (target.values.size() > kMostValues) {
    throw IoError(fmt::format(
        "{}: column {}: found more than {} different words; expected classes "
        "or numbers, or another column as the target: name it \"target\"",
        path, Quoted(target.name), kMostValues));
  }
  const double span = target.most - target.least + 1;
  if (target.numbers && span == static_cast<double>(classes)) {
    spec.Set("classes", classes);
    spec.Set("base", static_cast<int64_t>(target.least));
    return;
  }
  Json names = Json::Array();
  for (const std::string& value : target.values) names.Append(value);
  spec.Set("classes", classes);
  spec.Set("class_names", std::move(names));
}

void DescribeInputs(const std::vector<Column>& columns, size_t target,
                    Discovery* discovery) {
  Json ignore = Json::Array();
  Json categorical = Json::Object();
  bool grouped = false;
  int64_t missing = columns[target].missing;
  const auto leave_out = [&](const Column& column, std::string_view why) {
    ignore.Append(column.name);
    discovery->notes.push_back(
        fmt::format("{} is left out: {}", Quoted(column.name), why));
  };
  for (size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    if (c == target) continue;
    if (!grouped && IsNamed(column.name, {"patient", "patient_id", "subject",
                                          "subject_id", "group"})) {
      grouped = true;
      discovery->spec.Set("group", column.name);
      discovery->notes.push_back(
          fmt::format("rows of one {} stay together when some are held out",
                      Quoted(column.name)));
    } else if (IsNamed(column.name, {"id", "index", "uuid", ""})) {
      leave_out(column, "it numbers the rows");
    } else if (column.present == 0) {
      leave_out(column, "it is empty");
    } else if (!column.numbers && column.values.size() > kMostCategories) {
      leave_out(column,
                fmt::format("more than {} different words", kMostCategories));
    } else {
      missing += column.missing;
      if (!column.numbers) categorical.Set(column.name, Json());
    }
  }
  Json& spec = discovery->spec;
  if (!categorical.members().empty()) {
    spec.Set("categorical", std::move(categorical));
  }
  if (!ignore.items().empty()) spec.Set("ignore", std::move(ignore));
  if (missing > 0) {
    spec.Set("missing", "drop");
    discovery->notes.push_back(
        fmt::format("{} missing; rows that lack one are left out",
                    CountOf(missing, "cell")));
  }
}

// The tables at a path that belong to one data set, by split.
std::map<Split, std::string> TablesAt(const std::string& path) {
  std::vector<std::string> names;
  std::vector<std::string> others;
  for (const std::string& file : FilesAt(path)) {
    if (!IsTable(file)) continue;
    names.push_back(fs::path(file).filename().string());
    others.push_back(ReadName(names.back()).other);
  }
  std::map<Split, std::string> splits;
  if (names.empty()) return splits;
  const std::string wanted = TheDataSet(path, others);
  for (size_t i = 0; i < names.size(); ++i) {
    if (others[i] != wanted) continue;
    const Split split = ReadName(names[i]).split;
    if (splits.contains(split)) {
      throw IoError(
          fmt::format("{}: found {} and {} for the {} split; give one of them",
                      path, splits[split], names[i], SplitName(split)));
    }
    splits[split] = names[i];
  }
  if (!splits.contains(Split::kTrain)) {
    throw IoError(fmt::format("{}: found {} only; expected a training file",
                              path, splits.begin()->second));
  }
  return splits;
}

// A folder of images may have a table of labels: that is no data set here.
bool HoldsOnlyTables(const std::string& folder) {
  return std::ranges::none_of(
      fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
        const std::string extension = entry.path().extension().string();
        return entry.is_directory() ||
               !(IsTable(entry.path().string()) || extension == ".txt" ||
                 extension == ".md" || extension == ".json");
      });
}

}  // namespace

std::optional<Discovery> DiscoverCsv(const std::string& path) {
  if (fs::is_directory(path) ? !HoldsOnlyTables(path) : !IsTable(path)) {
    return std::nullopt;
  }
  const std::map<Split, std::string> splits = TablesAt(path);
  if (splits.empty()) return std::nullopt;
  const std::string root = RootOf(path);
  const std::string train = root + "/" + splits.at(Split::kTrain);

  Discovery discovery;
  Json& spec = discovery.spec = Json::Object();
  spec.Set("root", root);
  for (const auto& [split, name] : splits) spec.Set(SplitName(split), name);
  const char delimiter = DelimiterOf(train);
  spec.Set("delimiter", std::string(1, delimiter));
  spec.Set("header", HasHeader(train, delimiter));
  const std::vector<Column> columns = ReadColumns(spec, train);
  if (columns.size() < 2) {
    throw IoError(train + ": found one column; expected inputs and a target");
  }
  const size_t target = TargetOf(columns, &discovery);
  DescribeTarget(train, columns[target], &discovery);
  DescribeInputs(columns, target, &discovery);
  if (splits.size() == 1) {
    spec.Set("valid_fraction", 0.1);
    discovery.notes.push_back("a tenth of the rows is held out to validate");
  }
  return discovery;
}

}  // namespace lumen::data
