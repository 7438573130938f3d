// SPDX-License-Identifier: Apache-2.0
#include "data/sparse_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>

#include "data/text_input.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

// Whole numbers below 10^7 are exact in float.
constexpr int64_t kShortDigits = 8;

constexpr size_t kMaxQuote = 24;  // characters of the file in a message

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

bool IsBlank(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsBlank(c); });
}

// Is this line a sample?
bool IsSample(SparseTextFormat::Kind kind, std::string_view line) {
  return kind == SparseTextFormat::kXmc ? !line.empty() : !IsBlank(line);
}

std::string_view WithoutComment(SparseTextFormat::Kind kind,
                                std::string_view line) {
  if (kind == SparseTextFormat::kXmc) return line;
  return line.substr(0, line.find('#'));
}

class Parser {
 public:
  Parser(const std::string& path, const SparseTextFormat& format)
      : path_(path), format_(format), lines_(path) {}

  SparseTable Read(const SparseTextSize& size) {
    table_.row_start.reserve(static_cast<size_t>(size.samples) + 1);
    table_.index.reserve(static_cast<size_t>(size.entries));
    table_.value.reserve(static_cast<size_t>(size.entries));
    table_.label.reserve(static_cast<size_t>(size.labels));
    if (format_.labels == SparseTextFormat::kSeveral) {
      table_.label_start.reserve(static_cast<size_t>(size.samples) + 1);
    }
    const bool has_header = format_.kind == SparseTextFormat::kXmc;
    const int64_t promised = has_header ? Header() : -1;
    std::string_view line;
    while (lines_.Next(&line)) {
      line = WithoutComment(format_.kind, line);
      if (!IsSample(format_.kind, line)) continue;
      if (has_header && table_.samples() == promised) {
        Fail("another row", fmt::format("the {} rows of line 1", promised));
      }
      begin_ = at_ = line.data();
      end_ = at_ + line.size();
      Row();
    }
    if (has_header && table_.samples() < promised) {
      throw IoError(fmt::format(
          "{}: ends after {} rows; expected {}, as line 1 says; cut short?",
          path_, table_.samples(), promised));
    }
    return std::move(table_);
  }

 private:
  [[noreturn]] void Fail(const std::string& found,
                         const std::string& expected) const {
    throw IoError(fmt::format("{}: found {}; expected {}", lines_.where(),
                              found, expected));
  }

  // The word at the place of an error, for messages.
  std::string Word(const char* from) const {
    const char* to = from;
    while (to != end_ && !IsBlank(*to)) ++to;
    const std::string_view word(from, static_cast<size_t>(to - from));
    return word.size() <= kMaxQuote
               ? fmt::format("\"{}\"", word)
               : fmt::format("\"{}...\"", word.substr(0, kMaxQuote));
  }

  void SkipBlanks() {
    while (at_ != end_ && IsBlank(*at_)) ++at_;
  }

  // Digits as a number, at most kShortDigits of them; how many there were.
  static int64_t Digits(const char* from, const char* end, uint32_t* number) {
    const char* at = from;
    end = std::min(end, from + kShortDigits);
    for (; at != end && *at >= '0' && *at <= '9'; ++at) {
      *number = 10 * *number + static_cast<uint32_t>(*at - '0');
    }
    return at - from;
  }

  // False when no integer is here, or one beyond int64.
  bool Integer(int64_t* number) {
    uint32_t small = 0;
    const int64_t digits = Digits(at_, end_, &small);
    if (digits > 0 && digits < kShortDigits) {
      *number = small;
      at_ += digits;
      return true;
    }
    const char* from = at_;
    if (from != end_ && *from == '+') ++from;
    const auto [to, error] = std::from_chars(from, end_, *number);
    if (error != std::errc() || (from != at_ && *from == '-')) return false;
    at_ = to;
    return true;
  }

  // False when no number is here, or one that float cannot hold.
  bool Value(float* value) {
    // "1", by far the most frequent value.
    uint32_t small = 0;
    const int64_t digits = Digits(at_, end_, &small);
    if (digits > 0 && digits < kShortDigits &&
        (at_ + digits == end_ || IsBlank(at_[digits]))) {
      *value = static_cast<float>(small);
      at_ += digits;
      return true;
    }
    const char* from = at_;
    if (from != end_ && *from == '+') ++from;
    if (from == end_ || (from != at_ && *from == '-')) return false;
    auto [to, error] = std::from_chars(from, end_, *value);
    if (error == std::errc::result_out_of_range) {
      // Too small is fine.
      double wide = 0;
      const auto [wide_to, wide_error] = std::from_chars(from, end_, wide);
      if (wide_error != std::errc() || std::abs(wide) > 1) return false;
      *value = static_cast<float>(wide);
      to = wide_to;
    } else if (error != std::errc()) {
      return false;
    }
    at_ = to;
    return std::isfinite(*value);
  }

  int64_t Header() {
    std::string_view line;
    if (!lines_.Next(&line)) {
      throw IoError(path_ + ": is empty; expected \"samples features labels\"");
    }
    begin_ = at_ = line.data();
    end_ = at_ + line.size();
    int64_t sizes[3];
    for (int64_t& size : sizes) {
      SkipBlanks();
      if (!Integer(&size) || size < 0 || (at_ != end_ && !IsBlank(*at_))) {
        Fail(Word(begin_), "the header \"samples features labels\"");
      }
    }
    SkipBlanks();
    if (at_ != end_) Fail(Word(at_), "three numbers in the header");
    if (sizes[1] != format_.features) {
      Fail(fmt::format("{} features", sizes[1]),
           fmt::format("{}, as data.features says", format_.features));
    }
    if (sizes[2] != format_.classes) {
      Fail(fmt::format("{} labels", sizes[2]),
           fmt::format("{}, as data.classes says", format_.classes));
    }
    return sizes[0];
  }

