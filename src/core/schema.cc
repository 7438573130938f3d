// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/schema.h"

#include <glog/logging.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lumen/core/error.h"
#include "lumen/core/text.h"

namespace lumen {
namespace {

std::string Join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

// "file:3: train.lr: " with the parts that are known.
std::string Place(const Json& value, const std::string& path) {
  std::string place = value.where();
  if (!path.empty()) place += (place.empty() ? "" : ": ") + path;
  return place.empty() ? "spec: " : place + ": ";
}

std::string Shown(const Json& value) {
  if (value.is_array() || value.is_object()) {
    return Json::KindName(value.kind());
  }
  return value.Dump();
}

[[noreturn]] void Unexpected(const Json& value, const std::string& path,
                             const std::string& expected) {
  throw SpecError(Place(value, path) + Shown(value) + "; expected " + expected);
}

std::string DidYouMean(std::string_view word,
                       const std::vector<std::string>& known) {
  std::string text = "; known: ";
  for (size_t i = 0; i < known.size(); ++i) {
    text += (i ? ", " : "") + known[i];
  }
  const std::string nearest = Nearest(word, known);
  if (!nearest.empty()) text += " (did you mean \"" + nearest + "\"?)";
  return text;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string Limits(const Key& key) {
  const auto number = [](double value) {
    return std::floor(value) == value ? Json(static_cast<int64_t>(value)).Dump()
                                      : Json(value).Dump();
  };
  const bool low = std::isfinite(key.minimum);
  const bool high = std::isfinite(key.maximum);
  if (low && high) return number(key.minimum) + " to " + number(key.maximum);
  if (low) return "at least " + number(key.minimum);
  if (high) return "at most " + number(key.maximum);
  return "";
}

void CheckRange(const Json& value, double number, const Key& key,
                const std::string& path) {
  if (number >= key.minimum && number <= key.maximum) return;
  Unexpected(value, path, Limits(key));
}

// 1e3 and 2.0 are integers too, when they are exact.
Json ToInteger(const Json& value, const std::string& path) {
  if (value.kind() == Json::Kind::kInteger) return value;
  if (value.kind() == Json::Kind::kNumber) {
    const double number = value.number();
    if (std::floor(number) == number && std::abs(number) < 0x1p53) {
      Json integer(static_cast<int64_t>(number));
      integer.CopySource(value);
      return integer;
    }
  }
  Unexpected(value, path, "an integer");
}

Json ToNumber(const Json& value, const std::string& path) {
  if (value.kind() == Json::Kind::kNumber) return value;
  if (value.kind() != Json::Kind::kInteger) {
    Unexpected(value, path, "a number");
  }
  Json number(value.number());
  number.CopySource(value);
  return number;
}

Json ResolveBytes(const Json& value, const std::string& path) {
  if (value.kind() != Json::Kind::kText) return ToInteger(value, path);
  const std::string& text = value.text();
  double amount = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), amount);
  std::string unit(rest, text.data() + text.size());
  std::erase(unit, ' ');
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},         {"B", 1},       {"kB", 1e3},     {"MB", 1e6},
      {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10}, {"MiB", 0x1p20},
      {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto& [name, factor] : kUnits) {
    if (error == std::errc() && unit == name && amount >= 0 &&
        amount * factor < 0x1p62) {
      Json bytes(static_cast<int64_t>(amount * factor));
      bytes.CopySource(value);
      return bytes;
    }
  }
  Unexpected(value, path, "bytes, like 1000000 or \"12GiB\"");
}

Json ResolveText(const Json& value, const Key& key, const std::string& path) {
  if (value.kind() != Json::Kind::kText) Unexpected(value, path, "a text");
  if (key.choices.empty()) return value;
  const auto choices = Split(key.choices, '|');
  if (std::find(choices.begin(), choices.end(), value.text()) !=
      choices.end()) {
    return value;
  }
  throw SpecError(Place(value, path) + "unknown \"" + value.text() + "\"" +
                  DidYouMean(value.text(), choices));
}

Json ResolveVariant(const Json& value, const Key& key, const std::string& path);

Json ResolveList(const Json& value, const Key& key, const std::string& path) {
  if (!value.is_array()) Unexpected(value, path, "an array");
  Json list = Json::Array();
  list.CopySource(value);
  int index = 0;
  for (const Json& item : value.items()) {
    const std::string at = path + "[" + std::to_string(index++) + "]";
    if (key.kind == KeyKind::kVariants) {
      list.Append(ResolveVariant(item, key, at));
    } else if (key.kind == KeyKind::kTexts) {
      list.Append(ResolveText(item, key, at));
    } else {
      Json element = key.kind == KeyKind::kIntegers ? ToInteger(item, at)
                                                    : ToNumber(item, at);
      CheckRange(item, element.number(), key, at);
      list.Append(std::move(element));
    }
  }
  return list;
}

Json ResolveObject(const Json& value, std::span<const Key> first,
                   std::span<const Key> second, std::string_view type,
                   const std::string& path);

// A bare value for a variant with a shorthand, as an object.
Json Expanded(const Json& value, const Key& key) {
  Json object = Json::Object();
  object.CopySource(value);
  Json type{std::string(key.shorthand_type)};
  type.CopySource(value);
  object.Set("type", std::move(type));
  object.Set(key.shorthand_key, value);
  return object;
}

