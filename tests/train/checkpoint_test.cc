// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/hash.h"
#include "lumen/data/h5_file.h"

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
    const Manifest manifest = {
        .step = step,
        .files = {{"model.h5", static_cast<int64_t>(content.size()),
                   HexDigest(HashFile(path + "/model.h5"))}},
        .best = best};
    WriteFileAtomically(path + "/MANIFEST.json",
                        ManifestJson(manifest).Dump(2));
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

// Of either file of a checkpoint with HDF5 inside: it is never taken.
TEST_F(CheckpointTest, WithAnyByteFlippedTheOlderOneIsTaken) {
  const std::string older = Write(1, "older");
  fs::create_directories(run_);
  const std::string source = run_ + "/source.h5";
  data::H5Writer file(source);
  file.WriteText("/spec", "{}");
  const std::vector<float> values = {1, 2, 3};
  file.Write("/parameters/fc1/values", values, {3});
  file.Close();
  const std::string path = Write(2, ReadFile(source));
  ASSERT_EQ(FindCheckpoint(run_), path);
  for (const char* name : {"/model.h5", "/MANIFEST.json"}) {
    const std::string text = ReadFile(path + name);
    for (size_t i = 0; i < text.size(); ++i) {
      std::string damaged = text;
      damaged[i] ^= 1 << i % 8;
      std::ofstream(path + name) << damaged;
      EXPECT_EQ(FindCheckpoint(run_), older) << name << " " << i;
    }
    for (size_t size : {size_t{0}, size_t{1}, text.size() - 2}) {
      std::ofstream(path + name) << text.substr(0, size);
      EXPECT_EQ(FindCheckpoint(run_), older) << name << " " << size;
    }
    std::ofstream(path + name) << text;
  }
  EXPECT_EQ(FindCheckpoint(run_), path);
}

TEST_F(CheckpointTest, ManifestsBeforeDigestsAreStillRead) {
  const std::string path = Write(1, "content");
  Json manifest = Json::Object();
  manifest.Set("format", std::string("lumen-checkpoint-1"));
  const Json now = Json::ParseFile(path + "/MANIFEST.json");
  for (const char* key : {"step", "best", "files"}) {
    manifest.Set(key, now.at(key));
  }
  WriteFileAtomically(path + "/MANIFEST.json", manifest.Dump(2));
  EXPECT_EQ(FindCheckpoint(run_), path);
  manifest.Set("digest", now.at("digest"));
  WriteFileAtomically(path + "/MANIFEST.json", manifest.Dump(2));
  EXPECT_THROW(FindCheckpoint(run_), IoError);
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