  void Row() {
    Labels();
    for (;;) {
      SkipBlanks();
      if (at_ == end_) break;
      Entry();
    }
    const auto first = static_cast<size_t>(table_.row_start.back());
    if (!ascending_) SortEntries(first);
    ascending_ = true;
    table_.row_start.push_back(std::ssize(table_.index));
  }

  void Entry() {
    const char* from = at_;
    int64_t index = 0;
    if (!Integer(&index) || at_ == end_ || *at_ != ':') {
      if (std::string_view(from, end_).starts_with("qid:")) {
        Fail(Word(from), "index:value; groups of queries are not supported");
      }
      Fail(Word(from), "index:value");
    }
    ++at_;
    index -= format_.base;
    if (index < 0 || index >= format_.features) {
      Fail(fmt::format("index {}", index + format_.base),
           fmt::format("{} to {}: data.features is {}, data.base {}",
                       format_.base, format_.features - 1 + format_.base,
                       format_.features, format_.base));
    }
    float value = 0;
    if (!Value(&value) || (at_ != end_ && !IsBlank(*at_))) {
      Fail(Word(from), "index:value with a finite number");
    }
    const auto narrow = static_cast<int32_t>(index);
    const bool first = table_.row_start.back() == std::ssize(table_.index);
    ascending_ &= first || table_.index.back() < narrow;
    table_.index.push_back(narrow);
    table_.value.push_back(value);
  }

  void SortEntries(size_t first) {
    const auto index = std::span(table_.index).subspan(first);
    const auto value = std::span(table_.value).subspan(first);
    std::vector<size_t> order(index.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return index[i]; });
    const std::vector<int32_t> old_index(index.begin(), index.end());
    const std::vector<float> old_value(value.begin(), value.end());
    for (size_t i = 0; i < order.size(); ++i) {
      index[i] = old_index[order[i]];
      value[i] = old_value[order[i]];
    }
    const auto twice = std::ranges::adjacent_find(index);
    if (twice != index.end()) {
      Fail(fmt::format("index {} twice", *twice + format_.base),
           "each index once in a row");
    }
  }

  void Labels() {
    const size_t first = table_.label.size();
    const bool none = at_ == end_ || IsBlank(*at_);
    for (bool more = !none; more;) {
      const char* from = at_;
      int64_t label = 0;
      const bool found = Integer(&label);
      more = found && at_ != end_ && *at_ == ',';
      if (!found || (!more && at_ != end_ && !IsBlank(*at_))) {
        Fail(Word(from), found && *at_ == ':'
                             ? "labels first; a row without any starts with a "
                               "blank"
                             : "an integer label");
      }
      if (more) ++at_;
      table_.label.push_back(Label(label));
    }
    if (format_.labels == SparseTextFormat::kSeveral) {
      SortLabels(first);
      table_.label_start.push_back(std::ssize(table_.label));
    } else if (table_.label.size() - first != 1) {
      Fail(none ? "no label"
                : fmt::format("{} labels", table_.label.size() - first),
           "one; with data.labels=several a row has any number");
    }
  }

  int32_t Label(int64_t label) const {
    if (format_.labels == SparseTextFormat::kSign) {
      if (label != 1 && label != -1) {
        Fail(fmt::format("label {}", label), "-1 or 1: data.labels is sign");
      }
      return label > 0 ? 1 : 0;
    }
    const int64_t inside = label - format_.label_base;
    if (inside < 0 || inside >= format_.classes) {
      Fail(fmt::format("label {}", label),
           fmt::format("{} to {}: data.classes is {}, data.label_base {}",
                       format_.label_base,
                       format_.classes - 1 + format_.label_base,
                       format_.classes, format_.label_base));
    }
    return static_cast<int32_t>(inside);
  }

  void SortLabels(size_t first) {
    const auto labels = std::span(table_.label).subspan(first);
    std::ranges::sort(labels);
    const auto twice = std::ranges::adjacent_find(labels);
    if (twice != labels.end()) {
      Fail(fmt::format("label {} twice", *twice + format_.label_base),
           "each label once in a row");
    }
  }

  std::string path_;
  SparseTextFormat format_;
  TextInput lines_;
  SparseTable table_;
  const char* begin_ = nullptr;  // of the line
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  bool ascending_ = true;  // the entries of the row so far
};

}  // namespace

SparseTextSize MeasureSparseText(const std::string& path,
                                 const SparseTextFormat& format) {
  SparseTextSize size;
  TextInput lines(path);
  std::string_view line;
  if (format.kind == SparseTextFormat::kXmc) lines.Next(&line);
  while (lines.Next(&line)) {
    line = WithoutComment(format.kind, line);
    if (!IsSample(format.kind, line)) continue;
    const int64_t entries = std::ranges::count(line, ':');
    const std::string_view labels =
        line.substr(0, std::min(line.find_first_of(" \t"), line.size()));
    const int64_t set =
        labels.empty() ? 0 : std::ranges::count(labels, ',') + 1;
    ++size.samples;
    size.entries += entries;
    size.labels += set;
    size.largest_row = std::max(size.largest_row, entries);
    size.largest_set = std::max(size.largest_set, set);
  }
  return size;
}

SparseTable ReadSparseText(const std::string& path,
                           const SparseTextFormat& format) {
  const SparseTextSize size = MeasureSparseText(path, format);
  return Parser(path, format).Read(size);
}

}  // namespace lumen::data
