// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/safetensors.h"

#include <cmath>
#include <cstring>
#include <random>

#include "lumen/core/error.h"
#include "test_files.h"

namespace lumen::data {
namespace {

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

template <class T>
NpyArray NewArray(char kind, std::vector<int64_t> shape,
                  const std::vector<T>& values) {
  NpyArray array;
  array.kind = kind;
  array.width = sizeof(T);
  array.shape = std::move(shape);
  array.bytes = Bytes(values);
  return array;
}

std::string File(const std::string& header, const std::string& values) {
  return Bytes<uint64_t>({header.size()}) + header + values;
}

std::string Tensor(const std::string& type, const std::string& shape, int begin,
                   int end) {
  return R"({"dtype":")" + type + R"(","shape":)" + shape +
         R"(,"data_offsets":[)" + std::to_string(begin) + "," +
         std::to_string(end) + "]}";
}

class SafetensorsTest : public testing::Test {
 protected:
  Safetensors Read(const std::string& bytes) const {
    Store(path_, bytes);
    return ReadSafetensors(path_);
  }
  void ExpectBad(const std::string& header, const std::string& values,
                 std::initializer_list<std::string> fragments) const {
    ExpectBadFile(File(header, values), fragments);
  }
  void ExpectBadFile(const std::string& bytes,
                     std::initializer_list<std::string> fragments) const {
    ExpectError<IoError>([&] { Read(bytes); }, fragments);
    ExpectError<IoError>([&] { Read(bytes); }, {path_ + ": "});
  }
  TestFolder folder_;
  std::string path_ = folder_.File("m.safetensors");
};

TEST_F(SafetensorsTest, EveryTypeIsRead) {
  const auto read = [&](const std::string& type, const std::string& values) {
    const Safetensors content = Read(
        File("{\"a\":" + Tensor(type, "[2]", 0, values.size()) + "}", values));
    EXPECT_EQ(content.tensors.size(), 1u);
    return content.tensors.at("a").ToFloat();
  };
  const std::vector<float> expected = {1, -2};
  EXPECT_EQ(read("F64", Bytes<double>({1, -2})), expected);
  EXPECT_EQ(read("F32", Bytes<float>({1, -2})), expected);
  EXPECT_EQ(read("F16", Bytes<uint16_t>({0x3c00, 0xc000})), expected);
  EXPECT_EQ(read("BF16", Bytes<uint16_t>({0x3f80, 0xc000})), expected);
  EXPECT_EQ(read("I64", Bytes<int64_t>({1, -2})), expected);
  EXPECT_EQ(read("I32", Bytes<int32_t>({1, -2})), expected);
  EXPECT_EQ(read("I16", Bytes<int16_t>({1, -2})), expected);
  EXPECT_EQ(read("I8", Bytes<int8_t>({1, -2})), expected);
  const std::vector<float> natural = {1, 200};
  EXPECT_EQ(read("U64", Bytes<uint64_t>({1, 200})), natural);
  EXPECT_EQ(read("U32", Bytes<uint32_t>({1, 200})), natural);
  EXPECT_EQ(read("U16", Bytes<uint16_t>({1, 200})), natural);
  EXPECT_EQ(read("U8", Bytes<uint8_t>({1, 200})), natural);
  EXPECT_EQ(read("BOOL", Bytes<uint8_t>({1, 0})), (std::vector<float>{1, 0}));
}

TEST_F(SafetensorsTest, EveryBfloat16KeepsItsBits) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = i;
  const Safetensors content = Read(File(
      "{\"a\":" + Tensor("BF16", "[65536]", 0, 131072) + "}", Bytes(halves)));
  const NpyArray& array = content.tensors.at("a");
  EXPECT_EQ(array.TypeName(), "float32");
  std::vector<uint32_t> bits(65536);
  ASSERT_EQ(array.bytes.size(), 4 * bits.size());
  std::memcpy(bits.data(), array.bytes.data(), array.bytes.size());
  for (uint32_t i = 0; i < bits.size(); ++i) ASSERT_EQ(bits[i], i << 16);
}

TEST_F(SafetensorsTest, ScalarsEmptyTensorsAndEmptyFilesAreRead) {
  const Safetensors content =
      Read(File("{\"none\":" + Tensor("F32", "[3,0]", 8, 8) +
                    ",\"steps\":" + Tensor("I64", "[]", 0, 8) + ",\"huge\":" +
                    Tensor("F32", "[9223372036854775807,9,0]", 0, 0) + "}",
                Bytes<int64_t>({123456})));
  EXPECT_EQ(content.tensors.at("steps").ToFloat(), std::vector<float>{123456});
  EXPECT_TRUE(content.tensors.at("steps").shape.empty());
  EXPECT_TRUE(content.tensors.at("none").ToFloat().empty());
  EXPECT_TRUE(content.tensors.at("huge").ToFloat().empty());
  EXPECT_TRUE(Read(File("{}", "")).tensors.empty());
  EXPECT_TRUE(Read(File("{}      ", "")).tensors.empty());
}

TEST_F(SafetensorsTest, TensorsMayBeListedInAnyOrder) {
  const Safetensors content =
      Read(File("{\"b\":" + Tensor("F32", "[1]", 8, 12) +
                    ",\"a\":" + Tensor("F32", "[2,1]", 0, 8) + "}   ",
                Bytes<float>({1, 2, 3})));
  EXPECT_EQ(content.tensors.at("a").ToFloat(), (std::vector<float>{1, 2}));
  EXPECT_EQ(content.tensors.at("a").shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(content.tensors.at("b").ToFloat(), std::vector<float>{3});
}

TEST_F(SafetensorsTest, NamesMayHoldEscapesAndUtf8) {
  const std::string tail = Tensor("U8", "[0]", 0, 0) + "}";
  const auto name = [&](const std::string& text) {
    return Read(File("{\"" + text + "\":" + tail, "")).tensors.begin()->first;
  };
  EXPECT_EQ(name("a.\\u0062\\\"\\\\\\n"), "a.b\"\\\n");
  EXPECT_EQ(name("gr\xC3\xB6\xC3\x9F"
                 "e"),
            "gr\xC3\xB6\xC3\x9F"
            "e");
  EXPECT_EQ(name("\\ud83d\\ude00"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(name(""), "");
  ExpectBad("{\"a\xFF\":" + tail, "", {"header"});
  ExpectBad("{\"a\xC0\x80\":" + tail, "", {"header"});
  ExpectBad("{\"\\ud83d\":" + tail, "", {"header"});
  ExpectBad("{\"\\x41\":" + tail, "", {"header"});
  ExpectBad("{\"a\n\":" + tail, "", {"header"});
  // The same name in two spellings.
  ExpectBad("{\"ab\":" + Tensor("U8", "[0]", 0, 0) + ",\"a\\u0062\":" + tail,
            "", {"key \"ab\" again"});
}

TEST_F(SafetensorsTest, MetadataIsKept) {
  const Safetensors content =
      Read(File(R"({"__metadata__":{"format":"pt","a b":"\u00e9"}})", ""));
  EXPECT_EQ(content.metadata, (std::map<std::string, std::string>{
                                  {"format", "pt"}, {"a b", "\xC3\xA9"}}));
  ExpectBad(R"({"__metadata__":{"format":1}})", "", {"__metadata__", "texts"});
  ExpectBad(R"({"__metadata__":"pt"})", "", {"__metadata__"});
}

TEST_F(SafetensorsTest, HeadersThatLieAreErrors) {
  const std::string f4 = Bytes<float>({1});
  const std::string f8 = Bytes<float>({1, 2});
  ExpectBadFile("", {"found 0 bytes; expected 8"});
  ExpectBadFile("1234567", {"found 7 bytes"});
  ExpectBadFile(Bytes<uint64_t>({1}), {"header of 1 bytes", "at most 0"});
  ExpectBadFile(Bytes<uint64_t>({~uint64_t{0}}) + "{}",
                {"18446744073709551615", "at most 2"});
  ExpectBadFile(File("", ""), {"JSON object"});
  ExpectBadFile(File("[]", ""), {"JSON object"});
  ExpectBadFile(File(" {}", ""), {"begins with {"});
  ExpectBadFile(File("{} x", ""), {"header"});
  ExpectBadFile(File("{\"a\":", ""), {"header"});
  ExpectBad("{\"a\":[1]}", "", {"\"a\"", "an array"});
  ExpectBad(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", f4,
            {"\"a\": dtype: missing", "F64, F32"});
  ExpectBad("{\"a\":" + Tensor("F8_E4M3", "[4]", 0, 4) + "}", f4,
            {"\"a\": dtype: \"F8_E4M3\"", "BF16"});
  ExpectBad(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", f4,
            {"dtype: 7"});
  ExpectBad(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", f4,
            {"\"a\": shape: missing"});
  ExpectBad(R"({"a":{"dtype":"F32","shape":[1]}})", f4,
            {"\"a\": data_offsets: missing"});
  ExpectBad(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})",
            f4, {"\"a\"", "key \"x\""});
  for (const std::string shape : {"[-1]", "[1.0]", "1", "[\"1\"]", "[null]"}) {
    ExpectBad("{\"a\":" + Tensor("F32", shape, 0, 4) + "}", f4,
              {"\"a\": shape", "at least 0"});
  }
  for (const std::string offsets : {"[0]", "[0,4,8]", "[4,0]", "[0,8]", "[4,8]",
                                    "[]", "[0,9223372036854775807]"}) {
    ExpectBad(
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + offsets + "}}",
        f4, {"\"a\": data_offsets", "within the 4 bytes"});
  }
  ExpectBad("{\"a\":" + Tensor("F32", "[1]", -4, 0) + "}", f4, {"at least 0"});
  ExpectBad(
      "{\"a\":" + Tensor("F32", "[2]", 0, 4) + "}", f4,
      {"\"a\": data_offsets of 4 bytes; expected 8 for F32 of shape [2]"});
  ExpectBad("{\"a\":" + Tensor("F32", "[4294967296,4294967296]", 0, 4) + "}",
            f4, {"more than 2^63"});
  ExpectBad("{\"a\":" + Tensor("F32", "[0]", 0, 4) + "}", f4, {"expected 0"});
  ExpectBad("{\"a\":" + Tensor("F32", "[1]", 0, 4) + "}", f8,
            {"found 8 bytes of values; expected 4"});
  ExpectBad("{\"a\":" + Tensor("F32", "[1]", 4, 8) + "}", f8,
            {"\"a\"", "expected begin 0", "a hole"});
  ExpectBad("{\"a\":" + Tensor("F32", "[1]", 0, 4) +
                ",\"b\":" + Tensor("F32", "[2]", 0, 8) + "}",
            f8, {"\"b\"", "expected begin 4", "overlap"});
  ExpectBad("{\"a\":" + Tensor("F32", "[1]", 0, 4) +
                ",\"a\":" + Tensor("F32", "[1]", 4, 8) + "}",
            f8, {"key \"a\" again"});
  ExpectError<IoError>([&] { ReadSafetensors(folder_.File("absent")); },
                       {folder_.File("absent"), "cannot be opened"});
}

TEST_F(SafetensorsTest, AHeaderAboveTheLimitIsNotRead) {
  // A sparse file: it takes no disk.
  Store(path_, Bytes<uint64_t>({100'000'001}));
  std::filesystem::resize_file(path_, 200'000'000);
  ExpectError<IoError>([&] { ReadSafetensors(path_); },
                       {"header of 100000001 bytes", "at most 100000000"});
}

Safetensors Mixed() {
  Safetensors content;
  content.metadata = {{"format", "pt"}, {"by \"x\"", "\xC3\xA9\n"}};
  auto& tensors = content.tensors;
  tensors["w"] = NewArray<float>('f', {2, 3}, {1, -2, 0.1f, NAN, -0.0f, 1e30f});
  tensors["d"] = NewArray<double>('f', {1}, {0.1});
  tensors["h"] = NewArray<uint16_t>('f', {3}, {0x3c00, 1, 0xfc00});
  tensors["h"].width = 2;
  tensors["steps"] = NewArray<int64_t>('i', {}, {-7});
  tensors["i4"] = NewArray<int32_t>('i', {1}, {1 << 30});
  tensors["i2"] = NewArray<int16_t>('i', {1}, {-300});
  tensors["i1"] = NewArray<int8_t>('i', {3}, {-128, 0, 127});
  tensors["u8"] = NewArray<uint64_t>('u', {1}, {~uint64_t{0}});
  tensors["u4"] = NewArray<uint32_t>('u', {1}, {~uint32_t{0}});
  tensors["u2"] = NewArray<uint16_t>('u', {1}, {65535});
  tensors["u1"] = NewArray<uint8_t>('u', {1, 1, 1}, {255});
  tensors["b"] = NewArray<uint8_t>('b', {2}, {1, 0});
  tensors["gr\xC3\xB6\xC3\x9F\"e"] = NewArray<float>('f', {2, 0}, {});
  return content;
}

void ExpectSame(const Safetensors& a, const Safetensors& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, array] : a.tensors) {
    const NpyArray& other = b.tensors.at(name);
    EXPECT_EQ(array.TypeName(), other.TypeName()) << name;
    EXPECT_EQ(array.shape, other.shape) << name;
    EXPECT_EQ(array.bytes, other.bytes) << name;
  }
}

