// SPDX-License-Identifier: Apache-2.0
#include "data/sparse_discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <type_traits>

#include "data/found_files.h"
#include "data/sparse_text.h"
#include "data/text_input.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"

namespace lumen::data {
namespace {

namespace fs = std::filesystem;
using Kind = SparseTextFormat::Kind;

// The ids that the files of a data set hold.
struct Ids {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = -1;
  void Add(int64_t id) {
    least = std::min(least, id);
    most = std::max(most, id);
  }
};

struct Found {
  Ids features;
  Ids labels;
  bool several = false;           // some row has more labels or fewer than one
  bool negative = false;          // a label -1
  bool others = false;            // a label besides -1 and 1
  int64_t promised_features = 0;  // by the header of xmc
  int64_t promised_labels = 0;
  int64_t rows = 0;
  int64_t bad = 0;
  std::string first_bad;  // "a.txt:7: ..."
};

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// The next word of a line, "" at its end.
std::string_view Word(std::string_view* line) {
  size_t begin = 0;
  while (begin < line->size() && IsBlank((*line)[begin])) ++begin;
  size_t end = begin;
  while (end < line->size() && !IsBlank((*line)[end])) ++end;
  const std::string_view word = line->substr(begin, end - begin);
  line->remove_prefix(end);
  return word;
}

// The whole text as a number. "3.0" is an integer too, as writers of svmlight
// files like it.
template <typename Number>
bool Parse(std::string_view text, Number* number) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end || text.empty()) return false;
  if (std::is_integral_v<Number> && !(std::abs(value) < 1e15)) return false;
  *number = static_cast<Number>(value);
  return static_cast<double>(*number) == value;
}

// What is wrong with a row, "" for nothing.
std::string ReadLabels(std::string_view labels, Found* found) {
  if (labels.empty()) found->several = true;
  while (!labels.empty()) {
    const size_t comma = std::min(labels.find(','), labels.size());
    int64_t label = 0;
    if (!Parse(labels.substr(0, comma), &label) || label < -1) {
      return fmt::format("label \"{}\"; expected a class number",
                         labels.substr(0, comma));
    }
    found->several |= comma < labels.size();
    found->negative |= label == -1;
    found->others |= label != -1 && label != 1;
    found->labels.Add(label);
    labels.remove_prefix(std::min(comma + 1, labels.size()));
  }
  return "";
}

std::string ReadRow(std::string_view line, Found* found) {
  const std::string_view all = line;
  std::string_view word;
  std::string_view labels;
  if (!line.empty() && !IsBlank(line[0])) {
    labels = Word(&line);
    if (labels.find(':') != labels.npos) {  // a row without labels
      labels = "";
      line = all;
    }
  }
  if (std::string wrong = ReadLabels(labels, found); !wrong.empty()) {
    return wrong;
  }
  while (!(word = Word(&line)).empty()) {
    const size_t colon = word.find(':');
    int64_t index = 0;
    double value = 0;
    if (colon == word.npos || !Parse(word.substr(0, colon), &index) ||
        !Parse(word.substr(colon + 1), &value) || index < 0) {
      return fmt::format("\"{}\"; expected index:value", word);
    }
    found->features.Add(index);
  }
  return "";
}

bool ReadHeader(std::string_view line, Found* found) {
  int64_t rows = 0;
  return Parse(Word(&line), &rows) &&
         Parse(Word(&line), &found->promised_features) &&
         Parse(Word(&line), &found->promised_labels) && Word(&line).empty() &&
         rows > 0 && found->promised_features > 0 && found->promised_labels > 0;
}

// Which of the two formats a file is in, told by its first rows.
std::optional<Kind> KindOf(const std::string& path) {
  std::string_view line;
  try {
    TextInput lines(path);
    if (!lines.Next(&line)) return std::nullopt;
    Found found;
    if (ReadHeader(line, &found)) {
      return lines.Next(&line) && line.find(':') != line.npos
                 ? std::optional(Kind::kXmc)
                 : std::nullopt;
    }
    for (int looked_at = 0; looked_at < 20; ++looked_at) {
      const std::string_view row = line.substr(0, line.find('#'));
      if (row.find(':') != row.npos) {
        return ReadRow(row, &found).empty() ? std::optional(Kind::kSvmlight)
                                            : std::nullopt;
      }
      if (!lines.Next(&line)) break;
    }
  } catch (const IoError&) {
    // Not text, or not compressed as we know it.
  }
  return std::nullopt;
}

