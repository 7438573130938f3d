// SPDX-License-Identifier: Apache-2.0
// What the schema writes: the mathematical text and the field reference.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "lumen/core/schema.h"
#include "schema_value.h"

namespace lumen {
namespace {

using internal::IndexPath;
using internal::JoinPath;

void AppendLine(const std::string& path, const Json& value, std::string* out) {
  *out += fmt::format("{}={}\n", path, value.Dump());
}

void WriteMap(const Json& value, const std::string& path, std::string* out) {
  if (!value.is_object() || value.members().empty()) {
    AppendLine(path, value, out);
    return;
  }
  std::map<std::string, const Json*> sorted;
  for (const auto& [name, member] : value.members()) sorted[name] = &member;
  for (const auto& [name, member] : sorted) {
    WriteMap(*member, JoinPath(path, name), out);
  }
}

void WriteKeys(const Json& object, std::span<const Key> keys,
               const std::string& path, std::string* out);

void WriteVariant(const Json& object, const Key& key, const std::string& path,
                  std::string* out) {
  AppendLine(JoinPath(path, "type"), object.at("type"), out);
  WriteKeys(object, key.common, path, out);
  const std::vector<Variant> variants = key.variants();
  const Variant* variant =
      internal::FindVariant(variants, object.at("type").text());
  if (variant != nullptr) WriteKeys(object, variant->keys, path, out);
}

void WriteKeys(const Json& object, std::span<const Key> keys,
               const std::string& path, std::string* out) {
  for (const Key& key : keys) {
    if (!key.mathematical) continue;
    const std::string key_path = JoinPath(path, key.name);
    const Json& value = object.at(key.name);
    if (value.is_object() && key.kind == KeyKind::kObject) {
      WriteKeys(value, key.keys, key_path, out);
    } else if (value.is_object() && key.kind == KeyKind::kVariant) {
      WriteVariant(value, key, key_path, out);
    } else if (value.is_object() && key.kind == KeyKind::kMap) {
      WriteMap(value, key_path, out);
    } else if (key.kind == KeyKind::kVariants && value.is_array() &&
               !value.items().empty()) {
      for (size_t i = 0; i < value.items().size(); ++i) {
        WriteVariant(value.items()[i], key, IndexPath(key_path, i), out);
      }
    } else {
      AppendLine(key_path, value, out);
    }
  }
}

// Lines "path=value" in their order.
std::vector<std::pair<std::string, std::string>> SplitLines(
    const std::string& text) {
  std::vector<std::pair<std::string, std::string>> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t equals = std::min(line.find('='), line.size());
    lines.emplace_back(line.substr(0, equals),
                       line.substr(std::min(equals + 1, line.size())));
    begin = end + 1;
  }
  return lines;
}

std::string KindCell(KeyKind kind) {
  switch (kind) {
    case KeyKind::kBool:
      return "bool";
    case KeyKind::kInteger:
      return "integer";
    case KeyKind::kNumber:
      return "number";
    case KeyKind::kText:
      return "text";
    case KeyKind::kInterval:
      return "steps or \"N epochs\"";
    case KeyKind::kBytes:
      return "bytes or \"12GiB\"";
    case KeyKind::kIntegers:
      return "integers";
    case KeyKind::kNumbers:
      return "numbers";
    case KeyKind::kTexts:
      return "texts";
    case KeyKind::kObject:
    case KeyKind::kMap:
      return "object";
    case KeyKind::kVariant:
      return "object with type";
    case KeyKind::kVariants:
      return "array of objects with type";
  }
  return "?";
}

// A '|' would end the cell.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string RangeCell(const Key& key) {
  std::string cell;
  for (const std::string& choice : internal::SplitChoices(key.choices)) {
    cell += (cell.empty() ? "`" : ", `") + choice + "`";
  }
  const std::string range = internal::RangeText(key);
  if (!cell.empty() && !range.empty()) cell += "; ";
  return cell + range;
}

