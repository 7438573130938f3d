// SPDX-License-Identifier: Apache-2.0
// What a spec may contain, as tables. A module describes the keys of each row
// of its extension table (a layer, an exchange, a dataset) with an array of
// Key; the reader checks a spec against them, fills in the defaults, prints the
// field reference and computes the mathematical digest, all from the same
// arrays.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lumen/core/json.h"

namespace lumen {

enum class KeyKind {
  kBool,
  kInteger,
  kNumber,
  kText,
  kInterval,  // integer number of steps, or text "N epochs" (N may be a
              // fraction)
  kBytes,     // integer, or text "12GiB", "300 MB" (resolved to the integer)
  kIntegers,  // arrays
  kNumbers,
  kTexts,
  kObject,    // an object with `keys`
  kVariant,   // an object whose "type" selects one of `variants`
  kVariants,  // an array of such objects
  kMap,       // an object with free keys and values of any kind
};

struct Variant;

struct Key {
  std::string_view name = {};
  KeyKind kind = KeyKind::kInteger;
  // JSON text of the default. nullptr: the key is required. "null": the key may
  // be absent or null. For kObject, "{}" means all defaults of `keys`. For
  // kVariant, the "type" of the default, or else shorthand_type, is also that
  // of an object given without "type".
  const char* fallback = nullptr;
  std::string_view help = {};
  // Inclusive limits of numbers (of each element, for arrays of numbers).
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  // Allowed texts, separated by '|'; empty: any.
  std::string_view choices = {};
  std::span<const Key> keys = {};                // kObject
  std::vector<Variant> (*variants)() = nullptr;  // kVariant, kVariants
  // Keys that every variant also takes ("name", "from"), before its own.
  std::span<const Key> common = {};
  // A bare value v instead of an object stands for {"type": shorthand_type,
  // shorthand_key: v}: "lr": 0.1. Empty key: not allowed. For kObject, kVariant
  // and the elements of kVariants.
  std::string_view shorthand_type = {};
  std::string_view shorthand_key = {};
  // Does it change the mathematics, and so the digest? Paths, logging, memory
  // and checkpoint keys do not.
  bool mathematical = true;
};

// One row of an extension table as the spec sees it.
struct Variant {
  std::string_view type = {};
  std::span<const Key> keys = {};
  std::string_view help = {};
};

// Checks `given` against `keys` and returns it with all defaults written out,
// in the order of `keys`, each value in its one normal form: numbers as
// numbers, integers (also 1e3 and 2.0) as integers, bytes as integers,
// intervals as integers or "N epochs", shorthands as objects. So a resolved
// spec resolves to itself, also after Dump and Parse. Defaults are located
// where the object is that lacks them. `path` prefixes key paths in messages
// ("" at the root). Throws SpecError "file:line: path: found; expected; hint"
// on an unknown key (with the nearest known one), a missing key, a wrong kind,
// a value out of range.
Json Resolve(const Json& given, std::span<const Key> keys,
             const std::string& path = "");

// Two keys of which setting one removes the other: train.steps, train.epochs.
struct ExclusivePair {
  std::string_view first;
  std::string_view second;
};

// Applies "train.lr=0.05" to an unresolved spec: the value is JSON, or else
// text. Array elements are named by index: model.layers[2].units, or
// model.layers.2.units. Missing objects on the way are made. A path through a
// shorthand ("lr": 0.1 and train.lr.base=0.2) keeps what the shorthand says
// beside the key set. Throws SpecError on a malformed override and on an index
// that does not exist; an unknown path is found by Resolve.
void ApplyOverride(Json* spec, std::string_view override_text,
                   std::span<const ExclusivePair> exclusive = {});

// The value of a kInterval key: one of the two is positive, or both are 0.
struct Interval {
  int64_t steps = 0;
  double epochs = 0;
};
// Takes an integer >= 0 or a text "N epochs" with N > 0. Throws SpecError.
Interval ParseInterval(const Json& value);

// The part of a resolved spec that changes the mathematics, as canonical text,
// one "path=value" per line. Equal mathematics give equal text.
std::string MathematicalText(const Json& resolved, std::span<const Key> keys);

// Lines of `a` that differ from `b`, as "path: value in a, value in b", with
// "absent" where there is none.
std::vector<std::string> DifferingKeys(const std::string& mathematical_text_a,
                                       const std::string& mathematical_text_b);

// The field reference in Markdown: one table per object and per variant with
// key, kind, default, range, meaning.
std::string FieldReference(std::span<const Key> keys);

// The candidate with the smallest edit distance to `word`, or "" when none is
// close (more than a third of the word differs).
std::string Nearest(std::string_view word,
                    const std::vector<std::string>& candidates);

}  // namespace lumen