void Scan(const std::string& path, Kind kind, Found* found) {
  TextInput lines(path);
  std::string_view line;
  if (kind == Kind::kXmc && lines.Next(&line)) ReadHeader(line, found);
  while (lines.Next(&line)) {
    if (kind == Kind::kSvmlight) {
      line = line.substr(0, line.find('#'));
      if (line.find_first_not_of(" \t") == line.npos) continue;
    } else if (line.empty()) {
      continue;
    }
    ++found->rows;
    const std::string wrong = ReadRow(line, found);
    if (wrong.empty() || ++found->bad > 1) continue;
    found->first_bad =
        fmt::format("{}:{}: found {}", path, lines.line(), wrong);
  }
}

// Ids start at 0 when one is 0. Otherwise at 1 when there are as many as the
// header says, or when nothing says how many there are.
int64_t BaseOf(const Ids& ids, int64_t promised) {
  if (ids.least == 0) return 0;
  return promised == 0 || ids.most == promised ? 1 : 0;
}

std::string BaseNote(std::string_view what, const Ids& ids, int64_t base) {
  return fmt::format(
      "{} start at {}: the smallest is {}, the largest {}{}", what, base,
      ids.least, ids.most,
      ids.least == 0 ? "" : "; if that is wrong, change it in the spec");
}

Discovery Describe(Kind kind, Found found) {
  if (found.bad > 0) {
    throw IoError(
        fmt::format("{}; {} of {} cannot be read: mend or remove them",
                    found.first_bad, found.bad, CountOf(found.rows, "row")));
  }
  const bool sign = found.negative;
  if (sign && (found.others || found.several)) {
    throw IoError(
        "labels: found -1 among other numbers than 1; expected classes 0, 1, "
        "..., or -1 and 1");
  }
  Discovery discovery;
  Json& spec = discovery.spec = Json::Object();
  const int64_t base = BaseOf(found.features, found.promised_features);
  const int64_t label_base =
      sign ? 0 : BaseOf(found.labels, found.promised_labels);
  spec.Set("features",
           std::max(found.promised_features, found.features.most - base + 1));
  spec.Set("classes", sign ? int64_t{2}
                           : std::max(found.promised_labels,
                                      found.labels.most - label_base + 1));
  spec.Set("base", base);
  spec.Set("label_base", label_base);
  const bool several = found.several || kind == Kind::kXmc;
  spec.Set("labels", sign ? "sign" : several ? "several" : "one");
  discovery.notes.push_back(BaseNote("features", found.features, base));
  if (!sign) {
    discovery.notes.push_back(BaseNote("labels", found.labels, label_base));
  }
  return discovery;
}

std::optional<Discovery> Discover(const std::string& path, Kind kind) {
  const bool is_folder = fs::is_directory(path);
  if (!is_folder && KindOf(path) != kind) return std::nullopt;
  std::vector<std::string> names;
  std::vector<std::string> others;
  for (const std::string& file : FilesAt(path)) {
    if (KindOf(file) != kind) continue;
    names.push_back(fs::path(file).filename().string());
    others.push_back(ReadName(names.back()).other);
  }
  if (names.empty()) return std::nullopt;
  const std::string wanted = TheDataSet(path, others);
  const std::string root = RootOf(path);
  Found found;
  std::map<Split, std::string> splits;
  for (size_t i = 0; i < names.size(); ++i) {
    if (others[i] != wanted) continue;
    const Split split = ReadName(names[i]).split;
    if (splits.contains(split)) {
      throw IoError(fmt::format(
          "{}: found {} and {} for the {} split; expected one file of each",
          root, splits[split], names[i], SplitName(split)));
    }
    splits[split] = names[i];
    Scan(root + "/" + names[i], kind, &found);
  }
  if (!splits.contains(Split::kTrain)) {
    throw IoError(fmt::format("{}: found {} only; expected a training file",
                              root, splits.begin()->second));
  }
  if (found.labels.most < 0 && !found.negative) return std::nullopt;
  Discovery discovery = Describe(kind, found);
  Json spec = Json::Object();
  spec.Set("root", root);
  for (const auto& [split, name] : splits) spec.Set(SplitName(split), name);
  for (const auto& [key, value] : discovery.spec.members()) {
    spec.Set(key, value);
  }
  discovery.spec = std::move(spec);
  return discovery;
}

}  // namespace

std::optional<Discovery> DiscoverSvmlight(const std::string& path) {
  return Discover(path, Kind::kSvmlight);
}

std::optional<Discovery> DiscoverXmc(const std::string& path) {
  return Discover(path, Kind::kXmc);
}

}  // namespace lumen::data
