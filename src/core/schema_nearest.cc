// SPDX-License-Identifier: Apache-2.0
// Nearest: the guess in "did you mean".
#include <algorithm>
#include <cctype>
#include <vector>

#include "lumen/core/schema.h"

namespace lumen {
namespace {

std::string LowerCase(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lower;
}

// Insertions, deletions, replacements and swaps of neighbours that turn a into
// b: the optimal string alignment distance (Damerau 1964; Wagner and Fischer
// 1974), three rows of its table at a time.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Nearest(std::string_view word,
                    const std::vector<std::string>& candidates) {
  const std::string lower = LowerCase(word);
  std::string nearest;
  size_t smallest = 0;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(lower, LowerCase(candidate));
    if (3 * distance > std::max(word.size(), candidate.size())) continue;
    if (nearest.empty() || distance < smallest) {
      nearest = candidate;
      smallest = distance;
    }
  }
  return nearest;
}

}  // namespace lumen
