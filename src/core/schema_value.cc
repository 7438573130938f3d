// SPDX-License-Identifier: Apache-2.0
// Resolve: values without keys inside, and what messages say about them.
#include "schema_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "lumen/core/error.h"
#include "lumen/core/text.h"

namespace lumen {
namespace internal {
namespace {

bool InRange(double value, const Key& key) {
  return value >= key.minimum && value <= key.maximum;
}

// A number at the begin of `text`, and the rest without blanks around it.
std::optional<std::pair<double, std::string>> NumberAndUnit(
    std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  std::string unit(rest, end);
  unit.erase(0, unit.find_first_not_of(' '));
  unit.erase(unit.find_last_not_of(' ') + 1);
  return std::make_pair(number, unit);
}

// Factor of a unit of bytes, in any case; 0: unknown.
double UnitBytes(std::string unit) {
  for (char& c : unit) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"b", 1},        {"kb", 1e3},     {"mb", 1e6},
      {"gb", 1e9},     {"tb", 1e12},    {"kib", 0x1p10},
      {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40}};
  for (const auto& [name, bytes] : kUnits) {
    if (unit == name) return bytes;
  }
  return 0;
}

// The integer that a number is, such as 1e3; nothing beyond 2^53, where
// doubles skip integers.
std::optional<int64_t> ExactInteger(const Json& value) {
  if (value.kind() == Json::Kind::kInteger) return value.integer();
  if (value.kind() != Json::Kind::kNumber) return std::nullopt;
  const double number = value.number();
  if (std::abs(number) > 0x1p53 || number != std::trunc(number)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

[[noreturn]] void FailKind(const Json& given, const Key& key,
                           const std::string& path) {
  constexpr size_t kLongest = 60;
  std::string found = given.Dump();
  if (given.is_object() || found.size() > kLongest)
    found = Json::KindName(given.kind());
  std::string hint;
  const bool plain = !given.is_array() && !given.is_object();
  if (key.kind == KeyKind::kText && plain && given.where() == "command line") {
    hint = fmt::format("; quote it: '{}=\"{}\"'", path, found);
  } else if (key.kind == KeyKind::kText && plain) {
    hint = fmt::format("; quote it: \"{}\"", found);
  }
  FailAt(given, path,
         fmt::format("found {}; expected {}{}", found, Expected(key), hint));
}

Json ResolveInteger(const Json& given, const Key& key,
                    const std::string& path) {
  const auto value = ExactInteger(given);
  if (!value || !InRange(static_cast<double>(*value), key)) {
    FailKind(given, key, path);
  }
  return *value;
}

Json ResolveNumber(const Json& given, const Key& key, const std::string& path) {
  const bool number = given.kind() == Json::Kind::kInteger ||
                      given.kind() == Json::Kind::kNumber;
  if (!number || !InRange(given.number(), key)) FailKind(given, key, path);
  return given.number();
}

Json ResolveText(const Json& given, const Key& key, const std::string& path) {
  if (given.kind() != Json::Kind::kText) FailKind(given, key, path);
  if (key.choices.empty()) return given;
  const std::vector<std::string> known = SplitChoices(key.choices);
  if (std::find(known.begin(), known.end(), given.text()) == known.end()) {
    FailAt(given, path,
           fmt::format("unknown {}{}", given.Dump(),
                       KnownAndNearest(given.text(), known)));
  }
  return given;
}

Json ResolveInterval(const Json& given, const Key& key,
                     const std::string& path) {
  if (given.kind() == Json::Kind::kText) {
    const auto parsed = NumberAndUnit(given.text());
    if (!parsed || parsed->first <= 0 ||
        (parsed->second != "epochs" && parsed->second != "epoch")) {
      FailKind(given, key, path);
    }
    return NumberText(parsed->first) + " epochs";
  }
  const auto value = ExactInteger(given);
  if (!value || *value < 0 || !InRange(static_cast<double>(*value), key)) {
    FailKind(given, key, path);
  }
  return *value;
}

Json ResolveBytes(const Json& given, const Key& key, const std::string& path) {
  std::optional<int64_t> value = ExactInteger(given);
  if (given.kind() == Json::Kind::kText) {
    const auto parsed = NumberAndUnit(given.text());
    const double unit = parsed ? UnitBytes(parsed->second) : 0;
    if (unit > 0 && std::abs(parsed->first) * unit < 0x1p62) {
      value = std::llround(parsed->first * unit);
    }
  }
  if (!value || *value < 0 || !InRange(static_cast<double>(*value), key)) {
    FailKind(given, key, path);
  }
  return *value;
}

Json ResolveArray(const Json& given, const Key& key, const std::string& path,
                  Json (*element)(const Json&, const Key&, const std::string&),
                  KeyKind element_kind) {
  if (!given.is_array()) FailKind(given, key, path);
  Key element_key = key;  // for its range, choices and name in messages
  element_key.kind = element_kind;
  element_key.fallback = nullptr;
  Json out = Json::Array();
  out.set_source_like(given);
  for (size_t i = 0; i < given.items().size(); ++i) {
    const Json& item = given.items()[i];
    out.Append(element(item, element_key, IndexPath(path, i)));
    out.mutable_items().back().set_source_like(item);
  }
  return out;
}

// An override went through a value that cannot be written as an object.
void CheckMap(const Json& given, const std::string& path) {
  if (!given.is_object()) return;
  for (const auto& [name, value] : given.members()) {
    if (name == kShorthand) {
      FailAt(given, path,
             fmt::format("found {}, which has no keys; expected the path of "
                         "an object",
                         value.Dump()));
    }
    CheckMap(value, JoinPath(path, name));
  }
}

Json ResolveByKind(const Json& given, const Key& key, const std::string& path) {
  switch (key.kind) {
    case KeyKind::kBool:
      if (given.kind() != Json::Kind::kBool) FailKind(given, key, path);
      return given;
    case KeyKind::kInteger:
      return ResolveInteger(given, key, path);
    case KeyKind::kNumber:
      return ResolveNumber(given, key, path);
    case KeyKind::kText:
      return ResolveText(given, key, path);
    case KeyKind::kInterval:
      return ResolveInterval(given, key, path);
    case KeyKind::kBytes:
      return ResolveBytes(given, key, path);
    case KeyKind::kIntegers:
      return ResolveArray(given, key, path, ResolveInteger, KeyKind::kInteger);
    case KeyKind::kNumbers:
      return ResolveArray(given, key, path, ResolveNumber, KeyKind::kNumber);
    case KeyKind::kTexts:
      return ResolveArray(given, key, path, ResolveText, KeyKind::kText);
    default:
      if (!given.is_object()) FailKind(given, key, path);
      CheckMap(given, path);
      return given;
  }
}

// Large integers without exponent.
std::string LimitText(double limit) {
  const bool integer = std::abs(limit) < 1e15 && limit == std::trunc(limit);
  return integer ? fmt::format("{:.0f}", limit) : NumberText(limit);
}

std::string KindText(KeyKind kind) {
  switch (kind) {
    case KeyKind::kBool:
      return "true or false";
    case KeyKind::kInteger:
      return "an integer";
    case KeyKind::kNumber:
      return "a number";
    case KeyKind::kText:
      return "a text";
    case KeyKind::kInterval:
      return "an integer of steps or \"N epochs\"";
    case KeyKind::kBytes:
      return "an integer of bytes or a text such as \"12GiB\"";
    case KeyKind::kIntegers:
      return "an array of integers";
    case KeyKind::kNumbers:
      return "an array of numbers";
    case KeyKind::kTexts:
      return "an array of texts";
    case KeyKind::kObject:
    case KeyKind::kVariant:
    case KeyKind::kMap:
      return "an object";
    case KeyKind::kVariants:
      return "an array of objects";
  }
  return "?";
}

}  // namespace

std::string NumberText(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::vector<std::string> SplitChoices(std::string_view choices) {
  std::vector<std::string> words;
  while (!choices.empty()) {
    const size_t end = std::min(choices.find('|'), choices.size());
    words.emplace_back(choices.substr(0, end));
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return words;
}

std::string RangeText(const Key& key) {
  const bool below = std::isfinite(key.minimum);
  const bool above = std::isfinite(key.maximum);
  if (below && above) {
    return LimitText(key.minimum) + " .. " + LimitText(key.maximum);
  }
  if (below) return fmt::format(">= {}", LimitText(key.minimum));
  if (above) return fmt::format("<= {}", LimitText(key.maximum));
  return "";
}

std::string Expected(const Key& key) {
  std::string text = KindText(key.kind);
  if (!key.choices.empty()) {
    text += fmt::format(" of {}", Join(SplitChoices(key.choices)));
  }
  const std::string range = RangeText(key);
  if (range.starts_with("<") || range.starts_with(">")) {
    text += " " + range;
  } else if (!range.empty()) {
    text += " in " + range;
  }
  if (key.fallback != nullptr && std::string_view(key.fallback) == "null") {
    text += " or null";
  }
  return text;
}

Json ResolvePlain(const Json& given, const Key& key, const std::string& path) {
  Json out = ResolveByKind(given, key, path);
  // Elements of arrays and maps keep their own places.
  if (!out.is_array() && !out.is_object()) out.set_source_like(given);
  return out;
}

}  // namespace internal

Interval ParseInterval(const Json& value) {
  const Key key = {.name = "", .kind = KeyKind::kInterval};
  const Json resolved = internal::ResolvePlain(value, key, "");
  if (resolved.kind() == Json::Kind::kInteger) {
    return {.steps = resolved.integer()};
  }
  return {.epochs = internal::NumberAndUnit(resolved.text())->first};
}

}  // namespace lumen
