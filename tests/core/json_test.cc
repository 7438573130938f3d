// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "lumen/core/error.h"

namespace lumen {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& text) {
  try {
    Json::Parse(text, "a.json");
  } catch (const SpecError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, ReadsEveryKindOfValue) {
  const Json json = Json::Parse(
      R"({"n": null, "t": true, "f": false, "i": -7, "d": 2.5,
          "s": "a\n\u00e9\ud83d\ude00", "a": [1, [], {}], "o": {"k": "v"}})",
      "a.json");
  EXPECT_TRUE(json.at("n").is_null());
  EXPECT_TRUE(json.at("t").boolean());
  EXPECT_FALSE(json.at("f").boolean());
  EXPECT_EQ(json.at("i").integer(), -7);
  EXPECT_EQ(json.at("i").number(), -7.0);
  EXPECT_EQ(json.at("d").number(), 2.5);
  EXPECT_EQ(json.at("s").text(), "a\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(json.at("a").items().size(), 3u);
  EXPECT_EQ(json.at("o").at("k").text(), "v");
  EXPECT_EQ(json.Find("absent"), nullptr);
}

TEST(Json, EveryValueKnowsItsLine) {
  const Json json = Json::Parse(
      "// a comment\n"
      "{\n"
      "  \"a\": 1, /* over\n"
      "  two lines */ \"b\": [\n"
      "    true,\r\n"
      "    {\"c\":\n"
      "      \"x\"}\n"
      "  ],\n"
      "}\n",
      "jobs/a.json");
  EXPECT_EQ(json.where(), "jobs/a.json:2");
  EXPECT_EQ(json.at("a").where(), "jobs/a.json:3");
  EXPECT_EQ(json.at("b").where(), "jobs/a.json:4");
  EXPECT_EQ(json.at("b").items()[0].where(), "jobs/a.json:5");
  EXPECT_EQ(json.at("b").items()[1].where(), "jobs/a.json:6");
  EXPECT_EQ(json.at("b").items()[1].at("c").where(), "jobs/a.json:7");
  EXPECT_EQ(Json(1).where(), "");
}

TEST(Json, TakesCommentsTrailingCommasAndAByteOrderMark) {
  EXPECT_EQ(Json::Parse("\xEF\xBB\xBF[1, 2, // two\n 3,]", "a").Dump(),
            "[1,2,3]");
  EXPECT_EQ(Json::Parse("{\"a\": {}, }\n\n// the end", "a").Dump(),
            "{\"a\":{}}");
  EXPECT_EQ(Json::Parse("1", "a").integer(), 1);
  EXPECT_EQ(Json::Parse("  12\n  \n", "a").integer(), 12);
}

TEST(Json, DuplicateKeysAreErrorsThatNameBothLines) {
  EXPECT_EQ(ErrorOf("{\"a\": 1,\n \"b\": 2,\n \"a\": 3}"),
            "a.json:3: key \"a\" again, first seen at a.json:1; expected it "
            "once");
  EXPECT_EQ(ErrorOf("{\"a\": {\"b\": 1}, \"b\": 2}"), "no error");
}

TEST(Json, IntegersAreExactOrErrors) {
  EXPECT_EQ(Json::Parse("9223372036854775807", "a").integer(),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Json::Parse("-9223372036854775808", "a").integer(),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Json::Parse("9007199254740993", "a").integer(), 9007199254740993);
  EXPECT_THAT(ErrorOf("[\n9223372036854775808]"),
              StartsWith("a.json:2: integer 9223372036854775808;"));
  EXPECT_THAT(ErrorOf("-9223372036854775809"), StartsWith("a.json:1: integer"));
  EXPECT_THAT(ErrorOf("123456789012345678901234567890"),
              StartsWith("a.json:1: integer"));
  EXPECT_THAT(ErrorOf("1e999"), StartsWith("a.json:1: number 1e999"));
}

TEST(Json, BrokenTextIsAnErrorWithItsLine) {
  EXPECT_THAT(ErrorOf(""), StartsWith("a.json:1: "));
  EXPECT_THAT(ErrorOf("\n\n"), StartsWith("a.json:2: "));
  EXPECT_THAT(ErrorOf("{\n\"a\": 1\n\"b\": 2}"),
              StartsWith("a.json:3: found '\"b\": 2}' in column 1; expected"));
  EXPECT_THAT(ErrorOf("{\"a\": 1"), StartsWith("a.json:1: the text ends"));
  EXPECT_THAT(ErrorOf("{\"a\": \"x\ny\"}"), StartsWith("a.json:1: "));
  EXPECT_THAT(ErrorOf("{} \n x"), StartsWith("a.json:2: found 'x' after"));
  EXPECT_THAT(ErrorOf("{}{}"), HasSubstr("after the value"));
  EXPECT_THAT(ErrorOf("{'a': 1}"), StartsWith("a.json:1: found"));
  EXPECT_THAT(ErrorOf("[NaN]"), StartsWith("a.json:1: found 'NaN]'"));
  EXPECT_THAT(ErrorOf("[01]"), StartsWith("a.json:1: found"));
  EXPECT_THAT(ErrorOf("/* no end"), StartsWith("a.json:1: the text ends"));
  EXPECT_THAT(ErrorOf("[\"\xff\"]"), StartsWith("a.json:1: "));
  EXPECT_THAT(ErrorOf(std::string("[1]\0", 4)), StartsWith("a.json:1: "));
}