std::string MeaningCell(const Key& key) {
  std::string cell = Cell(key.help);
  if (!key.shorthand_key.empty()) {
    cell += fmt::format("{}a bare value is `{}`", cell.empty() ? "" : "; ",
                        key.shorthand_key);
    if (!key.shorthand_type.empty()) {
      cell += fmt::format(" of type `{}`", key.shorthand_type);
    }
  }
  if (!key.mathematical) {
    cell += cell.empty() ? "(not mathematical)" : " (not mathematical)";
  }
  return cell;
}

// Writes tables one after another, inner ones after the outer.
class Reference {
 public:
  void WriteObject(std::span<const Key> keys, const std::string& path) {
    if (!path.empty()) text_ += fmt::format("### `{}`\n\n", path);
    WriteTable(keys);
    WriteInner(keys, path);
  }

  std::string TakeText() { return std::move(text_); }

 private:
  void WriteTable(std::span<const Key> keys) {
    if (keys.empty()) {
      text_ += "No keys.\n\n";
      return;
    }
    text_ += "| Key | Kind | Default | Range | Meaning |\n";
    text_ += "|---|---|---|---|---|\n";
    for (const Key& key : keys) {
      const std::string fallback =
          key.fallback == nullptr ? "required"
                                  : fmt::format("`{}`", Cell(key.fallback));
      text_ += fmt::format("| `{}` | {} | {} | {} | {} |\n", key.name,
                           KindCell(key.kind), fallback, RangeCell(key),
                           MeaningCell(key));
    }
    text_ += "\n";
  }

  void WriteInner(std::span<const Key> keys, const std::string& path) {
    for (const Key& key : keys) {
      const std::string key_path = JoinPath(path, key.name);
      if (key.kind == KeyKind::kObject) {
        WriteObject(key.keys, key_path);
      } else if (key.kind == KeyKind::kVariant) {
        WriteVariants(key, key_path);
      } else if (key.kind == KeyKind::kVariants) {
        WriteVariants(key, key_path + "[i]");
      }
    }
  }

  void WriteVariants(const Key& key, const std::string& path) {
    // A table may contain itself (layers inside of a layer).
    const auto [place, added] = written_.emplace(key.variants, path);
    if (!added) {
      text_ += fmt::format("### `{}`\n\nAs `{}`.\n\n", path, place->second);
      return;
    }
    if (!key.common.empty()) {
      text_ += fmt::format("### `{}`: keys of every type\n\n", path);
      WriteTable(key.common);
      WriteInner(key.common, path);
    }
    for (const Variant& variant : key.variants()) {
      text_ += fmt::format("### `{}`: type `{}`\n\n", path, variant.type);
      if (!variant.help.empty()) text_ += fmt::format("{}\n\n", variant.help);
      WriteTable(variant.keys);
      WriteInner(variant.keys, path);
    }
  }

  std::string text_;
  std::map<std::vector<Variant> (*)(), std::string> written_;
};

}  // namespace

std::string MathematicalText(const Json& resolved, std::span<const Key> keys) {
  std::string text;
  WriteKeys(resolved, keys, "", &text);
  return text;
}

std::vector<std::string> DifferingKeys(const std::string& mathematical_text_a,
                                       const std::string& mathematical_text_b) {
  const auto lines_a = SplitLines(mathematical_text_a);
  const auto lines_b = SplitLines(mathematical_text_b);
  const std::map<std::string, std::string> a(lines_a.begin(), lines_a.end());
  const std::map<std::string, std::string> b(lines_b.begin(), lines_b.end());
  std::vector<std::string> differing;
  for (const auto& [path, value] : lines_a) {
    const auto other = b.find(path);
    if (other != b.end() && other->second == value) continue;
    differing.push_back(
        fmt::format("{}: {}, {}", path, value,
                    other == b.end() ? "absent" : other->second));
  }
  for (const auto& [path, value] : lines_b) {
    if (!a.contains(path)) {
      differing.push_back(fmt::format("{}: absent, {}", path, value));
    }
  }
  return differing;
}

std::string FieldReference(std::span<const Key> keys) {
  Reference reference;
  reference.WriteObject(keys, "");
  return reference.TakeText();
}

}  // namespace lumen
