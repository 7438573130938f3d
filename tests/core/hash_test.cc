// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <vector>

#include "lumen/core/error.h"

namespace lumen {
namespace {

std::string DigestOf(std::string_view text) {
  Hasher hasher;
  hasher.Update(text);
  return HexDigest(hasher.Digest());
}

TEST(Hash, GivesTheKnownDigestsOfXxh64) {
  EXPECT_EQ(DigestOf(""), "ef46db3751d8e999");
  EXPECT_EQ(DigestOf("a"), "d24ec4f1a98c6e5b");
  EXPECT_EQ(DigestOf("abc"), "44bc2cf5ad770999");
  EXPECT_EQ(DigestOf("Nobody inspects the spammish repetition"),
            "fbcea83c8a378bf1");
}

TEST(Hash, PiecesGiveTheDigestOfTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i);
  for (const size_t piece : {1, 3, 31, 32, 33, 1000}) {
    Hasher hasher;
    for (size_t at = 0; at < text.size(); at += piece) {
      hasher.Update(std::string_view(text).substr(at, piece));
      hasher.Update(nullptr, 0);
    }
    EXPECT_EQ(HexDigest(hasher.Digest()), DigestOf(text));
    EXPECT_EQ(HexDigest(hasher.Digest()), DigestOf(text)) << "digest ends it";
  }
}

TEST(Hash, SpansHashTheirBytes) {
  const std::vector<uint16_t> values = {0x6261, 0x6463};  // "abcd"
  Hasher hasher;
  hasher.Update(std::span(values));
  EXPECT_EQ(HexDigest(hasher.Digest()), DigestOf("abcd"));
}

TEST(Hash, HexDigestsHaveSixteenDigits) {
  EXPECT_EQ(HexDigest(0), "0000000000000000");
  EXPECT_EQ(HexDigest(0xABCDEF), "0000000000abcdef");
  EXPECT_EQ(HexDigest(~uint64_t{0}), "ffffffffffffffff");
}

TEST(Hash, FilesAreStreamed) {
  const std::string path = ::testing::TempDir() + "lumen_hash_test";
  for (const size_t size : {0, 1, 1 << 20, (1 << 20) + 1, 3000000}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; i += 7) text[i] = static_cast<char>(i);
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(HexDigest(HashFile(path)), DigestOf(text)) << size;
  }
  std::remove(path.c_str());
  try {
    HashFile(path);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(),
              path + ": opening failed: No such file or directory");
  }
  EXPECT_THROW(HashFile(::testing::TempDir()), IoError);
}

}  // namespace
}  // namespace lumen