Json ResolveVariant(const Json& given, const Key& key,
                    const std::string& path) {
  Json expanded;
  if (!given.is_object() && !key.shorthand_type.empty()) {
    expanded = Expanded(given, key);
  }
  const Json& value = expanded.is_object() ? expanded : given;
  if (!value.is_object()) Unexpected(value, path, "an object with a \"type\"");
  const std::vector<Variant> variants = key.variants();
  std::vector<std::string> known;
  for (const Variant& variant : variants) known.emplace_back(variant.type);
  const Json* type = value.Find("type");
  if (type == nullptr) {
    throw SpecError(Place(value, path) + "missing \"type\"" +
                    DidYouMean("", known));
  }
  if (type->kind() != Json::Kind::kText) {
    Unexpected(*type, Join(path, "type"), "a text");
  }
  for (const Variant& variant : variants) {
    if (variant.type == type->text()) {
      return ResolveObject(value, key.common, variant.keys, variant.type, path);
    }
  }
  throw SpecError(Place(*type, Join(path, "type")) + "unknown \"" +
                  type->text() + "\"" + DidYouMean(type->text(), known));
}

Json ResolveValue(const Json& value, const Key& key, const std::string& path) {
  const bool optional =
      key.fallback != nullptr && std::string_view(key.fallback) == "null";
  if (value.is_null() && optional) return value;
  switch (key.kind) {
    case KeyKind::kBool:
      if (value.kind() != Json::Kind::kBool) {
        Unexpected(value, path, "true or false");
      }
      return value;
    case KeyKind::kInteger: {
      Json integer = ToInteger(value, path);
      CheckRange(value, integer.number(), key, path);
      return integer;
    }
    case KeyKind::kNumber: {
      Json number = ToNumber(value, path);
      CheckRange(value, number.number(), key, path);
      return number;
    }
    case KeyKind::kText:
      return ResolveText(value, key, path);
    case KeyKind::kInterval:
      ParseInterval(value, path);
      return value;
    case KeyKind::kBytes: {
      Json bytes = ResolveBytes(value, path);
      CheckRange(value, bytes.number(), key, path);
      return bytes;
    }
    case KeyKind::kIntegers:
    case KeyKind::kNumbers:
    case KeyKind::kTexts:
    case KeyKind::kVariants:
      return ResolveList(value, key, path);
    case KeyKind::kObject:
      if (!value.is_object()) Unexpected(value, path, "an object");
      return ResolveObject(value, key.keys, {}, {}, path);
    case KeyKind::kVariant:
      return ResolveVariant(value, key, path);
    case KeyKind::kMap:
      if (!value.is_object()) Unexpected(value, path, "an object");
      return value;
  }
  LOG(FATAL) << "key kind";
  return {};
}

Json Fallback(const Key& key, const Json& parent) {
  Json value = Json::Parse(key.fallback, "default");
  value.set_source(parent.source(), parent.line());
  return value;
}

Json ResolveObject(const Json& value, std::span<const Key> first,
                   std::span<const Key> second, std::string_view type,
                   const std::string& path) {
  std::vector<std::string> known;
  if (!type.empty()) known.emplace_back("type");
  for (const Key& key : first) known.emplace_back(key.name);
  for (const Key& key : second) known.emplace_back(key.name);
  for (const auto& [name, member] : value.members()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw SpecError(Place(member, Join(path, name)) + "unknown key" +
                      DidYouMean(name, known));
    }
  }
  Json resolved = Json::Object();
  resolved.CopySource(value);
  if (!type.empty()) resolved.Set("type", value.at("type"));
  for (const std::span<const Key> keys : {first, second}) {
    for (const Key& key : keys) {
      const Json* found = value.Find(key.name);
      if (found == nullptr && key.fallback == nullptr) {
        throw SpecError(Place(value, path) + "missing \"" +
                        std::string(key.name) + "\": " + std::string(key.help));
      }
      resolved.Set(key.name, ResolveValue(found ? *found : Fallback(key, value),
                                          key, Join(path, key.name)));
    }
  }
  return resolved;
}

}  // namespace

Json Resolve(const Json& given, std::span<const Key> keys,
             const std::string& path) {
  if (!given.is_object()) Unexpected(given, path, "an object");
  return ResolveObject(given, keys, {}, {}, path);
}

Interval ParseInterval(const Json& value, const std::string& path) {
  if (value.kind() == Json::Kind::kInteger && value.integer() >= 0) {
    return {.steps = value.integer()};
  }
  if (value.kind() == Json::Kind::kText) {
    const std::string& text = value.text();
    double epochs = 0;
    const auto [rest, error] =
        std::from_chars(text.data(), text.data() + text.size(), epochs);
    const std::string_view unit(rest, text.data() + text.size());
    if (error == std::errc() && epochs > 0 && std::isfinite(epochs) &&
        (unit == " epochs" || unit == " epoch")) {
      return {.epochs = epochs};
    }
  }
  Unexpected(value, path, "a number of steps, or \"N epochs\"");
}

std::string Nearest(std::string_view word,
                    const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t best = word.size() / 3 + 1;  // at most this many edits
  for (const std::string& candidate : candidates) {
    // Levenshtein distance, one row at a time.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t replace =
            diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
      }
    }
    if (row.back() <= best && !word.empty() &&
        (nearest.empty() || row.back() < best)) {
      best = row.back();
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace lumen