TEST_F(SafetensorsTest, WhatIsWrittenIsReadBack) {
  const Safetensors content = Mixed();
  WriteSafetensors(path_, content);
  ExpectSame(ReadSafetensors(path_), content);
  const std::string bytes = Load(path_);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  WriteSafetensors(path_, content);
  EXPECT_EQ(Load(path_), bytes);
  WriteSafetensors(path_, {});
  EXPECT_EQ(Load(path_), File("{}      ", ""));
  ExpectError<IoError>(
      [&] { WriteSafetensors(folder_.File("no/m.safetensors"), content); },
      {folder_.File("no/m.safetensors"), "cannot be written"});
}

TEST_F(SafetensorsTest, OneTensorIsWrittenAsTheFormatSays) {
  Safetensors content;
  content.tensors["a"] = NewArray<float>('f', {1, 2}, {1, 2});
  WriteSafetensors(path_, content);
  EXPECT_EQ(Load(path_),
            File(R"({"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})",
                 Bytes<float>({1, 2})));
}

TEST_F(SafetensorsTest, EachTruncationIsAnError) {
  WriteSafetensors(path_, Mixed());
  const std::string bytes = Load(path_);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(Read(bytes.substr(0, size)), IoError) << size;
  }
  EXPECT_THROW(Read(bytes + '\0'), IoError);
}