TEST(Json, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(ErrorOf(nested(64)), "no error");
  EXPECT_THAT(ErrorOf(nested(65)), HasSubstr("at most 64 levels"));
  EXPECT_THAT(ErrorOf(nested(1000000)), HasSubstr("at most 64 levels"));
}

TEST(Json, EveryTruncationIsAnErrorNotACrash) {
  const std::string text =
      "{\"a\": [1, -2.5e3, true, null, \"\\u00e9\\n\"], // c\n \"b\": {}}";
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(ErrorOf(text.substr(0, size)), "no error") << size;
  }
  EXPECT_EQ(ErrorOf(text), "no error");
}

TEST(Json, AnyChangedByteIsReadOrRefused) {
  const std::string text =
      "{\"a\": [1, -2.5e3, true, null, \"\\u00e9\\n\"], // c\n \"b\": {}}";
  for (size_t at = 0; at < text.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = text;
      changed[at] = static_cast<char>(byte);
      try {
        const std::string read = Json::Parse(changed, "a.json").Dump();
        EXPECT_EQ(Json::Parse(read, "a.json").Dump(), read);
      } catch (const SpecError& error) {
        EXPECT_THAT(error.what(), StartsWith("a.json:")) << changed;
      }
    }
  }
}

TEST(Json, NumbersReadBackToTheSameBits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const Json read = Json::Parse(Json(value).Dump(), "a");
    ASSERT_EQ(read.kind(), Json::Kind::kNumber) << Json(value).Dump();
    ASSERT_EQ(std::bit_cast<uint64_t>(read.number()),
              std::bit_cast<uint64_t>(value))
        << Json(value).Dump();
  }
}

TEST(Json, NumbersAreShort) {
  EXPECT_EQ(Json(0.1).Dump(), "0.1");
  EXPECT_EQ(Json(1.0).Dump(), "1.0");
  EXPECT_EQ(Json(-0.0).Dump(), "-0.0");
  EXPECT_EQ(Json(5e-4).Dump(), "5e-04");
  EXPECT_EQ(Json(1e22).Dump(), "1e+22");
  EXPECT_EQ(Json(int64_t{1} << 60).Dump(), "1152921504606846976");
  EXPECT_EQ(Json(std::nan("")).Dump(), "null");
  EXPECT_EQ(Json(INFINITY).Dump(), "null");
}

TEST(Json, TextIsEscaped) {
  EXPECT_EQ(Json("a\"\\\n\r\t\x01\x1f/\xc3\xa9").Dump(),
            "\"a\\\"\\\\\\n\\r\\t\\u0001\\u001f/\xc3\xa9\"");
  const std::string all = [] {
    std::string text;
    for (char c = 0; c < 127; ++c) text.push_back(c);
    return text;
  }();
  EXPECT_EQ(Json::Parse(Json(all).Dump(), "a").text(), all);
}

TEST(Json, PrettyPrintingKeepsArraysOfScalarsOnALine) {
  const Json json = Json::Parse(
      R"({"a": [1, 2.5, "x"], "o": {}, "e": [], "l": [{"t": 1}, [2]]})", "a");
  EXPECT_EQ(json.Dump(2),
            "{\n"
            "  \"a\": [1, 2.5, \"x\"],\n"
            "  \"o\": {},\n"
            "  \"e\": [],\n"
            "  \"l\": [\n"
            "    {\n"
            "      \"t\": 1\n"
            "    },\n"
            "    [2]\n"
            "  ]\n"
            "}\n");
  EXPECT_EQ(Json::Parse(json.Dump(2), "a").Dump(), json.Dump());
}

TEST(Json, ObjectsKeepTheOrderOfFirstInsertion) {
  Json json = Json::Object();
  json.Set("b", 1);
  json.Set("a", 2);
  json.Set("b", 3);
  EXPECT_EQ(json.Dump(), "{\"b\":3,\"a\":2}");
  json.Erase("b");
  json.Erase("absent");
  EXPECT_EQ(json.Dump(), "{\"a\":2}");
  Json array = Json::Array();
  array.Append(json);
  array.Append("x");
  EXPECT_EQ(array.Dump(), "[{\"a\":2},\"x\"]");
}

TEST(Json, SourceCanBeHandedOn) {
  const Json line_three = Json::Parse("\n\n[]", "a.json");
  Json json = Json::Parse("{\"a\": [1]}", "b.json");
  json.set_source_like(line_three);
  EXPECT_EQ(json.at("a").items()[0].where(), "a.json:3");
  json.set_source("command line", 0);
  EXPECT_EQ(json.where(), "command line");
}

TEST(Json, MissingFilesAreNamed) {
  try {
    Json::ParseFile("/nowhere/a.json");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), StartsWith("/nowhere/a.json: opening failed: "));
  }
}

TEST(JsonDeathTest, WrongKindsAreOurBugs) {
  EXPECT_DEATH(Json(1).text(), "not a text but an integer");
  EXPECT_DEATH(Json::Object().at("a"), "no key a");
}

}  // namespace
}  // namespace lumen
