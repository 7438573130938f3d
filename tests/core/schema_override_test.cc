// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schema_example.h"

namespace lumen {
namespace {

using example::WithOverrides;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr ExclusivePair kExclusive[] = {{"train.steps", "train.epochs"}};

std::string Overridden(const std::string& spec, const std::string& text) {
  Json json = Json::Parse(spec, "a.json");
  try {
    ApplyOverride(&json, text, kExclusive);
  } catch (const SpecError& error) {
    EXPECT_EQ(json.Dump(), Json::Parse(spec, "a.json").Dump())
        << "a failed override changed the spec";
    return error.what();
  }
  return json.Dump();
}

TEST(Override, ValuesAreJsonOrElseText) {
  EXPECT_EQ(Overridden("{}", "a=3"), R"({"a":3})");
  EXPECT_EQ(Overridden("{}", "a=3.5"), R"({"a":3.5})");
  EXPECT_EQ(Overridden("{}", "a=true"), R"({"a":true})");
  EXPECT_EQ(Overridden("{}", "a=null"), R"({"a":null})");
  EXPECT_EQ(Overridden("{}", "a=[1, 2]"), R"({"a":[1,2]})");
  EXPECT_EQ(Overridden("{}", "a={\"b\": 1}"), R"({"a":{"b":1}})");
  EXPECT_EQ(Overridden("{}", "a=\"3\""), R"({"a":"3"})");
  EXPECT_EQ(Overridden("{}", "a=/some path/x=y"), R"({"a":"/some path/x=y"})");
  EXPECT_EQ(Overridden("{}", "a=1 epochs"), R"({"a":"1 epochs"})");
  EXPECT_EQ(Overridden("{}", "a="), R"({"a":""})");
}

TEST(Override, MissingObjectsAreMade) {
  EXPECT_EQ(Overridden("{}", "a.b.c=1"), R"({"a":{"b":{"c":1}}})");
  EXPECT_EQ(Overridden(R"({"a": null})", "a.b=1"), R"({"a":{"b":1}})");
  EXPECT_EQ(Overridden(R"({"a": {"x": 2}})", "a.b=1"),
            R"({"a":{"x":2,"b":1}})");
}

TEST(Override, ElementsAreNamedByIndex) {
  const std::string spec = R"({"m": {"l": [{"u": 1}, {"u": 2}]}, "a": [[1]]})";
  const std::string changed = R"({"m":{"l":[{"u":1},{"u":7}]},"a":[[1]]})";
  EXPECT_EQ(Overridden(spec, "m.l[1].u=7"), changed);
  EXPECT_EQ(Overridden(spec, "m.l.1.u=7"), changed);
  EXPECT_EQ(Overridden(spec, "a[0][0]=7"),
            R"({"m":{"l":[{"u":1},{"u":2}]},"a":[[7]]})");
  EXPECT_EQ(Overridden(spec, "m.l[2].u=7"),
            "command line: m.l[2].u=7: m.l has 2 elements; expected an index "
            "below that, found 2");
  EXPECT_THAT(Overridden(spec, "m.l.u=7"),
              HasSubstr("m.l is an array; expected an index, found \"u\""));
  EXPECT_THAT(Overridden(spec, "m.l[-1].u=7"), HasSubstr("expected an index"));
  EXPECT_THAT(Overridden(spec, "m[0]=7"),
              HasSubstr("m is no array; expected a key, found [0]"));
}

TEST(Override, MalformedOnesAreErrors) {
  for (const std::string text :
       {"a", "", "=1", ".a=1", "a..b=1", "a.=1", "a[0=1", "a[0]b=1", "[0]=1",
        "a={\"b\": ", "a=[1", "a=\"x", "a=\xff"}) {
    EXPECT_THAT(Overridden(R"({"a": [1]})", text), StartsWith("command line:"))
        << text;
  }
}

TEST(Override, SettingOneOfAPairRemovesTheOther) {
  const std::string spec = R"({"train": {"epochs": 3, "seed": 1}})";
  EXPECT_EQ(Overridden(spec, "train.steps=10"),
            R"({"train":{"seed":1,"steps":10}})");
  EXPECT_EQ(Overridden(R"({"train": {"steps": 3}})", "train.epochs=1"),
            R"({"train":{"epochs":1}})");
  EXPECT_EQ(Overridden(spec, "train.steps=null"),
            R"({"train":{"epochs":3,"seed":1,"steps":null}})");
  EXPECT_EQ(Overridden("{}", "train.steps=10"), R"({"train":{"steps":10}})");
}

TEST(Override, APathThroughAShorthandKeepsItsValue) {
  EXPECT_THAT(WithOverrides({"train.lr.warmup=5"}),
              HasSubstr(R"("lr":{"type":"constant","base":0.1,"warmup":5})"));
  EXPECT_THAT(WithOverrides({"train.lr.base=0.2"}),
              HasSubstr(R"("lr":{"type":"constant","base":0.2,"warmup":0})"));
  EXPECT_THAT(WithOverrides({"train.lr.floor=0.2", "train.lr.type=cosine"}),
              HasSubstr(R"("lr":{"type":"cosine","base":0.1,"floor":0.2})"));
  EXPECT_THAT(
      WithOverrides({"model.layers[0].name=x"},
                    R"({"model": {"layers": ["relu"]}, "train": {"lr": 1}})"),
      HasSubstr(R"("layers":[{"type":"relu","name":"x"}])"));
}

TEST(Override, AScalarReplacesAnObjectAsShorthand) {
  EXPECT_THAT(WithOverrides({"train.lr=0.5"},
                            R"({"model": {"layers": []},
                        "train": {"lr": {"type": "cosine", "base": 1}}})"),
              HasSubstr(R"("lr":{"type":"constant","base":0.5,"warmup":0})"));
}

TEST(Override, MistakesAreFoundByResolve) {
  EXPECT_EQ(WithOverrides({"train.sed=2"}),
            "command line: train.sed: unknown key; known: seed, epochs, steps, "
            "optimizer, lr, eval_every (did you mean \"seed\"?)");
  EXPECT_EQ(WithOverrides({"train.seed=x"}),
            "command line: train.seed: found \"x\"; expected an integer");
  EXPECT_THAT(WithOverrides({"train.seed.x=2"},
                            R"({"model": {"layers": []},
                                "train": {"lr": 1, "seed": 1}})"),
              HasSubstr("train.seed: found an object; expected an integer"));
  EXPECT_EQ(WithOverrides({"model.loss=1"}),
            "command line: model.loss: found 1; expected a text of mse, "
            "cross_entropy; quote it: 'model.loss=\"1\"'");
  EXPECT_EQ(WithOverrides({"model.layers[0].units=0"},
                          R"({"model": {"layers": [{"type": "linear",
                              "units": 1}]}, "train": {"lr": 1}})"),
            "command line: model.layers[0].units: found 0; expected an integer "
            "in 1 .. 1000000");
  EXPECT_EQ(
      WithOverrides({"data.files.x.y=2"},
                    R"({"model": {"layers": []}, "train": {"lr": 1},
                              "data": {"files": {"x": "f"}}})"),
      "command line: data.files.x: found \"f\", which has no keys; expected "
      "the path of an object");
  EXPECT_EQ(WithOverrides({"model.x=2"}, R"({"model": 5, "train": {"lr": 1}})"),
            "a.json:1: model: found 5; expected an object");
}

}  // namespace
}  // namespace lumen
