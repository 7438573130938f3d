// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "lumen/core/error.h"
#include "lumen/data/loader.h"
#include "test_images.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

std::string Grey(int value) {
  return Png(1, 2, std::string(2, static_cast<char>(value)), {});
}

class ImageFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    Put("train/cat/b.png", Grey(1));
    Put("train/cat/a.PNG", Grey(2));
    Put("train/cat/deep/er/c.png", Grey(3));
    Put("train/ant/z.tif", Tiff(Picture(1, 2, 1)));
    Put("train/dog/j.jpeg", Jpeg(Picture(1, 2, 3)));
    Put("test/dog/1.png", Grey(7));
  }
  void Put(const std::string& name, const std::string& bytes) {
    const std::filesystem::path path = folder_.File(name);
    std::filesystem::create_directories(path.parent_path());
    Store(path.string(), bytes);
  }
  Json Spec(const std::string& more = "") const {
    return DataSpec(fmt::format(
        R"({{"type": "image_folder", "root": "{}", "train": "train", )"
        R"("test": "test", "size": [1, 2], "channels": 1{}}})",
        folder_.path(), more));
  }
  std::unique_ptr<Dataset> Open(const std::string& more = "",
                                Split split = Split::kTrain) const {
    return OpenDataset(Spec(more), split);
  }
  // "label:first value" of all samples.
  static std::string Content(const Dataset& data) {
    std::string text;
    std::vector<float> x(data.shape().elements());
    for (int64_t i = 0; i < data.size(); ++i) {
      const int32_t label = data.Read(i, x, {});
      text += fmt::format("{}:{:.0f} ", label, x[0] * 255);
    }
    return text;
  }
  TestFolder folder_;
};

TEST_F(ImageFolderTest, SortedSubFoldersAreTheClassesAndSortedNamesTheOrder) {
  const auto data = Open();
  EXPECT_EQ(data->classes(), 3);
  EXPECT_EQ(data->shape(), (Shape{.height = 1, .width = 2}));
  EXPECT_EQ(data->size(), 5);
  EXPECT_THAT(Content(*data), testing::StartsWith("0:20 1:2 1:1 1:3 2:"));
  EXPECT_EQ(Content(*Open("", Split::kTest)), "2:7 ");
  EXPECT_EQ(Open("", Split::kValid), nullptr);
}

TEST_F(ImageFolderTest, ClassNamesGiveTheNumbers) {
  const auto data = Open(R"(, "class_names": ["dog", "cow", "cat", "ant"])");
  EXPECT_EQ(data->classes(), 4);
  EXPECT_THAT(Content(*data), testing::StartsWith("3:20 2:2 2:1 2:3 0:"));
  ExpectError<IoError>([&] { Open(R"(, "class_names": ["dog", "ant"])"); },
                       {"train/cat: is the folder of no class", "dog, ant"});
}

TEST_F(ImageFolderTest, HiddenFilesAreIgnoredAndOthersCountedByName) {
  const uint64_t before = Open()->fingerprint();
  Put("train/.hidden/a.png", Grey(1));
  Put("train/cat/.a.png", "x");
  Put("train/cat/notes.TXT", "x");
  Put("train/cat/LICENSE", "x");
  Put("train/list.png", "x");
  testing::internal::CaptureStderr();
  EXPECT_EQ(Open()->fingerprint(), before);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr("3 files left out"),
                             testing::HasSubstr("no extension (1), .png (1), "
                                                ".txt (1)")));
}

