// SPDX-License-Identifier: Apache-2.0
#include "data/text_input.h"

#include <boost/iostreams/filter/bzip2.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filter/zstd.hpp>
#include <boost/iostreams/filtering_stream.hpp>
#include <vector>

#include "lumen/core/error.h"
#include "test_files.h"

namespace lumen::data {
namespace {

namespace io = boost::iostreams;

template <class Compressor>
std::string Compressed(const std::string& text) {
  std::string bytes;
  io::filtering_ostream stream;
  stream.push(Compressor());
  stream.push(io::back_inserter(bytes));
  stream << text;
  stream.reset();
  return bytes;
}

// Name and content of `text` in each format.
std::vector<std::pair<std::string, std::string>> AllFormats(
    const std::string& text) {
  return {{"gzip", Compressed<io::gzip_compressor>(text)},
          {"bzip2", Compressed<io::bzip2_compressor>(text)},
          {"xz", Compressed<io::lzma_compressor>(text)},
          {"zstd", Compressed<io::zstd_compressor>(text)}};
}

class TextInputTest : public testing::Test {
 protected:
  std::vector<std::string> Lines(const std::string& bytes) const {
    Store(path(), bytes);
    TextInput input(path());
    std::vector<std::string> lines;
    std::string_view line;
    while (input.Next(&line)) lines.emplace_back(line);
    EXPECT_EQ(input.line(), static_cast<int64_t>(lines.size()));
    return lines;
  }
  std::string path() const { return folder_.File("a.txt"); }
  TestFolder folder_;
};

TEST_F(TextInputTest, D2LineEndsDoNotMatter) {
  const std::vector<std::string> expected = {"a", "", "b c"};
  EXPECT_EQ(Lines("a\n\nb c\n"), expected);
  EXPECT_EQ(Lines("a\n\nb c"), expected);
  EXPECT_EQ(Lines("a\r\n\r\nb c\r\n"), expected);
  EXPECT_EQ(Lines("\xef\xbb\xbf"
                  "a\n\nb c"),
            expected);
  EXPECT_TRUE(Lines("").empty());
  EXPECT_EQ(Lines("\n").size(), 1u);
}

TEST_F(TextInputTest, LinesMayBeLongerThanTheBuffer) {
  const std::string line(700000, 'x');
  EXPECT_EQ(Lines(line + "\r\n" + line),
            (std::vector<std::string>{line, line}));
}

TEST_F(TextInputTest, ContentTellsTheCompression) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::vector<std::string> expected = Lines(text);
  for (const auto& [name, bytes] : AllFormats(text)) {
    EXPECT_EQ(Lines(bytes), expected) << name;
    EXPECT_EQ(Lines(bytes + bytes).size(), 2 * expected.size()) << name;
  }
}

TEST_F(TextInputTest, D7EveryTruncationIsAnErrorThatNamesTheFile) {
  for (const auto& [name, bytes] : AllFormats("1,2\n3,4\n5,6\n")) {
    for (size_t size = 8; size < bytes.size(); ++size) {
      SCOPED_TRACE(name + " " + std::to_string(size));
      ExpectError<IoError>([&] { Lines(bytes.substr(0, size)); },
                           {path() + ":1:", "cut short", name});
    }
  }
}

TEST_F(TextInputTest, D7DamageNeverCrashes) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(i * 7919) + "\n";
  for (const auto& [name, bytes] : AllFormats(text)) {
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string damaged = bytes;
      damaged[at] ^= 0x10;
      try {
        Lines(damaged);
      } catch (const IoError&) {
      }
    }
  }
}

TEST_F(TextInputTest, OtherEncodingsAndMissingFilesAreErrors) {
  ExpectError<IoError>(
      [&] {
        Lines(
            "\xff\xfe"
            "a");
      },
      {path(), "UTF-16"});
  ExpectError<IoError>([&] { TextInput input(folder_.File("none")); },
                       {folder_.File("none"), "cannot be opened"});
}

TEST(TextExtension, LooksBehindTheCompression) {
  EXPECT_EQ(TextExtension("/d/a.tsv.gz"), ".tsv");
  EXPECT_EQ(TextExtension("a.csv"), ".csv");
  EXPECT_EQ(TextExtension("a.b/c"), "");
}

}  // namespace
}  // namespace lumen::data
