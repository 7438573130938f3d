// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/json.h"

#include <glog/logging.h>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "lumen/core/error.h"

namespace lumen {
namespace {

namespace bj = boost::json;

// Receives the parser's events and builds the tree. The text is fed line by
// line, so `line` is where an event happens.
class Handler {
 public:
  static constexpr size_t max_object_size = size_t(-1);
  static constexpr size_t max_array_size = size_t(-1);
  static constexpr size_t max_key_size = size_t(-1);
  static constexpr size_t max_string_size = size_t(-1);

  bool on_document_begin(bj::error_code&) { return true; }
  bool on_document_end(bj::error_code&) { return true; }
  bool on_object_begin(bj::error_code&) { return Open(Json::Object()); }
  bool on_object_end(size_t, bj::error_code&) { return Close(); }
  bool on_array_begin(bj::error_code&) { return Open(Json::Array()); }
  bool on_array_end(size_t, bj::error_code&) { return Close(); }
  bool on_key_part(bj::string_view part, size_t, bj::error_code&) {
    partial_.append(part.data(), part.size());
    return true;
  }
  bool on_key(bj::string_view part, size_t, bj::error_code& ec) {
    partial_.append(part.data(), part.size());
    if (stack_.back().Find(partial_) != nullptr) {
      problem = "duplicate key \"" + partial_ + "\"";
      ec = bj::make_error_code(bj::error::syntax);
      return false;
    }
    keys_.push_back(std::exchange(partial_, {}));
    return true;
  }
  bool on_string_part(bj::string_view part, size_t, bj::error_code&) {
    partial_.append(part.data(), part.size());
    return true;
  }
  bool on_string(bj::string_view part, size_t, bj::error_code&) {
    partial_.append(part.data(), part.size());
    return Add(Json(std::exchange(partial_, {})));
  }
  bool on_number_part(bj::string_view, bj::error_code&) { return true; }
  bool on_int64(int64_t value, bj::string_view, bj::error_code&) {
    return Add(Json(value));
  }
  bool on_uint64(uint64_t value, bj::string_view, bj::error_code& ec) {
    problem = "integer " + std::to_string(value) + " is beyond 64 bits";
    ec = bj::make_error_code(bj::error::not_exact);
    return false;
  }
  bool on_double(double value, bj::string_view, bj::error_code& ec) {
    if (std::isfinite(value)) return Add(Json(value));
    problem = "number is too large";
    ec = bj::make_error_code(bj::error::not_exact);
    return false;
  }
  bool on_bool(bool value, bj::error_code&) { return Add(Json(value)); }
  bool on_null(bj::error_code&) { return Add(Json()); }
  bool on_comment_part(bj::string_view, bj::error_code&) { return true; }
  bool on_comment(bj::string_view, bj::error_code&) { return true; }

  std::string source;
  std::string problem;  // better than the parser's words, when not empty
  int line = 1;
  Json root;

 private:
  bool Open(Json value) {
    value.set_source(source, line);
    stack_.push_back(std::move(value));
    return true;
  }
  bool Close() {
    Json value = std::move(stack_.back());
    stack_.pop_back();
    return Place(std::move(value));
  }
  bool Add(Json value) {
    value.set_source(source, line);
    return Place(std::move(value));
  }
  bool Place(Json value) {
    if (stack_.empty()) {
      root = std::move(value);
    } else if (stack_.back().is_array()) {
      stack_.back().Append(std::move(value));
    } else {
      stack_.back().Set(keys_.back(), std::move(value));
      keys_.pop_back();
    }
    return true;
  }

