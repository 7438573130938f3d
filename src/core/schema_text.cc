// SPDX-License-Identifier: Apache-2.0
// What a schema says in text: the mathematical digest and the field reference.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "lumen/core/schema.h"

namespace lumen {
namespace {

void AppendLines(const Json& value, const std::string& path, std::string* out) {
  if (value.is_object()) {
    for (const auto& [name, member] : value.members()) {
      AppendLines(member, path + "." + name, out);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.items().size(); ++i) {
      AppendLines(value.items()[i], path + "[" + std::to_string(i) + "]", out);
    }
  } else {
    *out += path + "=" + value.Dump() + "\n";
  }
}

void AppendObject(const Json& value, std::span<const Key> keys,
                  const std::string& path, std::string* out);

void AppendVariant(const Json& value, const Key& key, const std::string& path,
                   std::string* out) {
  if (!value.is_object()) return AppendLines(value, path, out);
  AppendLines(value.at("type"), path + ".type", out);
  AppendObject(value, key.common, path, out);
  for (const Variant& variant : key.variants()) {
    if (variant.type == value.at("type").text()) {
      AppendObject(value, variant.keys, path, out);
    }
  }
}

void AppendObject(const Json& value, std::span<const Key> keys,
                  const std::string& path, std::string* out) {
  for (const Key& key : keys) {
    const Json* member = value.Find(key.name);
    if (!key.mathematical || member == nullptr) continue;
    const std::string at = path.empty() ? std::string(key.name)
                                        : path + "." + std::string(key.name);
    if (key.kind == KeyKind::kObject && member->is_object()) {
      AppendObject(*member, key.keys, at, out);
    } else if (key.kind == KeyKind::kVariant) {
      AppendVariant(*member, key, at, out);
    } else if (key.kind == KeyKind::kVariants && member->is_array()) {
      for (size_t i = 0; i < member->items().size(); ++i) {
        AppendVariant(member->items()[i], key,
                      at + "[" + std::to_string(i) + "]", out);
      }
    } else {
      AppendLines(*member, at, out);
    }
  }
}

std::map<std::string, std::string> Lines(const std::string& text) {
  std::map<std::string, std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t equals = line.find('=');
    if (equals != std::string::npos) {
      lines[line.substr(0, equals)] = line.substr(equals + 1);
    }
    begin = end + 1;
  }
  return lines;
}

std::string KindText(const Key& key) {
  switch (key.kind) {
    case KeyKind::kBool:
      return "true or false";
    case KeyKind::kInteger:
      return "integer";
    case KeyKind::kNumber:
      return "number";
    case KeyKind::kText:
      return "text";
    case KeyKind::kInterval:
      return "steps or \"N epochs\"";
    case KeyKind::kBytes:
      return "bytes";
    case KeyKind::kIntegers:
      return "integers";
    case KeyKind::kNumbers:
      return "numbers";
    case KeyKind::kTexts:
      return "texts";
    case KeyKind::kObject:
      return "object";
    case KeyKind::kVariant:
      return "object with type";
    case KeyKind::kVariants:
      return "array of objects with type";
    case KeyKind::kMap:
      return "object";
  }
  return "";
}

std::string RangeText(const Key& key) {
  if (!key.choices.empty()) {
    std::string text(key.choices);
    for (size_t i; (i = text.find('|')) != std::string::npos;) {
      text.replace(i, 1, ", ");
    }
    return text;
  }
  const bool low = std::isfinite(key.minimum);
  const bool high = std::isfinite(key.maximum);
  const auto number = [](double v) {
    return std::floor(v) == v ? Json(static_cast<int64_t>(v)).Dump()
                              : Json(v).Dump();
  };
  if (low && high) return number(key.minimum) + " .. " + number(key.maximum);
  if (low) return ">= " + number(key.minimum);
  if (high) return "<= " + number(key.maximum);
  return "";
}

void AppendReference(std::span<const Key> keys, const std::string& path,
                     std::string* out);

void AppendKey(const Key& key, const std::string& path, std::string* out) {
  const std::string at =
      path.empty() ? std::string(key.name) : path + "." + std::string(key.name);
  const bool list = key.kind == KeyKind::kVariants;
  *out += "| `" + at + "` | " + KindText(key) + " | " +
          (key.fallback ? "`" + std::string(key.fallback) + "`" : "required") +
          " | " + RangeText(key) + " | " + std::string(key.help) +
          (key.mathematical ? "" : " (*)") + " |\n";
  if (key.kind == KeyKind::kObject) AppendReference(key.keys, at, out);
  if (key.kind != KeyKind::kVariant && !list) return;
  const std::string element = at + (list ? "[]" : "");
  AppendReference(key.common, element, out);
  for (const Variant& variant : key.variants()) {
    *out += "| `" + element + "` | type `" + std::string(variant.type) +
            "` | | | " + std::string(variant.help) + " |\n";
    AppendReference(variant.keys,
                    element + "{" + std::string(variant.type) + "}", out);
  }
}

void AppendReference(std::span<const Key> keys, const std::string& path,
                     std::string* out) {
  for (const Key& key : keys) AppendKey(key, path, out);
}

}  // namespace

std::string MathematicalText(const Json& resolved, std::span<const Key> keys) {
  std::string text;
  AppendObject(resolved, keys, "", &text);
  return text;
}

std::vector<std::string> DifferingKeys(const std::string& mathematical_text_a,
                                       const std::string& mathematical_text_b) {
  const auto a = Lines(mathematical_text_a);
  const auto b = Lines(mathematical_text_b);
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [path, value] : a) both[path].first = value;
  for (const auto& [path, value] : b) both[path].second = value;
  std::vector<std::string> lines;
  for (const auto& [path, values] : both) {
    if (values.first == values.second) continue;
    const auto shown = [](const std::string& v) {
      return v.empty() ? std::string("(absent)") : v;
    };
    lines.push_back(path + ": " + shown(values.first) + ", " +
                    shown(values.second));
  }
  return lines;
}

std::string FieldReference(std::span<const Key> keys) {
  std::string text =
      "| key | kind | default | range | meaning |\n|---|---|---|---|---|\n";
  AppendReference(keys, "", &text);
  return text;
}

}  // namespace lumen
