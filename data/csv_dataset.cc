// SPDX-License-Identifier: Apache-2.0
// CSV and TSV files as a data set: one row per sample, held as float32.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "data/csv_discovery.h"
#include "data/csv_keys.h"
#include "data/csv_rows.h"
#include "data/files.h"
#include "data/memory_dataset.h"
#include "lumen/core/error.h"
#include "lumen/core/hash.h"

namespace lumen::data {
namespace {

// More values of a column than this are taken for a mistake (an identifier)
// unless the spec lists them.
constexpr size_t kMostLearntValues = 4096;

std::optional<std::string> FileOf(const Json& spec, Split split) {
  const Json& name = spec.at(SplitName(split));
  if (name.is_null()) return std::nullopt;
  return (std::filesystem::path(spec.at("root").text()) / name.text()).string();
}

std::string KeyOf(const Json& spec, Split split) {
  const std::string where = spec.at(SplitName(split)).where();
  return fmt::format("{}{}data.{}", where, where.empty() ? "" : ": ",
                     SplitName(split));
}

int64_t ClassOf(const CsvTable& table, const CsvRows& rows) {
  const int64_t classes = table.number_of_classes;
  if (!table.class_names.empty()) {
    const std::string& cell = rows.cells()[table.target];
    const auto found = std::ranges::find(table.class_names, cell);
    if (found != table.class_names.end()) {
      return found - table.class_names.begin();
    }
    throw IoError(rows.Found(table.target) + "one of data.class_names");
  }
  const double number = NumberOf(rows, table.target);
  const auto base = static_cast<double>(table.base);
  if (number != std::trunc(number) || number < base ||
      number >= base + static_cast<double>(classes)) {
    throw IoError(fmt::format(
        "{}an integer from {} to {}, as data.base is {} and data.classes {}",
        rows.Found(table.target), table.base, table.base + classes - 1,
        table.base, classes));
  }
  return static_cast<int64_t>(number) - table.base;
}

void AddInputs(const CsvTable& table, const CsvRows& rows,
               std::vector<float>* inputs) {
  for (const CsvColumn& column : table.columns) {
    if (!column.categorical) {
      inputs->push_back(FloatOf(rows, column.index));
      continue;
    }
    const std::string& cell = rows.cells()[column.index];
    const auto found = std::ranges::find(column.values, cell);
    if (found == column.values.end() && IsMissing(cell)) {
      throw MissingValue{rows.Found(column.index) + "a value"};
    }
    if (found == column.values.end() && !table.unknown_is_zero) {
      throw IoError(fmt::format(
          "{}one of the {} values of data.categorical.{}; data.unknown "
          "\"zero\" "
          "reads others as zeros",
          rows.Found(column.index), column.values.size(), column.name));
    }
    for (const std::string& value : column.values) {
      inputs->push_back(value == cell ? 1.0f : 0.0f);
    }
  }
}

// Fills in the values of categorical columns that the spec leaves to the
// training file.
void LearnValues(const Json& spec, const std::string& path, CsvTable* table) {
  std::vector<CsvColumn*> open;
  for (CsvColumn& column : table->columns) {
    if (column.categorical && column.values.empty()) open.push_back(&column);
  }
  if (open.empty()) return;
  std::vector<std::set<std::string>> values(open.size());
  CsvRows rows(spec, path);
  while (rows.Next()) {
    for (size_t i = 0; i < open.size(); ++i) {
      const std::string& cell = rows.cells()[open[i]->index];
      if (!IsMissing(cell)) values[i].insert(cell);
      if (values[i].size() <= kMostLearntValues) continue;
      throw IoError(fmt::format(
          "{}at most {} different values; list them in data.categorical.{}, or "
          "ignore the column",
          rows.Found(open[i]->index), kMostLearntValues, open[i]->name));
    }
  }
  for (size_t i = 0; i < open.size(); ++i) {
    if (values[i].empty()) {
      throw IoError(
          fmt::format("{}: column {} {}: found no values; expected some", path,
                      open[i]->index + 1, Quoted(open[i]->name)));
    }
    open[i]->values.assign(values[i].begin(), values[i].end());
  }
}

// The columns that all splits are read with: those of the training file.
CsvTable ReadTable(const Json& spec) {
  const std::string path = *FileOf(spec, Split::kTrain);
  CheckReadable(KeyOf(spec, Split::kTrain), path);
  CsvTable table = NewCsvTable(spec, path, CsvRows(spec, path).names());
  LearnValues(spec, path, &table);
  return table;
}

class CsvDataset : public MemoryDataset {
 public:
  // `groups` holds a digest per row, or nothing.
  CsvDataset(const std::string& path, const CsvTable& table, std::string values,
             Answers answers, std::vector<uint64_t> groups,
             std::vector<std::string> notes)
      : MemoryDataset(path, path, {.channels = table.inputs()},
                      table.number_of_classes, StoredType::kFloat32,
                      std::move(values), std::move(answers)),
        class_names_(table.class_names),
        groups_(std::move(groups)),
        notes_(std::move(notes)) {}