  std::vector<Json> stack_;
  std::vector<std::string> keys_;
  std::string partial_;
};

void AppendText(const std::string& text, std::string* out) {
  *out += bj::serialize(bj::string_view(text));
}

void AppendNumber(double value, std::string* out) {
  if (!std::isfinite(value)) {
    *out += "null";
    return;
  }
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  out->append(text, end);
  // Keep it a number that is not an integer when read again.
  if (std::string_view(text, end).find_first_of(".e") ==
      std::string_view::npos) {
    *out += ".0";
  }
}

bool IsScalar(const Json& value) {
  return !value.is_array() && !value.is_object();
}

void Append(const Json& value, int indent, int depth, std::string* out);

void NewLine(int indent, int depth, std::string* out) {
  if (indent == 0) return;
  *out += '\n';
  out->append(static_cast<size_t>(indent * depth), ' ');
}

void AppendArray(const Json& value, int indent, int depth, std::string* out) {
  bool flat = true;
  for (const Json& item : value.items()) flat &= IsScalar(item);
  *out += '[';
  bool first = true;
  for (const Json& item : value.items()) {
    if (!first) *out += flat ? ", " : ",";
    first = false;
    if (!flat) NewLine(indent, depth + 1, out);
    Append(item, indent, depth + 1, out);
  }
  if (!flat) NewLine(indent, depth, out);
  *out += ']';
}

void AppendObject(const Json& value, int indent, int depth, std::string* out) {
  *out += '{';
  bool first = true;
  for (const auto& [key, member] : value.members()) {
    if (!first) *out += indent ? "," : ", ";
    first = false;
    NewLine(indent, depth + 1, out);
    AppendText(key, out);
    *out += ": ";
    Append(member, indent, depth + 1, out);
  }
  if (!first) NewLine(indent, depth, out);
  *out += '}';
}

void Append(const Json& value, int indent, int depth, std::string* out) {
  switch (value.kind()) {
    case Json::Kind::kNull:
      *out += "null";
      break;
    case Json::Kind::kBool:
      *out += value.boolean() ? "true" : "false";
      break;
    case Json::Kind::kInteger:
      *out += std::to_string(value.integer());
      break;
    case Json::Kind::kNumber:
      AppendNumber(value.number(), out);
      break;
    case Json::Kind::kText:
      AppendText(value.text(), out);
      break;
    case Json::Kind::kArray:
      AppendArray(value, indent, depth, out);
      break;
    case Json::Kind::kObject:
      AppendObject(value, indent, depth, out);
      break;
  }
}

}  // namespace

Json Json::Array() {
  Json json;
  json.kind_ = Kind::kArray;
  return json;
}

Json Json::Object() {
  Json json;
  json.kind_ = Kind::kObject;
  return json;
}

Json Json::Parse(std::string_view text, const std::string& source) {
  bj::parse_options options;
  options.allow_comments = true;
  options.allow_trailing_commas = true;
  options.max_depth = 64;
  bj::basic_parser<Handler> parser(options);
  Handler& handler = parser.handler();
  handler.source = source;
  bj::error_code ec;
  size_t begin = 0;
  do {
    const size_t newline = text.find('\n', begin);
    const size_t end =
        newline == std::string_view::npos ? text.size() : newline + 1;
    const bool more = end < text.size();
    const size_t read =
        parser.write_some(more, text.data() + begin, end - begin, ec);
    if (!ec && read < end - begin) ec = bj::error::extra_data;
    if (ec) break;
    begin = end;
    if (more) ++handler.line;
  } while (begin < text.size());
  if (ec) {
    throw SpecError(source + ":" + std::to_string(handler.line) + ": " +
                    (handler.problem.empty() ? ec.message() + "; expected JSON"
                                             : handler.problem));
  }
  return std::move(handler.root);
}

Json Json::ParseFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(path + ": cannot be opened for reading");
  std::ostringstream text;
  text << file.rdbuf();
  return Parse(text.str(), path);
}

bool Json::boolean() const {
  CHECK(kind_ == Kind::kBool) << KindName(kind_);
  return integer_ != 0;
}

int64_t Json::integer() const {
  CHECK(kind_ == Kind::kInteger) << KindName(kind_);
  return integer_;
}

double Json::number() const {
  if (kind_ == Kind::kInteger) return static_cast<double>(integer_);
  CHECK(kind_ == Kind::kNumber) << KindName(kind_);
  return number_;
}

const std::string& Json::text() const {
  CHECK(kind_ == Kind::kText) << KindName(kind_);
  return text_;
}

const std::vector<Json>& Json::items() const {
  CHECK(kind_ == Kind::kArray) << KindName(kind_);
  return items_;
}

std::vector<Json>& Json::mutable_items() {
  CHECK(kind_ == Kind::kArray) << KindName(kind_);
  return items_;
}

const std::vector<Json::Member>& Json::members() const {
  CHECK(kind_ == Kind::kObject) << KindName(kind_);
  return members_;
}

const Json* Json::Find(std::string_view key) const {
  CHECK(kind_ == Kind::kObject) << KindName(kind_);
  for (const Member& member : members_) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json* Json::Find(std::string_view key) {
  return const_cast<Json*>(std::as_const(*this).Find(key));
}

const Json& Json::at(std::string_view key) const {
  const Json* found = Find(key);
  CHECK(found != nullptr) << "no key \"" << key << "\"";
  return *found;
}

void Json::Set(std::string_view key, Json value) {
  if (Json* found = Find(key)) {
    *found = std::move(value);
  } else {
    members_.emplace_back(std::string(key), std::move(value));
  }
}

void Json::Erase(std::string_view key) {
  std::erase_if(members_, [&](const Member& m) { return m.first == key; });
}

void Json::Append(Json value) {
  CHECK(kind_ == Kind::kArray) << KindName(kind_);
  items_.push_back(std::move(value));
}

std::string Json::where() const {
  return line_ > 0 ? source_ + ":" + std::to_string(line_) : source_;
}

void Json::set_source(std::string source, int line) {
  source_ = std::move(source);
  line_ = line;
}

void Json::SetSourceDeep(const std::string& source, int line) {
  set_source(source, line);
  for (Json& item : items_) item.SetSourceDeep(source, line);
  for (Member& member : members_) member.second.SetSourceDeep(source, line);
}

std::string Json::Dump(int indent) const {
  std::string out;
  lumen::Append(*this, indent, 0, &out);
  if (indent > 0) out += '\n';
  return out;
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
  return "";
}

}  // namespace lumen
