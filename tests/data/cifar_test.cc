// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/error.h"
#include "lumen/data/dataset.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

// `labels` per sample, then 3072 bytes that differ from sample to sample.
std::string Batch(const std::vector<std::string>& labels) {
  std::string bytes;
  for (size_t i = 0; i < labels.size(); ++i) {
    bytes += labels[i];
    for (size_t p = 0; p < 3072; ++p) {
      bytes += static_cast<char>(p * 7 + i * 31);
    }
  }
  return bytes;
}

class CifarTest : public testing::Test {
 protected:
  Json Spec(const std::string& more = "") const {
    return DataSpec(R"({"type": "cifar", "root": ")" + folder_.path() + "\"" +
                    more + "}");
  }
  std::unique_ptr<Dataset> Open(const std::string& more = "",
                                Split split = Split::kTrain) const {
    return OpenDataset(Spec(more), split);
  }
  void Put(const std::string& name, const std::vector<std::string>& labels) {
    Store(folder_.File(name), Batch(labels));
  }
  static std::vector<int32_t> Labels(const Dataset& data) {
    std::vector<int32_t> labels;
    std::vector<float> x(3072);
    for (int64_t i = 0; i < data.size(); ++i) {
      labels.push_back(data.Read(i, x, {}));
    }
    return labels;
  }
  TestFolder folder_;
};

// What published files are not: small.
constexpr char kSmall[] = R"(, "samples": {"train": 10, "test": 1})";

TEST_F(CifarTest, Cifar10IsFiveFilesInOrder) {
  for (int i = 1; i <= 5; ++i) {
    Put("data_batch_" + std::to_string(i) + ".bin",
        {std::string(1, static_cast<char>(i)), std::string(1, '\x9')});
  }
  Put("test_batch.bin", {std::string(1, '\0')});
  const auto data = Open(kSmall);
  EXPECT_EQ(Labels(*data),
            (std::vector<int32_t>{1, 9, 2, 9, 3, 9, 4, 9, 5, 9}));
  EXPECT_EQ(data->shape(), (Shape{.channels = 3, .height = 32, .width = 32}));
  std::vector<float> x(3072);
  data->Read(1, x, {});
  for (int64_t p = 0; p < 3072; ++p) {
    EXPECT_EQ(x[p], static_cast<float>((p * 7 + 31) % 256) / 255.0f);
  }
  EXPECT_EQ(Labels(*Open(kSmall, Split::kTest)), std::vector<int32_t>{0});
  EXPECT_EQ(Open("", Split::kValid), nullptr);
  const DatasetInfo info = GetDatasetInfo(Spec(kSmall));
  EXPECT_EQ(info.train_samples, 10);
  EXPECT_EQ(info.test_samples, 1);
  EXPECT_EQ(info.classes, 10);
  EXPECT_EQ(info.memory_bytes,
            data->memory_bytes() + Open(kSmall, Split::kTest)->memory_bytes());
  const std::string split =
      R"(, "train": ["data_batch_2.bin"], "valid": ["data_batch_5.bin"])";
  EXPECT_EQ(Labels(*Open(split)), (std::vector<int32_t>{2, 9}));
  EXPECT_EQ(Labels(*Open(split, Split::kValid)), (std::vector<int32_t>{5, 9}));
}

TEST_F(CifarTest, Cifar100HasFineAndCoarseLabels) {
  Put("train.bin", {"\x13\x63", std::string("\0\7", 2)});
  Put("test.bin", {"\1\2"});
  const std::string fine =
      R"(, "classes": 100, "samples": {"train": 2, "test": 1})";
  EXPECT_EQ(Labels(*Open(fine)), (std::vector<int32_t>{99, 7}));
  const auto coarse =
      Open(R"(, "classes": 20, "labels": "coarse", "train": ["train.bin"])");
  EXPECT_EQ(Labels(*coarse), (std::vector<int32_t>{19, 0}));
  EXPECT_EQ(coarse->classes(), 20);
  EXPECT_EQ(Labels(*Open(fine, Split::kTest)), std::vector<int32_t>{2});
  for (const char* wrong : {R"(, "classes": 20)", R"(, "classes": 50)",
                            R"(, "labels": "coarse")"}) {
    ExpectError<SpecError>([&] { Open(wrong); },
                           {"data.classes", "expected 10 or 100, or 20"});
  }
}

TEST_F(CifarTest, D7AFileCutBetweenTwoSamplesIsAnError) {
  const std::vector<std::string> labels(10000, "\3");
  for (int i = 1; i <= 5; ++i) {
    Put("data_batch_" + std::to_string(i) + ".bin", labels);
  }
  Put("test_batch.bin", labels);
  EXPECT_EQ(GetDatasetInfo(Spec()).train_samples, 50000);
  const std::string path = folder_.File("data_batch_5.bin");
  std::filesystem::resize_file(path, 9999 * 3073);
  for (const bool plan : {false, true}) {
    ExpectError<IoError>(
        [&] { plan ? (void)GetDatasetInfo(Spec()) : (void)Open(); },
        {path, "found 9999 samples", "expected 10000", "data.samples.train"});
  }
  // Where the spec names the files, it says how many samples they hold.
  const std::string named = R"(, "train": ["data_batch_5.bin"])";
  EXPECT_EQ(Open(named)->size(), 9999);
  ExpectError<SpecError>(
      [&] { Open(named + R"(, "samples": {"train": 10000})"); },
      {"data.samples.train: 10000", "expected 9999"});
}

TEST_F(CifarTest, BadFilesAreNamed) {
  const std::string path = folder_.File("x.bin");
  const auto expect = [&](const std::string& bytes,
                          std::initializer_list<std::string> texts) {
    Store(path, bytes);
    ExpectError<IoError>([&] { Open(R"(, "train": ["x.bin"])"); }, texts);
    ExpectError<IoError>([&] { Open(R"(, "train": ["x.bin"])"); }, {path});
  };
  const std::string whole = Batch({"\1", "\2"});
  expect("", {"found 0 bytes"});
  expect(whole.substr(0, 4000), {"sample 1", "4000 bytes", "3073"});
  expect(whole + "x", {"sample 2"});
  expect(Batch({"\1", "\x0a"}), {"sample 1", "label 10", "0 to 9"});
  expect(Batch({"\1\1"}), {"looks like CIFAR-100"});
  ExpectError<IoError>([&] { Open(R"(, "train": ["nix.bin"])"); },
                       {"data.train", folder_.File("nix.bin")});
  ExpectError<SpecError>([&] { GetDatasetInfo(Spec()); },
                         {"data_batch_1.bin", "data.samples.train"});
  const DatasetInfo info =
      GetDatasetInfo(Spec(R"(, "samples": {"train": 50000, "test": 10000})"));
  EXPECT_EQ(info.train_samples, 50000);
  EXPECT_EQ(info.memory_bytes, 60000 * (3072 + 4));
}

}  // namespace
}  // namespace lumen::data