  uint64_t Group(int64_t index) const override {
    return groups_.empty() ? MemoryDataset::Group(index) : groups_[index];
  }
  int64_t memory_bytes() const override {
    return MemoryDataset::memory_bytes() +
           static_cast<int64_t>(groups_.size() * sizeof(uint64_t));
  }

  std::vector<std::string> class_names() const override { return class_names_; }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  std::vector<std::string> class_names_;
  std::vector<uint64_t> groups_;
  std::vector<std::string> notes_;
};

// Rows that were left out, for one reason.
struct LeftOut {
  int64_t count = 0;
  int64_t first_line = 0;

  void Add(int64_t line) {
    if (count++ == 0) first_line = line;
  }
  void Note(const std::string& path, int64_t rows, std::string_view reason,
            std::vector<std::string>* notes) const {
    if (count == 0) return;
    notes->push_back(
        fmt::format("{}: {} of {} rows left out: {}, first in line {}", path,
                    count, rows, reason, first_line));
  }
};

std::unique_ptr<Dataset> Open(const Json& spec, Split split) {
  const std::optional<std::string> path = FileOf(spec, split);
  if (!path) return nullptr;
  CheckReadable(KeyOf(spec, split), *path);
  const CsvTable table = ReadTable(spec);
  CsvRows rows(spec, *path);
  if (rows.names() != table.names) {
    throw IoError(fmt::format("{}:1: found other columns; expected those of {}",
                              *path, *FileOf(spec, Split::kTrain)));
  }
  std::string values;
  Answers answers;
  answers.targets_per_sample = table.classes ? 0 : 1;
  std::vector<uint64_t> groups;
  std::vector<float> inputs;
  int64_t count = 0;
  LeftOut unlabelled;
  LeftOut missing;
  while (rows.Next()) {
    ++count;
    if (rows.cells()[table.target].empty()) {
      unlabelled.Add(rows.line());
      continue;
    }
    try {
      // Rows of no group would all be of one.
      if (table.group && IsMissing(rows.cells()[*table.group])) {
        throw MissingValue{rows.Found(*table.group) + "a group"};
      }
      inputs.clear();
      AddInputs(table, rows, &inputs);
      if (table.classes) {
        answers.labels.push_back(ClassOf(table, rows));
      } else {
        answers.targets.push_back(FloatOf(rows, table.target));
      }
    } catch (const MissingValue& value) {
      if (!table.drop_missing) {
        throw IoError(value.message +
                      "; data.missing \"drop\" leaves such rows out");
      }
      missing.Add(rows.line());
      continue;
    }
    if (table.group) {
      Hasher hasher;
      hasher.Update(rows.cells()[*table.group]);
      groups.push_back(hasher.Digest());
    }
    values.append(reinterpret_cast<const char*>(inputs.data()),
                  inputs.size() * sizeof(float));
  }
  values.shrink_to_fit();
  CheckDeclared(spec, split, *path, {.channels = table.inputs()},
                answers.samples());
  std::vector<std::string> notes;
  unlabelled.Note(*path, count, "no target", &notes);
  missing.Note(*path, count, "a value is missing or not finite", &notes);
  return std::make_unique<CsvDataset>(*path, table, std::move(values),
                                      std::move(answers), std::move(groups),
                                      std::move(notes));
}

// A file says how many rows it has only when it is read; data.shape and
// data.samples save that.
DatasetInfo Info(const Json& spec) {
  DatasetInfo info;
  info.classes = spec.at("classes").integer();
  info.targets = spec.at("task").text() == "value" ? 1 : 0;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const std::optional<std::string> path = FileOf(spec, split);
    if (!path) continue;
    const std::optional<Shape> shape = DeclaredShape(spec);
    int64_t samples = DeclaredSamples(spec, split).value_or(0);
    if (shape && samples > 0) {
      info.shape = *shape;
    } else if (Exists(*path)) {
      const auto data = Open(spec, split);
      info.shape = data->shape();
      samples = data->size();
    } else {
      throw SpecError(fmt::format(
          "{}: \"{}\" is not there; expected the file, or the keys data.shape "
          "and data.samples.{} to plan without it",
          KeyOf(spec, split), *path, SplitName(split)));
    }
    (split == Split::kTrain   ? info.train_samples
     : split == Split::kValid ? info.valid_samples
                              : info.test_samples) = samples;
    const int64_t bytes =
        4 * (info.shape.elements() + 1) + (spec.at("group").is_null() ? 0 : 8);
    info.memory_bytes += samples * bytes;
  }
  return info;
}

}  // namespace

DatasetReader CsvDatasetReader() {
  return {"csv",
          kCsvKeys,
          "Tables of numbers and categories as text, one sample per row",
          Open,
          Info,
          SampleKind::kDense,
          DiscoverCsv};
}

}  // namespace lumen::data
