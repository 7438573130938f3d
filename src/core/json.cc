// SPDX-License-Identifier: Apache-2.0
// Boost.JSON's push parser is fed line by line, so that each of its callbacks
// knows the line it was called for: the finished values of Boost.JSON do not.
#include "lumen/core/json.h"

#include <glog/logging.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <system_error>

#include "lumen/core/error.h"
#include "lumen/core/file.h"

namespace lumen {
namespace {

constexpr size_t kMaxDepth = 64;

// Builds the value; the interface is that of boost::json::basic_parser.
// Each callback returns true to go on.
class Builder {
 public:
  using Code = boost::json::error_code;
  using View = boost::json::string_view;
  static constexpr size_t max_array_size = static_cast<size_t>(-1);
  static constexpr size_t max_object_size = static_cast<size_t>(-1);
  static constexpr size_t max_string_size = static_cast<size_t>(-1);
  static constexpr size_t max_key_size = static_cast<size_t>(-1);

  explicit Builder(const std::string& source) : source_(source) {}
  void set_line(int line) { line_ = line; }
  Json TakeRoot() { return std::move(root_); }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_array_begin(Code&) { return Open(Json::Array()); }
  bool on_array_end(size_t, Code&) { return Close(); }
  bool on_object_begin(Code&) { return Open(Json::Object()); }
  bool on_object_end(size_t, Code&) { return Close(); }
  bool on_key_part(View part, size_t, Code&) { return Collect(part); }
  bool on_key(View part, size_t, Code&) {
    Collect(part);
    if (const Json* first = open_.back().Find(text_)) {
      throw SpecError(Here() + "key \"" + text_ + "\" again, first seen at " +
                      first->where() + "; expected it once");
    }
    keys_.back() = std::move(text_);
    text_.clear();
    return true;
  }
  bool on_string_part(View part, size_t, Code&) { return Collect(part); }
  bool on_string(View part, size_t, Code&) {
    Collect(part);
    return Add(Json(std::exchange(text_, {})));
  }
  bool on_number_part(View part, Code&) { return Collect(part); }
  bool on_int64(int64_t, View part, Code&) { return AddNumber(part); }
  bool on_uint64(uint64_t, View part, Code&) { return AddNumber(part); }
  bool on_double(double, View part, Code&) { return AddNumber(part); }
  bool on_bool(bool value, Code&) { return Add(Json(value)); }
  bool on_null(Code&) { return Add(Json()); }
  bool on_comment_part(View, Code&) { return true; }
  bool on_comment(View, Code&) { return true; }

 private:
  std::string Here() const {
    return source_ + ":" + std::to_string(line_) + ": ";
  }

  bool Collect(View part) {
    text_.append(part.data(), part.size());
    return true;
  }

  // From the text itself: Boost.JSON's own conversion may miss the nearest
  // double by one, and turns large integers into doubles.
  bool AddNumber(View part) {
    Collect(part);
    const std::string text = std::exchange(text_, {});
    const char* begin = text.data();
    const char* end = begin + text.size();
    if (text.find_first_of(".eE") == std::string::npos) {
      int64_t value = 0;
      if (std::from_chars(begin, end, value).ec != std::errc()) {
        throw SpecError(Here() + "integer " + text +
                        "; expected one of at most 64 bits with sign");
      }
      return Add(Json(value));
    }
    double value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc()) {
      throw SpecError(Here() + "number " + text +
                      "; expected one within the range of a double");
    }
    return Add(Json(value));
  }

  bool Open(Json value) {
    value.set_source(source_, line_);
    open_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }

  bool Close() {
    Json value = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return Place(std::move(value));
  }

  bool Add(Json value) {
    value.set_source(source_, line_);
    return Place(std::move(value));
  }

  bool Place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().Append(std::move(value));
    } else {
      open_.back().Set(keys_.back(), std::move(value));
    }
    return true;
  }

  const std::string& source_;
  int line_ = 1;
  std::string text_;  // of a string, key or number so far
  std::vector<Json> open_;
  std::vector<std::string> keys_;  // the current key of each open object
  Json root_;
};

// What the parser stopped at, for the message.
std::string Snippet(std::string_view line, size_t column) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) {
    line.remove_suffix(1);
  }
  if (column >= line.size()) return "the end of the line";
  constexpr size_t kLength = 20;
  size_t end = std::min(column + kLength, line.size());
  // Never half a character.
  while (end < line.size() && (line[end] & 0xc0) == 0x80) ++end;
  std::string text(line.substr(column, end - column));
  if (end < line.size()) text += "...";
  return "'" + text + "'";
}

