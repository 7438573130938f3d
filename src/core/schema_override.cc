// SPDX-License-Identifier: Apache-2.0
// ApplyOverride: path=value from the command line.
#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "lumen/core/error.h"
#include "lumen/core/schema.h"
#include "schema_value.h"

namespace lumen {
namespace {

constexpr char kSource[] = "command line";

[[noreturn]] void Fail(std::string_view override_text,
                       const std::string& problem) {
  throw SpecError(fmt::format("{}: {}: {}", kSource, override_text, problem));
}

// One step of a path: a key, or an index where written in brackets.
struct Step {
  std::string name;
  bool bracketed = false;
};

// "model.layers[2].units" in four steps.
std::vector<Step> SplitPath(std::string_view path, std::string_view text) {
  std::vector<Step> steps;
  std::string_view rest = path;
  while (true) {
    const size_t end = std::min(rest.find_first_of(".["), rest.size());
    if (end == 0) Fail(text, "an empty key in the path; expected path=value");
    steps.push_back({std::string(rest.substr(0, end))});
    rest.remove_prefix(end);
    while (rest.starts_with('[')) {
      const size_t close = rest.find(']');
      if (close == rest.npos) Fail(text, "'[' without ']' in the path");
      steps.push_back({std::string(rest.substr(1, close - 1)), true});
      rest.remove_prefix(close + 1);
    }
    if (rest.empty()) return steps;
    if (!rest.starts_with('.')) {
      Fail(text, fmt::format("'{}' after ']'; expected '.' or '='", rest));
    }
    rest.remove_prefix(1);
  }
}

// The member or element that `step` names, made when an object lacks it.
Json* Descend(Json* at, const Step& step, const std::string& path,
              std::string_view text) {
  if (at->is_array()) {
    size_t index = 0;
    const char* end = step.name.data() + step.name.size();
    const auto [rest, error] = std::from_chars(step.name.data(), end, index);
    if (error != std::errc() || rest != end) {
      Fail(text, fmt::format("{} is an array; expected an index, found \"{}\"",
                             path, step.name));
    }
    auto& items = at->mutable_items();
    if (index >= items.size()) {
      Fail(text, fmt::format("{} has {} elements; expected an index below "
                             "that, found {}",
                             path, items.size(), index));
    }
    return &items[index];
  }
  if (step.bracketed) {
    Fail(text, fmt::format("{} is no array; expected a key, found [{}]", path,
                           step.name));
  }
  if (!at->is_object()) {
    Json object = Json::Object();
    object.set_source(kSource, 0);
    if (!at->is_null()) object.Set(internal::kShorthand, std::move(*at));
    *at = std::move(object);
  }
  if (Json* member = at->Find(step.name)) return member;
  Json null;
  null.set_source(kSource, 0);
  at->Set(step.name, std::move(null));
  return at->Find(step.name);
}

// JSON, or else text. What begins like JSON but is none is a mistake.
Json ParseValue(std::string_view value, std::string_view text) {
  Json parsed;
  try {
    parsed = Json::Parse(value, kSource);
  } catch (const SpecError& error) {
    if (value.starts_with('{') || value.starts_with('[') ||
        value.starts_with('"')) {
      Fail(text, fmt::format("the value begins like JSON but is none ({})",
                             error.what()));
    }
    // Through the parser again, which checks that it is UTF-8.
    parsed = Json::Parse(Json(std::string(value)).Dump(), kSource);
  }
  Json place;
  place.set_source(kSource, 0);
  parsed.set_source_like(place);
  return parsed;
}

// Removes the member at `path` if there is one.
void EraseAt(Json* spec, std::string_view path) {
  Json* at = spec;
  while (at->is_object()) {
    const size_t dot = path.find('.');
    if (dot == path.npos) {
      at->Erase(path);
      return;
    }
    at = at->Find(path.substr(0, dot));
    if (at == nullptr) return;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

void ApplyOverride(Json* spec, std::string_view override_text,
                   std::span<const ExclusivePair> exclusive) {
  const size_t equals = override_text.find('=');
  if (equals == override_text.npos || equals == 0) {
    Fail(override_text, "expected path=value, for example train.seed=2");
  }
  const std::string_view path = override_text.substr(0, equals);
  const std::vector<Step> steps = SplitPath(path, override_text);
  Json value = ParseValue(override_text.substr(equals + 1), override_text);
  if (!value.is_null()) {
    for (const ExclusivePair& pair : exclusive) {
      if (path == pair.first) EraseAt(spec, pair.second);
      if (path == pair.second) EraseAt(spec, pair.first);
    }
  }
  // On a copy: a failure leaves the spec as it was.
  Json changed = *spec;
  Json* at = &changed;
  std::string at_path = "the spec";
  for (const Step& step : steps) {
    const bool in_array = at->is_array();
    at = Descend(at, step, at_path, override_text);
    if (at_path == "the spec") {
      at_path = step.name;
    } else {
      at_path += in_array ? "[" + step.name + "]" : "." + step.name;
    }
  }
  *at = std::move(value);
  *spec = std::move(changed);
}

}  // namespace lumen
