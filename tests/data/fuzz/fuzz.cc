// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzz.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "lumen/core/error.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {

FuzzLoop::FuzzLoop(int64_t rounds) : rounds_(rounds) {
  const char* given = std::getenv("LUMEN_FUZZ_SECONDS");
  if (given == nullptr) return;
  const int tests = testing::UnitTest::GetInstance()->test_to_run_count();
  const std::chrono::duration<double> share(std::atof(given) / tests);
  end_ = std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::nanoseconds>(share);
  rounds_ = 0;
}

bool FuzzLoop::Next() {
  if (testing::Test::HasFailure()) {
    ADD_FAILURE() << "in round " << round_;
    return false;
  }
  ++round_;
  random_.seed(static_cast<uint64_t>(round_));
  if (rounds_ > 0 ? round_ < rounds_
                  : std::chrono::steady_clock::now() < end_) {
    return true;
  }
  testing::Test::RecordProperty("rounds", std::to_string(round_));
  std::printf("%ld rounds: %ld files read, %ld refused\n",
              static_cast<long>(round_), static_cast<long>(good_),
              static_cast<long>(bad_));
  return false;
}

size_t FuzzLoop::Below(size_t n) {
  return std::uniform_int_distribution<size_t>(0, n - 1)(random_);
}

std::string FuzzLoop::Damaged(std::string bytes,
                              const std::vector<std::string>& pieces) {
  for (size_t changes = Below(4); changes > 0 && !bytes.empty(); --changes) {
    // Headers are where damage does most.
    const size_t reach =
        Below(2) == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 64);
    const size_t at = Below(reach);
    switch (Below(7)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << Below(8));
        break;
      case 1:
        bytes[at] = static_cast<char>(Below(256));
        break;
      case 2: {  // a number of 1, 2, 4 or 8 bytes: 0, the largest, ...
        const char fill[] = {'\0', '\xff', '\x7f', '\x01'};
        bytes.replace(at, size_t{1} << Below(4), size_t{1} << Below(4),
                      fill[Below(4)]);
        break;
      }
      case 3:
        bytes.erase(at, 1 + Below(8));
        break;
      case 4:
        bytes.insert(at, bytes.substr(Below(bytes.size()), 1 + Below(16)));
        break;
      case 5:
        bytes.resize(at);
        break;
      default:
        if (!pieces.empty()) bytes.insert(at, pieces[Below(pieces.size())]);
    }
  }
  return bytes;
}

namespace {

void CheckSparse(const Dataset& data) {
  int64_t entries = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const SparseSample sample = data.ReadSparse(i);
    ASSERT_EQ(sample.index.size(), sample.value.size());
    entries += std::ssize(sample.index);
    for (size_t e = 0; e < sample.index.size(); ++e) {
      ASSERT_GT(sample.index[e], e == 0 ? -1 : sample.index[e - 1]);
      ASSERT_LT(sample.index[e], data.shape().channels);
      ASSERT_TRUE(std::isfinite(sample.value[e]));
    }
    ASSERT_TRUE(sample.label >= 0 && sample.label < data.classes());
    for (size_t l = 0; l < sample.labels.size(); ++l) {
      ASSERT_GT(sample.labels[l], l == 0 ? -1 : sample.labels[l - 1]);
      ASSERT_LT(sample.labels[l], data.classes());
    }
  }
  ASSERT_EQ(entries, data.row_sizes().entries);
}

}  // namespace

void CheckPromises(const Dataset& data) {
  ASSERT_GT(data.size(), 0);
  if (data.kind() == SampleKind::kSparse) return CheckSparse(data);
  std::vector<float> x(data.shape().elements());
  std::vector<float> targets(data.targets());
  for (int64_t i = 0; i < data.size(); ++i) {
    const int32_t label = data.Read(i, x, targets);
    ASSERT_TRUE(label >= 0 && label < data.classes()) << label;
    for (const float value : x) ASSERT_TRUE(std::isfinite(value));
    for (const float value : targets) ASSERT_TRUE(std::isfinite(value));
  }
}

void FuzzDatasets(const std::vector<FuzzCase>& cases, int64_t rounds,
                  const std::vector<std::string>& pieces) {
  FuzzLoop loop(rounds);
  // A folder per case, with whole files between the rounds.
  std::vector<TestFolder> folders(cases.size());
  std::vector<Json> specs;
  for (size_t c = 0; c < cases.size(); ++c) {
    std::string text = cases[c].spec;
    text.replace(text.find("FOLDER"), 6, folders[c].path());
    specs.push_back(DataSpec(text));
    for (const auto& [name, content] : cases[c].files) {
      const std::string path = folders[c].File(name);
      std::filesystem::create_directories(
          std::filesystem::path(path).parent_path());
      Store(path, content);
    }
    CheckPromises(*OpenDataset(specs[c], Split::kTrain));
  }
  while (loop.Next()) {
    const size_t c = static_cast<size_t>(loop.round()) % cases.size();
    const auto& [name, content] =
        cases[c].files[loop.Below(cases[c].files.size())];
    Store(folders[c].File(name), loop.Damaged(content, pieces));
    try {
      const auto data = OpenDataset(specs[c], Split::kTrain);
      CheckPromises(*data);
      // What plan counts is at least what reading needs.
      EXPECT_GE(GetDatasetInfo(specs[c]).memory_bytes, data->memory_bytes());
      loop.Good();
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(folders[c].path()));
      loop.Bad();
    } catch (const SpecError& error) {  // a column or a target is gone
      EXPECT_THAT(error.what(), testing::HasSubstr("data."));
      loop.Bad();
    }
    Store(folders[c].File(name), content);
  }
  EXPECT_GT(loop.good(), 0);
  EXPECT_GT(loop.bad(), 0);
}

}  // namespace lumen::data
