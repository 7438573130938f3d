// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the schema; not for other modules.
#pragma once

#include <string>
#include <vector>

#include "lumen/core/schema.h"

namespace lumen::internal {

// Key under which ApplyOverride keeps a value that a path went through, for
// Resolve to expand as a shorthand.
inline constexpr std::string_view kShorthand = "";

// Throws SpecError "file:line: path: problem", leaving out what is empty.
[[noreturn]] void FailAt(const Json& value, const std::string& path,
                         const std::string& problem);

// "train" and "lr" give "train.lr".
std::string JoinPath(const std::string& path, std::string_view key);
std::string IndexPath(const std::string& path, size_t index);

// "; known: adam, sgd (did you mean "adam"?)"
std::string KnownAndNearest(std::string_view word,
                            const std::vector<std::string>& known);

// "an integer in 1 .. 8", "an object", "one of a, b".
std::string Expected(const Key& key);

// "1 .. 8", ">= 1", or "" for any number.
std::string RangeText(const Key& key);

// The kinds without keys inside: checks and normal form. Not null.
Json ResolvePlain(const Json& given, const Key& key, const std::string& path);

// The row of `key.variants` of that name; nullptr: none.
const Variant* FindVariant(const std::vector<Variant>& variants,
                           std::string_view type);

// Shortest text that reads back to the same bits: "0.1", "20".
std::string NumberText(double value);

// All texts between '|'.
std::vector<std::string> SplitChoices(std::string_view choices);

}  // namespace lumen::internal
