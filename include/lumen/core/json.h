// SPDX-License-Identifier: Apache-2.0
// A JSON value that remembers the line it came from, so that every later check
// can say file:line. Boost.JSON does the parsing and stays inside json.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lumen {

class Json {
 public:
  enum class Kind { kNull, kBool, kInteger, kNumber, kText, kArray, kObject };
  using Member = std::pair<std::string, Json>;

  Json() = default;                                                // null
  Json(bool value) : kind_(Kind::kBool), integer_(value) {}        // NOLINT
  Json(int value) : Json(int64_t{value}) {}                        // NOLINT
  Json(int64_t value) : kind_(Kind::kInteger), integer_(value) {}  // NOLINT
  Json(double value) : kind_(Kind::kNumber), number_(value) {}     // NOLINT
  Json(std::string value) : kind_(Kind::kText), text_(std::move(value)) {}
  Json(const char* value) : Json(std::string(value)) {}  // NOLINT
  static Json Array();
  static Json Object();

  // Reads strict JSON, plus comments and trailing commas. Duplicate keys,
  // numbers beyond int64 or double, more than 64 levels and anything after the
  // value are errors. A number with neither point nor exponent is an integer.
  // Throws SpecError "source:line: ...". `source` names the text in errors.
  static Json Parse(std::string_view text, const std::string& source);
  // Throws IoError when the file cannot be read.
  static Json ParseFile(const std::string& path);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_array() const { return kind_ == Kind::kArray; }

  // REQUIRES (CHECKed): the value is of that kind; number() also takes
  // integers.
  bool boolean() const;
  int64_t integer() const;
  double number() const;
  const std::string& text() const;
  const std::vector<Json>& items() const;      // of an array
  const std::vector<Member>& members() const;  // of an object, in file order
  std::vector<Json>& mutable_items();

  // Objects. Find returns nullptr when the key is absent; at() CHECKs.
  const Json* Find(std::string_view key) const;
  Json* Find(std::string_view key);
  const Json& at(std::string_view key) const;
  // Replaces or appends; keeps the order of first insertion.
  void Set(std::string_view key, Json value);
  void Erase(std::string_view key);
  void Append(Json value);  // arrays

  // "file.json:14", "command line", or "" for a value made by the program.
  std::string where() const;
  void set_source(std::string source, int line);  // line 0: none
  // This value and all inside it come from where `other` came from.
  void set_source_like(const Json& other);

  // One line when indent is 0, otherwise pretty printed with a final newline,
  // arrays of scalars on one line. Numbers are written in the shortest form
  // that reads back to the same bits and the same kind ("1.0" stays a number);
  // non-finite numbers become null (JSON has none). REQUIRES: text is UTF-8
  // for the result to be JSON.
  std::string Dump(int indent = 0) const;

  // Name of the kind for messages: "an integer", "an object", ...
  static std::string KindName(Kind kind);

 private:
  Kind kind_ = Kind::kNull;
  int64_t integer_ = 0;
  double number_ = 0;
  std::string text_;
  std::vector<Json> items_;
  std::vector<Member> members_;
  std::string source_;
  int line_ = 0;
};

}  // namespace lumen
