// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/hash.h"

namespace lumen::train {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    run_ = (fs::temp_directory_path() /
            ("lumen-checkpoint-" + std::to_string(getpid())))
               .string();
    fs::remove_all(run_);
  }
  void TearDown() override { fs::remove_all(run_); }

  // A checkpoint of one file with this content.
  std::string Write(int64_t step, const std::string& content,
                    const Json& best = Json()) {
    const std::string path = run_ + "/checkpoints/step-" + std::to_string(step);
    fs::create_directories(path);
    WriteFileAtomically(path + "/model.h5", content);
    Json file = Json::Object();
    file.Set("name", "model.h5");
    file.Set("bytes", static_cast<int64_t>(content.size()));
    file.Set("digest", HexDigest(HashFile(path + "/model.h5")));
    Json files = Json::Array();
    files.Append(file);
    Json manifest = Json::Object();
    manifest.Set("format", "lumen-checkpoint-1");
    manifest.Set("step", step);
    manifest.Set("best", best);
    manifest.Set("files", files);
    WriteFileAtomically(path + "/MANIFEST.json", manifest.Dump(2));
    return path;
  }

  std::string run_;
};

TEST_F(CheckpointTest, NewestFirstByNumberNotByName) {
  for (int64_t step : {5, 100, 20}) Write(step, "x");
  fs::create_directories(run_ + "/checkpoints/step-7x");
  fs::create_directories(run_ + "/checkpoints/other");
  const auto all = ListCheckpoints(run_);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[0].ends_with("step-100"));
  EXPECT_TRUE(all[2].ends_with("step-5"));
  EXPECT_TRUE(ListCheckpoints(run_ + "/nowhere").empty());
}

TEST_F(CheckpointTest, EveryFlippedByteOfAFileIsFound) {
  const std::string content(700, 'a');
  const std::string path = Write(1, content);
  const Manifest manifest = ReadManifest(path);
  EXPECT_NO_THROW(VerifyFile(path, manifest, "model.h5"));
  for (size_t i = 0; i < content.size(); ++i) {
    std::string damaged = content;
    damaged[i] ^= 1 << i % 8;
    WriteFileAtomically(path + "/model.h5", damaged);
    EXPECT_THROW(VerifyFile(path, manifest, "model.h5"), IoError) << i;
  }
  for (size_t size : {size_t{0}, size_t{1}, content.size() - 1}) {
    WriteFileAtomically(path + "/model.h5", content.substr(0, size));
    EXPECT_THROW(VerifyFile(path, manifest, "model.h5"), IoError);
  }
  EXPECT_THROW(VerifyFile(path, manifest, "shard-0.h5"), IoError);
}

TEST_F(CheckpointTest, ADamagedManifestIsAnErrorOrSaysTheSameThing) {
  const std::string path = Write(1, "content");
  const std::string text = ReadFile(path + "/MANIFEST.json");
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] ^= 1 << bit;
      WriteFileAtomically(path + "/MANIFEST.json", damaged);
      try {
        const Manifest manifest = ReadManifest(path);
        VerifyFile(path, manifest, "model.h5");
      } catch (const IoError&) {
      }
    }
    WriteFileAtomically(path + "/MANIFEST.json", text.substr(0, i));
    // Without its final newline it still says everything.
    if (i + 1 < text.size()) {
      EXPECT_THROW(ReadManifest(path), IoError) << i;
    }
  }
}

TEST_F(CheckpointTest, FindTakesTheBestElseTheNewestWholeOne) {
  Write(10, "a");
  Write(20, "b");
  Write(30, "c");
  EXPECT_TRUE(FindCheckpoint(run_).ends_with("step-30"));
  WriteFileAtomically(run_ + "/checkpoints/step-30/model.h5", "d");
  EXPECT_TRUE(FindCheckpoint(run_).ends_with("step-20"));
  Json best = Json::Object();
  best.Set("step", 10);
  Write(40, "e", best);
  EXPECT_TRUE(FindCheckpoint(run_).ends_with("step-10"));
  EXPECT_THROW(FindCheckpoint(run_ + "/checkpoints/step-30"), IoError);
  EXPECT_TRUE(
      FindCheckpoint(run_ + "/checkpoints/step-20").ends_with("step-20"));
  EXPECT_THROW(FindCheckpoint(run_ + "/nowhere"), IoError);
}

}  // namespace
}  // namespace lumen::train