std::string ErrorMeaning(const boost::json::error_code& code) {
  using boost::json::error;
  if (code == error::syntax) {
    return "expected JSON; is a comma, a quote or a bracket missing just "
           "before?";
  }
  if (code == error::too_deep) {
    return "expected at most " + std::to_string(kMaxDepth) + " levels";
  }
  return "expected JSON (" + code.message() + ")";
}

}  // namespace

Json Json::Array() {
  Json value;
  value.kind_ = Kind::kArray;
  return value;
}

Json Json::Object() {
  Json value;
  value.kind_ = Kind::kObject;
  return value;
}

Json Json::Parse(std::string_view text, const std::string& source) {
  // Some editors begin a file with a byte order mark (RFC 8259, section 8.1).
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  options.allow_comments = true;
  options.allow_trailing_commas = true;
  boost::json::basic_parser<Builder> parser(options, source);
  int line_number = 1;
  while (true) {
    const size_t newline = text.find('\n');
    const bool last = newline >= text.size() || newline + 1 == text.size();
    const std::string_view line = last ? text : text.substr(0, newline + 1);
    parser.handler().set_line(line_number);
    boost::json::error_code code;
    const size_t read =
        parser.write_some(!last, line.data(), line.size(), code);
    const std::string here = source + ":" + std::to_string(line_number) + ": ";
    if (code == boost::json::error::incomplete) {
      throw SpecError(here +
                      "the text ends inside a value; expected the rest of it; "
                      "is a bracket or a quote missing?");
    }
    if (code) {
      throw SpecError(here + "found " + Snippet(line, read) + " in column " +
                      std::to_string(read + 1) + "; " + ErrorMeaning(code));
    }
    if (read < line.size()) {
      throw SpecError(here + "found " + Snippet(line, read) +
                      " after the value; expected nothing more");
    }
    if (last) return parser.handler().TakeRoot();
    text.remove_prefix(line.size());
    ++line_number;
  }
}

Json Json::ParseFile(const std::string& path) {
  return Parse(ReadFile(path), path);
}

bool Json::boolean() const {
  CHECK(kind_ == Kind::kBool) << "not a bool but " << KindName(kind_);
  return integer_ != 0;
}

int64_t Json::integer() const {
  CHECK(kind_ == Kind::kInteger) << "not an integer but " << KindName(kind_);
  return integer_;
}

double Json::number() const {
  if (kind_ == Kind::kInteger) return static_cast<double>(integer_);
  CHECK(kind_ == Kind::kNumber) << "not a number but " << KindName(kind_);
  return number_;
}

const std::string& Json::text() const {
  CHECK(kind_ == Kind::kText) << "not a text but " << KindName(kind_);
  return text_;
}

const std::vector<Json>& Json::items() const {
  CHECK(is_array()) << "not an array but " << KindName(kind_);
  return items_;
}

std::vector<Json>& Json::mutable_items() {
  CHECK(is_array()) << "not an array but " << KindName(kind_);
  return items_;
}

const std::vector<Json::Member>& Json::members() const {
  CHECK(is_object()) << "not an object but " << KindName(kind_);
  return members_;
}

const Json* Json::Find(std::string_view key) const {
  CHECK(is_object()) << "not an object but " << KindName(kind_);
  for (const Member& member : members_) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json* Json::Find(std::string_view key) {
  return const_cast<Json*>(std::as_const(*this).Find(key));
}

const Json& Json::at(std::string_view key) const {
  const Json* value = Find(key);
  CHECK(value != nullptr) << "no key " << key << " in " << Dump();
  return *value;
}

void Json::Set(std::string_view key, Json value) {
  if (Json* old = Find(key)) {
    *old = std::move(value);
  } else {
    members_.emplace_back(std::string(key), std::move(value));
  }
}

void Json::Erase(std::string_view key) {
  CHECK(is_object()) << "not an object but " << KindName(kind_);
  std::erase_if(members_, [&](const Member& m) { return m.first == key; });
}

void Json::Append(Json value) {
  CHECK(is_array()) << "not an array but " << KindName(kind_);
  items_.push_back(std::move(value));
}

std::string Json::where() const {
  return line_ == 0 ? source_ : source_ + ":" + std::to_string(line_);
}

void Json::set_source(std::string source, int line) {
  source_ = std::move(source);
  line_ = line;
}

void Json::set_source_like(const Json& other) {
  source_ = other.source_;
  line_ = other.line_;
  for (Json& item : items_) item.set_source_like(other);
  for (Member& member : members_) member.second.set_source_like(other);
}

std::string Json::KindName(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "true or false";
    case Kind::kInteger:
      return "an integer";
    case Kind::kNumber:
      return "a number";
    case Kind::kText:
      return "a text";
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "?";
}

}  // namespace lumen
