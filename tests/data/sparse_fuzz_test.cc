// SPDX-License-Identifier: Apache-2.0
// Damaged files of sparse rows: each gives a data set that keeps its promises,
// or an IoError. A second of it by default; LUMEN_FUZZ_MINUTES=n for n minutes.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "lumen/core/error.h"
#include "lumen/data/dataset.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

using Random = std::mt19937;

std::chrono::duration<double> Budget() {
  const char* minutes = std::getenv("LUMEN_FUZZ_MINUTES");
  return std::chrono::duration<double>(
      minutes ? 60 * std::strtod(minutes, nullptr) : 0.5);
}

// What real damage is made of.
const char* const kPieces[] = {
    " ", ":",     ",",   "\n",  "\r\n", "#",      "1:1",    "-",
    "+", "e9",    "nan", "inf", "\t",   "0",      "999999", "qid:1",
    ".", "1e-60", "\0x", " 1 ", "2:2 ", "1,2,0 ", "\xff",   ""};

std::string Damaged(std::string text, Random* random) {
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(*random);
  };
  for (size_t changes = below(4); changes > 0 && !text.empty(); --changes) {
    const size_t at = below(text.size());
    switch (below(4)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, below(8));
        break;
      case 2:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

void CheckPromises(const Dataset& data) {
  ASSERT_GT(data.size(), 0);
  int64_t entries = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const SparseSample sample = data.ReadSparse(i);
    ASSERT_EQ(sample.index.size(), sample.value.size());
    entries += std::ssize(sample.index);
    for (size_t e = 0; e < sample.index.size(); ++e) {
      ASSERT_GE(sample.index[e], 0);
      ASSERT_LT(sample.index[e], data.shape().channels);
      ASSERT_TRUE(std::isfinite(sample.value[e]));
      if (e > 0) {
        ASSERT_LT(sample.index[e - 1], sample.index[e]);
      }
    }
    ASSERT_GE(sample.label, 0);
    ASSERT_LT(sample.label, data.classes());
    for (size_t l = 0; l < sample.labels.size(); ++l) {
      ASSERT_GE(sample.labels[l], 0);
      ASSERT_LT(sample.labels[l], data.classes());
      if (l > 0) {
        ASSERT_LT(sample.labels[l - 1], sample.labels[l]);
      }
    }
  }
  ASSERT_EQ(entries, data.row_sizes().entries);
}

void Fuzz(const std::string& type, const std::string& text,
          const std::string& labels) {
  const TestFolder folder;
  const Json spec = DataSpec(
      R"({"type": ")" + type + R"(", "train": ")" + folder.File("t") +
      R"(", "features": 9, "classes": 3, "labels": ")" + labels + "\"}");
  const auto began = std::chrono::steady_clock::now();
  int64_t good = 0;
  int64_t bad = 0;
  for (uint32_t seed = 0; std::chrono::steady_clock::now() - began < Budget();
       ++seed) {
    Random random(seed);
    Store(folder.File("t"), Damaged(text, &random));
    try {
      const auto data = OpenDataset(spec, Split::kTrain);
      CheckPromises(*data);
      ++good;
      // What plan measures is at least what reading needs.
      EXPECT_GE(GetDatasetInfo(spec).memory_bytes, data->memory_bytes());
    } catch (const IoError& error) {
      ++bad;
      EXPECT_THAT(error.what(), testing::HasSubstr(folder.File("t")));
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << type << " seed " << seed;
  }
  EXPECT_GT(good, 0);
  EXPECT_GT(bad, 0);
}

TEST(SparseFuzz, SvmlightIsReadOrRefused) {
  const std::string text = "1 1:1 5:0.5 9:-2\n# a\n2 3:1e3\n0 2:1\r\n1\n";
  Fuzz("svmlight", text, "one");
  Fuzz("svmlight", text, "several");
}

TEST(SparseFuzz, XmcIsReadOrRefused) {
  Fuzz("xmc", "4 9 3\n0,2 0:1 8:.5\n 3:1\n1 2:2 4:1\n2 \n", "several");
}

}  // namespace
}  // namespace lumen::data