TEST_F(ImageFolderTest, ATableOfLabelsMayReplaceSubFolders) {
  Put("t.csv", "file,label\r\ncat/b.png,2\r\ndog/j.jpeg,0\n\nant/z.tif,1");
  const std::string labels = R"(, "labels": {"train": "t.csv"})";
  const auto data = Open(labels + R"(, "classes": 3)");
  EXPECT_EQ(data->size(), 3);
  EXPECT_THAT(Content(*data), testing::StartsWith("2:1 0:"));
  Put("t.csv", "cat/b.png,owl\n");
  EXPECT_EQ(Content(*Open(labels + R"(, "class_names": ["cat", "owl"])")),
            "1:1 ");
  const std::string path = folder_.File("t.csv");
  const auto expect = [&](const std::string& text, const std::string& what) {
    Put("t.csv", text);
    ExpectError<IoError>([&] { Open(labels + R"(, "classes": 3)"); },
                         {path, what});
  };
  expect("cat/b.png,3\n", ":1: label \"3\"; expected 0 to 2");
  expect("cat/b.png,-1\n", "label \"-1\"");
  expect("cat/b.png,\n", "label \"\"");
  expect("cat/b.png\n", "expected file,label");
  expect("cat/b,c.png,1\n", ":1: found 3 cells, the first \"cat/b\"");
  expect("\"cat/b,c.png\",1\n", folder_.File("train/cat/b,c.png"));
  expect("cat/b.png,1\ncat/b.png,1\n",
         ":2: file \"cat/b.png\" stands in line 1");
  expect("cat/b.png,1\nnix.png,1\n", ":2: " + folder_.File("train/nix.png"));
  expect("cat,1\n", "is no regular file");
  ExpectError<IoError>([&] { Open(labels + R"(, "class_names": ["owl"])"); },
                       {"label \"1\""});
  ExpectError<SpecError>([&] { Open(labels); },
                         {"data.labels", "data.classes or data.class_names"});
  ExpectError<SpecError>(
      [&] { Open(labels + R"(, "classes": 3)", Split::kTest); },
      {"data.test", "data.labels.test"});
}

TEST_F(ImageFolderTest, WrongKeysAndFoldersAreNamed) {
  ExpectError<SpecError>([&] { Open(R"(, "classes": 4)"); },
                         {"test.json:1: data.classes: 4; expected 3"});
  ExpectError<SpecError>([&] { Open(R"(, "shape": [1, 2, 1])"); },
                         {"data.shape", "1x1x2"});
  ExpectError<SpecError>([&] { Open(R"(, "samples": {"train": 6})"); },
                         {"data.samples.train", "6", "5"});
  ExpectError<IoError>([&] { Open(R"(, "valid": "nix")", Split::kValid); },
                       {"data.valid", folder_.File("nix"), "not there"});
  ExpectError<IoError>(
      [&] { Open(R"(, "valid": "train/ant/z.tif")", Split::kValid); },
      {"data.valid", "is no folder"});
  ExpectError<IoError>(
      [&] { Open(R"(, "valid": "train/cat")", Split::kValid); },
      {"train/cat/deep: is the folder of no class"});
  std::filesystem::create_directories(folder_.File("empty/cat"));
  ExpectError<IoError>([&] { Open(R"(, "valid": "empty")", Split::kValid); },
                       {"empty: found no images"});
  std::filesystem::create_directory_symlink(folder_.File("train/cat"),
                                            folder_.File("train/cat/loop"));
  ExpectError<IoError>([&] { Open(); }, {"folders deep"});
}

TEST_F(ImageFolderTest, InfoListsFilesOrTakesDeclaredKeys) {
  DatasetInfo info = GetDatasetInfo(Spec());
  EXPECT_EQ(info.train_samples, 5);
  EXPECT_EQ(info.test_samples, 1);
  EXPECT_EQ(info.classes, 3);
  EXPECT_EQ(info.shape, (Shape{.height = 1, .width = 2}));
  EXPECT_GT(info.memory_bytes, 0);
  std::filesystem::remove_all(folder_.File("train"));
  std::filesystem::remove_all(folder_.File("test"));
  info = GetDatasetInfo(
      Spec(R"(, "classes": 9, "samples": {"train": 70, "test": 2})"));
  EXPECT_EQ(info.train_samples, 70);
  EXPECT_EQ(info.classes, 9);
  ExpectError<SpecError>([&] { GetDatasetInfo(Spec()); },
                         {"data.train", "data.classes", "data.samples.train"});
}

