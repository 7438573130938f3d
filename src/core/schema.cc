// SPDX-License-Identifier: Apache-2.0
// Resolve: objects, variants and their defaults.
#include "lumen/core/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "schema_value.h"

namespace lumen {
namespace internal {

void FailAt(const Json& value, const std::string& path,
            const std::string& problem) {
  std::string message = value.where();
  if (!message.empty()) message += ": ";
  message += path;
  if (!path.empty()) message += ": ";
  throw SpecError(message + problem);
}

std::string JoinPath(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string IndexPath(const std::string& path, size_t index) {
  return fmt::format("{}[{}]", path, index);
}

std::string KnownAndNearest(std::string_view word,
                            const std::vector<std::string>& known) {
  if (known.empty()) return "; none is known here";
  std::string text = fmt::format("; known: {}", Join(known));
  const std::string nearest = Nearest(word, known);
  if (!nearest.empty()) text += fmt::format(" (did you mean \"{}\"?)", nearest);
  return text;
}

const Variant* FindVariant(const std::vector<Variant>& variants,
                           std::string_view type) {
  for (const Variant& variant : variants) {
    if (variant.type == type) return &variant;
  }
  return nullptr;
}

}  // namespace internal

namespace {

using internal::FailAt;
using internal::IndexPath;
using internal::JoinPath;
using internal::KnownAndNearest;
using internal::kShorthand;

Json ResolveValue(const Json& given, const Key& key, const std::string& path);

// Resolves the members of `given` that belong to `keys` into `out`.
void ResolveMembers(const Json& given, std::span<const Key> keys,
                    const std::string& path, Json* out) {
  for (const Key& key : keys) {
    const std::string key_path = JoinPath(path, key.name);
    if (const Json* value = given.Find(key.name)) {
      out->Set(key.name, ResolveValue(*value, key, key_path));
      continue;
    }
    if (key.fallback == nullptr) {
      FailAt(given, path,
             fmt::format("missing \"{}\"; expected {}{}{}", key.name,
                         internal::Expected(key), key.help.empty() ? "" : ": ",
                         key.help));
    }
    Json fallback = Json::Parse(key.fallback, "the default of " + key_path);
    if (!fallback.is_null()) fallback = ResolveValue(fallback, key, key_path);
    fallback.set_source_like(given);
    out->Set(key.name, std::move(fallback));
  }
}

// Fails on a member of `given` that none of the key lists has.
void CheckNames(const Json& given, std::span<const std::span<const Key>> lists,
                std::string_view type, const std::string& path) {
  std::vector<std::string> known;
  if (!type.empty()) known.emplace_back("type");
  for (const auto& keys : lists) {
    for (const Key& key : keys) known.emplace_back(key.name);
  }
  for (const auto& [name, value] : given.members()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (name == kShorthand) {
      FailAt(value, path,
             fmt::format("found {}; expected an object", value.Dump()));
    }
    std::string problem = "unknown key";
    if (!type.empty()) problem += fmt::format(" of type \"{}\"", type);
    FailAt(value, JoinPath(path, name), problem + KnownAndNearest(name, known));
  }
}

// Writes a shorthand out; anything else is returned as it is.
Json Expand(const Json& given, const Key& key) {
  if (key.shorthand_key.empty() || given.is_null() || given.is_array()) {
    return given;
  }
  const Json* value = &given;
  if (given.is_object()) {
    value = given.Find(kShorthand);
    if (value == nullptr) return given;
  }
  Json object = Json::Object();
  object.set_source_like(given);
  if (!key.shorthand_type.empty()) {
    Json type = std::string(key.shorthand_type);
    type.set_source_like(*value);
    object.Set("type", std::move(type));
  }
  object.Set(key.shorthand_key, *value);
  if (given.is_object()) {
    for (const auto& [name, member] : given.members()) {
      if (name != kShorthand) object.Set(name, member);
    }
  }
  return object;
}

// The type of a variant given without one.
std::string DefaultType(const Key& key) {
  if (key.fallback != nullptr) {
    const Json fallback = Json::Parse(key.fallback, "default");
    if (fallback.is_object()) {
      const Json* type = fallback.Find("type");
      if (type != nullptr) return type->text();
    }
  }
  return std::string(key.shorthand_type);
}

Json ResolveVariant(const Json& given, const Key& key,
                    const std::string& path) {
  const std::vector<Variant> variants = key.variants();
  std::vector<std::string> types;
  for (const Variant& variant : variants) types.emplace_back(variant.type);
  Json type;
  if (const Json* named = given.Find("type")) {
    type = *named;
    if (type.kind() != Json::Kind::kText) {
      FailAt(type, JoinPath(path, "type"),
             fmt::format("found {}; expected a text{}", type.Dump(),
                         KnownAndNearest("", types)));
    }
  } else {
    type = DefaultType(key);
    type.set_source_like(given);
    if (type.text().empty()) {
      FailAt(given, path, "missing \"type\"" + KnownAndNearest("", types));
    }
  }
  const Variant* variant = internal::FindVariant(variants, type.text());
  if (variant == nullptr) {
    FailAt(type, JoinPath(path, "type"),
           fmt::format("unknown {}{}", type.Dump(),
                       KnownAndNearest(type.text(), types)));
  }
  const std::span<const Key> lists[] = {key.common, variant->keys};
  CheckNames(given, lists, variant->type, path);
  Json out = Json::Object();
  out.set_source_like(given);
  out.Set("type", std::move(type));
  for (const auto& keys : lists) ResolveMembers(given, keys, path, &out);
  return out;
}

// Of one value that is an object, a variant, or an element of kVariants.
Json ResolveObject(const Json& value, const Key& key, const std::string& path) {
  const Json given = Expand(value, key);
  if (!given.is_object()) {
    FailAt(given, path,
           fmt::format("found {}; expected an object", given.Dump()));
  }
  if (key.kind == KeyKind::kObject) return Resolve(given, key.keys, path);
  return ResolveVariant(given, key, path);
}

Json ResolveValue(const Json& given, const Key& key, const std::string& path) {
  if (given.is_null()) {
    if (key.fallback != nullptr && std::string_view(key.fallback) == "null") {
      return given;
    }
    FailAt(given, path,
           fmt::format("found null; expected {}", internal::Expected(key)));
  }
  switch (key.kind) {
    case KeyKind::kObject:
    case KeyKind::kVariant:
      return ResolveObject(given, key, path);
    case KeyKind::kVariants: {
      if (!given.is_array()) {
        FailAt(given, path,
               fmt::format("found {}; expected an array of objects",
                           Json::KindName(given.kind())));
      }
      Json out = Json::Array();
      out.set_source_like(given);
      for (size_t i = 0; i < given.items().size(); ++i) {
        out.Append(ResolveObject(given.items()[i], key, IndexPath(path, i)));
      }
      return out;
    }
    default:
      return internal::ResolvePlain(given, key, path);
  }
}

}  // namespace

Json Resolve(const Json& given, std::span<const Key> keys,
             const std::string& path) {
  if (!given.is_object()) {
    FailAt(given, path,
           fmt::format("found {}; expected an object",
                       Json::KindName(given.kind())));
  }
  const std::span<const Key> lists[] = {keys};
  CheckNames(given, lists, "", path);
  Json out = Json::Object();
  out.set_source_like(given);
  ResolveMembers(given, keys, path, &out);
  return out;
}

}  // namespace lumen
