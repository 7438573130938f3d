// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "lumen/core/error.h"
#include "lumen/core/schema.h"

namespace lumen {
namespace {

constexpr char kSource[] = "command line";

// "model.layers[2].units" and "model.layers.2.units" alike.
std::vector<std::string> PathParts(std::string_view path) {
  std::vector<std::string> parts(1);
  for (char c : path) {
    if (c == '.' || c == '[') {
      parts.emplace_back();
    } else if (c != ']') {
      parts.back() += c;
    }
  }
  return parts;
}

Json ParseValue(const std::string& text) {
  Json value;
  try {
    value = Json::Parse(text, kSource);
  } catch (const SpecError&) {
    value = Json(text);
  }
  value.SetSourceDeep(kSource, 0);
  return value;
}

std::optional<size_t> Index(const std::string& part) {
  size_t index = 0;
  const auto [end, error] =
      std::from_chars(part.data(), part.data() + part.size(), index);
  if (error != std::errc() || end != part.data() + part.size()) return {};
  return index;
}

[[noreturn]] void Bad(std::string_view override_text, const std::string& why) {
  throw SpecError(std::string(kSource) + ": " + std::string(override_text) +
                  ": " + why);
}

// Steps down one part, creating objects on the way.
Json* Child(Json* parent, const std::string& part,
            std::string_view override_text) {
  if (parent->is_array()) {
    const auto index = Index(part);
    if (!index || *index >= parent->items().size()) {
      Bad(override_text, "no element " + part + " in an array of " +
                             std::to_string(parent->items().size()));
    }
    return &parent->mutable_items()[*index];
  }
  if (!parent->is_object()) {
    Bad(override_text, "\"" + part + "\" lies inside " +
                           Json::KindName(parent->kind()) +
                           "; expected an object; override the whole of it");
  }
  if (parent->Find(part) == nullptr) {
    Json object = Json::Object();
    object.set_source(kSource, 0);
    parent->Set(part, std::move(object));
  }
  return parent->Find(part);
}

}  // namespace

void ApplyOverride(Json* spec, std::string_view override_text,
                   std::span<const ExclusivePair> exclusive) {
  const size_t equals = override_text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    Bad(override_text, "expected path=value, like train.lr=0.05");
  }
  const std::string_view path = override_text.substr(0, equals);
  const std::vector<std::string> parts = PathParts(path);
  if (std::any_of(parts.begin(), parts.end(),
                  [](const std::string& part) { return part.empty(); })) {
    Bad(override_text, "a part of the path is empty");
  }
  if (!spec->is_object()) Bad(override_text, "the spec is not an object");
  Json* parent = spec;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    parent = Child(parent, parts[i], override_text);
  }
  for (const ExclusivePair& pair : exclusive) {
    for (const auto& [set, cleared] :
         {std::pair(pair.first, pair.second), {pair.second, pair.first}}) {
      if (path == set && parent->is_object()) {
        parent->Erase(PathParts(cleared).back());
      }
    }
  }
  Json value = ParseValue(std::string(override_text.substr(equals + 1)));
  if (parent->is_object()) {
    parent->Set(parts.back(), std::move(value));
  } else {
    *Child(parent, parts.back(), override_text) = std::move(value);
  }
}

}  // namespace lumen
