// SPDX-License-Identifier: Apache-2.0
// Writing JSON.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "lumen/core/json.h"

namespace lumen {
namespace {

void DumpText(const std::string& text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"':
      case '\\':
        out->push_back('\\');
        out->push_back(c);
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          constexpr char kDigits[] = "0123456789abcdef";
          *out += "\\u00";
          out->push_back(kDigits[c >> 4]);
          out->push_back(kDigits[c & 15]);
        } else {
          out->push_back(c);
        }
    }
  }
  out->push_back('"');
}

void DumpNumber(double value, std::string* out) {
  if (!std::isfinite(value)) {
    *out += "null";
    return;
  }
  char text[32];
  const char* end = std::to_chars(text, text + sizeof(text), value).ptr;
  const std::string_view digits(text, static_cast<size_t>(end - text));
  *out += digits;
  if (digits.find_first_of(".e") == digits.npos) *out += ".0";
}

bool IsScalar(const Json& value) {
  return !value.is_array() && !value.is_object();
}

void NewLine(int indent, int depth, std::string* out) {
  if (indent == 0) return;
  out->push_back('\n');
  out->append(static_cast<size_t>(indent) * static_cast<size_t>(depth), ' ');
}

void DumpValue(const Json& value, int indent, int depth, std::string* out) {
  switch (value.kind()) {
    case Json::Kind::kNull:
      *out += "null";
      return;
    case Json::Kind::kBool:
      *out += value.boolean() ? "true" : "false";
      return;
    case Json::Kind::kInteger:
      *out += std::to_string(value.integer());
      return;
    case Json::Kind::kNumber:
      DumpNumber(value.number(), out);
      return;
    case Json::Kind::kText:
      DumpText(value.text(), out);
      return;
    case Json::Kind::kArray: {
      const auto& items = value.items();
      const bool flat = std::all_of(items.begin(), items.end(), IsScalar);
      out->push_back('[');
      for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) *out += indent > 0 && flat ? ", " : ",";
        if (!flat) NewLine(indent, depth + 1, out);
        DumpValue(items[i], indent, depth + 1, out);
      }
      if (!flat) NewLine(indent, depth, out);
      out->push_back(']');
      return;
    }
    case Json::Kind::kObject: {
      const auto& members = value.members();
      out->push_back('{');
      for (size_t i = 0; i < members.size(); ++i) {
        if (i > 0) out->push_back(',');
        NewLine(indent, depth + 1, out);
        DumpText(members[i].first, out);
        *out += indent > 0 ? ": " : ":";
        DumpValue(members[i].second, indent, depth + 1, out);
      }
      if (!members.empty()) NewLine(indent, depth, out);
      out->push_back('}');
      return;
    }
  }
}

}  // namespace

std::string Json::Dump(int indent) const {
  std::string out;
  DumpValue(*this, indent, 0, &out);
  if (indent > 0) out.push_back('\n');
  return out;
}

}  // namespace lumen