TEST_F(ImageFolderTest, TheFingerprintIsOfNamesSizesAndLabels) {
  const uint64_t before = Open()->fingerprint();
  EXPECT_NE(Open(R"(, "class_names": ["cat", "ant", "dog"])")->fingerprint(),
            before);
  EXPECT_NE(Open(R"(, "fit": "pad")")->fingerprint(), before);
  Put("train/cat/b.png", Grey(1) + "x");
  EXPECT_NE(Open()->fingerprint(), before);
  Put("train/cat/b.png", Grey(1));
  EXPECT_EQ(Open()->fingerprint(), before);
  std::filesystem::rename(folder_.File("train/cat/b.png"),
                          folder_.File("train/cat/b2.png"));
  EXPECT_NE(Open()->fingerprint(), before);
}

TEST_F(ImageFolderTest, ABadFileIsAnErrorOrASkippedLane) {
  Put("train/cat/b.png", Grey(1).substr(0, 40));
  Put("train/cat/deep/er/c.png", "");
  const auto run = [&](const std::string& more) {
    const Json spec = Spec(R"(, "order": "file", "normalize": {"mean": [0.5], )"
                           R"("std": [1]})" +
                           more);
    const auto data = OpenDataset(spec, Split::kTrain);
    const SampleOrder order(5, 5, 1, 1, DataOrder(spec), Tail::kKeep);
    Loader loader(data.get(), order, NewTransform(spec, data->shape()),
                  LaneLayout::For(5), {0}, 0, 1);
    const Batch* batch = loader.Next();
    EXPECT_EQ(batch->labels, (std::vector<int32_t>{0, 1, -1, -1, 2}));
    EXPECT_EQ(batch->valid, 3);
    EXPECT_EQ(batch->x.tile(0)[2], 0.0f);
    EXPECT_EQ(batch->x.tile(0)[1], 2 / 255.0f - 0.5f);
    EXPECT_EQ(loader.bad_samples(), 2);
  };
  ExpectError<IoError>([&] { run(""); },
                       {folder_.File("train/cat/b.png") + ": sample 2: "});
  testing::internal::CaptureStderr();
  run(R"(, "on_bad_sample": "skip")");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr("b.png: sample 2"),
                             testing::HasSubstr("c.png: sample 3: is empty"),
                             testing::HasSubstr("2 bad samples skipped")));
}

TEST(FashionMnist, IsTheSameThroughPng) {
  const std::string root = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(root)) {
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  }
  const auto idx = OpenDataset(
      DataSpec(R"({"type": "idx", "root": ")" + root +
               R"(", "train": {"x": "t10k-images-idx3-ubyte.gz", )"
               R"("y": "t10k-labels-idx1-ubyte.gz"}, "classes": 10})"),
      Split::kTrain);
  const TestFolder folder;
  std::vector<float> x(784);
  std::vector<std::vector<float>> of_class[10];
  for (int64_t i = 0; i < 300; ++i) {
    const int32_t label = idx->Read(i, x, {});
    Image image{28, 28, 1, {}};
    for (const float v : x) {
      image.pixels.push_back(static_cast<uint8_t>(std::lround(v * 255)));
    }
    const std::string path = folder.File(std::to_string(label));
    std::filesystem::create_directories(path);
    Store(fmt::format("{}/{:05}.png", path, i), Png(image));
    of_class[label].push_back(x);
  }
  const auto data = OpenDataset(
      DataSpec(R"({"type": "image_folder", "train": ")" + folder.path() +
               R"(", "size": [28, 28], "channels": 1})"),
      Split::kTrain);
  ASSERT_EQ(data->size(), 300);
  int64_t at = 0;
  for (int32_t label = 0; label < 10; ++label) {
    for (const std::vector<float>& expected : of_class[label]) {
      EXPECT_EQ(data->Read(at++, x, {}), label);
      EXPECT_EQ(x, expected);
    }
  }
}

}  // namespace
}  // namespace lumen::data
