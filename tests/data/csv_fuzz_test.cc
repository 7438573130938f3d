// SPDX-License-Identifier: Apache-2.0
// Random and mutated files: a data set or an IoError, never a crash. A few
// seconds; LUMEN_FUZZ_SECONDS gives more.
#include <chrono>
#include <cmath>
#include <random>

#include "lumen/core/error.h"
#include "lumen/data/dataset.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

constexpr std::string_view kBytes = "0123456789-+.eE,,,\"\"\n\n\r\t ;anifNAxy";
const std::string kTable =
    "id,\"a\",b,c,y\r\n1,0.5,-2,red,1\n2,1e3,,\"blue, dark\",0\n"
    "3,nan,4,\"gr\"\"ey\n\",1\n4,.5,inf,red,\n5,6,7,NA,1";

std::string RandomText(std::mt19937_64* random) {
  std::string text;
  for (uint64_t n = (*random)() % 200; n > 0; --n) {
    text += (*random)() % 4 == 0 ? static_cast<char>((*random)())
                                 : kBytes[(*random)() % kBytes.size()];
  }
  return text;
}

std::string Mutated(std::string text, std::mt19937_64* random) {
  for (uint64_t n = 1 + (*random)() % 4; n > 0 && !text.empty(); --n) {
    const size_t at = (*random)() % text.size();
    switch ((*random)() % 4) {
      case 0:
        text[at] = kBytes[(*random)() % kBytes.size()];
        break;
      case 1:
        text.erase(at, 1 + (*random)() % 5);
        break;
      case 2:
        text.insert(at, 1, kBytes[(*random)() % kBytes.size()]);
        break;
      default:
        text.insert(at, text.substr((*random)() % text.size(), 10));
    }
  }
  return text;
}

TEST(CsvFuzz, AnyFileIsReadOrRefused) {
  const TestFolder folder;
  const auto spec = [&](const std::string& keys) {
    return DataSpec("{\"type\": \"csv\", \"root\": \"" + folder.path() +
                    "\", \"train\": \"a.csv\", " + keys + "}");
  };
  const Json specs[] = {
      spec("\"target\": \"y\", \"classes\": 2, \"categorical\": {\"c\": null}, "
           "\"missing\": \"drop\", \"ignore\": [\"id\"]"),
      spec("\"target\": \"1\", \"task\": \"value\", \"header\": false, "
           "\"missing\": \"drop\"")};
  const char* seconds = std::getenv("LUMEN_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(seconds ? std::atoi(seconds) : 0);
  std::mt19937_64 random(1);
  int64_t read = 0;
  for (int64_t i = 0; i < 1500 || std::chrono::steady_clock::now() < end; ++i) {
    const std::string text =
        i % 4 == 0 ? RandomText(&random) : Mutated(kTable, &random);
    Store(folder.File("a.csv"), text);
    SCOPED_TRACE(text);
    try {
      const auto data = OpenDataset(specs[i % 3 == 0], Split::kTrain);
      std::vector<float> x(data->shape().elements());
      std::vector<float> targets(data->targets());
      for (int64_t s = 0; s < data->size(); ++s) {
        const int32_t label = data->Read(s, x, targets);
        ASSERT_TRUE(label >= 0 && label < data->classes());
        for (const float value : x) ASSERT_TRUE(std::isfinite(value));
      }
      ++read;
    } catch (const IoError&) {
    } catch (const SpecError&) {  // a column is gone
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace lumen::data