// A damaged file is refused, or each byte of its values belongs to a tensor.
TEST_F(SafetensorsTest, DamageIsAnErrorOrReadAsItStands) {
  WriteSafetensors(path_, Mixed());
  const std::string bytes = Load(path_);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const size_t data_offset = 8 + length;
  int64_t refused = 0;
  const auto check = [&](const std::string& damaged, bool header_is_whole) {
    try {
      const Safetensors content = Read(damaged);
      size_t total = 0;
      for (const auto& [name, array] : content.tensors) {
        total += array.bytes.size();
        EXPECT_EQ(static_cast<int64_t>(array.bytes.size()),
                  array.elements() * array.width);
      }
      // F16 that became BF16 is widened.
      EXPECT_GE(total, bytes.size() - data_offset);
      EXPECT_LE(total, bytes.size() - data_offset + 6);
      if (header_is_whole) {
        WriteSafetensors(path_, content);
        EXPECT_EQ(Load(path_), damaged);
      }
    } catch (const IoError&) {
      EXPECT_FALSE(header_is_whole);
      ++refused;
    }
  };
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const size_t bit : {at % 8, (at + 3) % 8}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      check(damaged, at >= data_offset);
    }
  }
  EXPECT_GT(refused, static_cast<int64_t>(data_offset));
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::string damaged = bytes;
    for (uint32_t i = 0; i <= random() % 4; ++i) {
      damaged[random() % data_offset] =
          "0123456789[]{},:\"\\ aF-.e"[random() % 24];
    }
    check(damaged, false);
  }
}

}  // namespace
}  // namespace lumen::data
