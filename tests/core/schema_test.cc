// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schema_example.h"

namespace lumen {
namespace {

using example::ErrorOf;
using example::kSpec;
using example::ResolveText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Schema, DefaultsAreWrittenOutInTheOrderOfTheKeys) {
  EXPECT_EQ(ResolveText(example::kShortest).Dump(),
            R"({"data":{"files":{},"crop":[],"tags":[]},)"
            R"("model":{"layers":[],"loss":"mse"},)"
            R"("train":{"seed":1,"epochs":null,"steps":null,)"
            R"("optimizer":{"type":"sgd","momentum":0.9,"nesterov":false},)"
            R"("lr":{"type":"constant","base":0.1,"warmup":0},)"
            R"("eval_every":"1 epochs"},)"
            R"("memory":{"limit":null,"activations":"fp32"}})");
}

TEST(Schema, ResolvingTwiceChangesNothing) {
  for (const std::string& text :
       {std::string(example::kShortest),
        std::string(R"({"train": {"lr": {"type": "cosine", "base": 1},
          "optimizer": "adam", "epochs": 2, "eval_every": "0.5 epoch"},
          "memory": {"limit": "1.5 GiB"}, "data": {"crop": [1.0, 2e1],
          "files": {"x": [1, {"y": 2.5}]}},
          "model": {"layers": ["relu", {"type": "linear", "units": 1e3},
            {"type": "residual", "body": ["relu"]}]}})")}) {
    const Json once = ResolveText(text);
    EXPECT_EQ(Resolve(once, kSpec).Dump(), once.Dump());
    EXPECT_EQ(ResolveText(once.Dump()).Dump(), once.Dump());
    EXPECT_EQ(ResolveText(once.Dump(2)).Dump(), once.Dump());
  }
}

TEST(Schema, ValuesHaveOneNormalForm) {
  const Json spec = ResolveText(R"({"train": {"lr": 1, "seed": 2.0,
      "optimizer": "adam", "steps": 1e3, "eval_every": "3epoch"},
      "memory": {"limit": "300 MB"}, "model": {"layers": ["relu"]}})");
  const Json& train = spec.at("train");
  EXPECT_EQ(train.at("lr").Dump(),
            R"({"type":"constant","base":1.0,"warmup":0})");
  EXPECT_EQ(train.at("seed").integer(), 2);
  EXPECT_EQ(train.at("steps").integer(), 1000);
  EXPECT_EQ(train.at("optimizer").Dump(),
            R"({"type":"adam","betas":[0.9,0.999]})");
  EXPECT_EQ(train.at("eval_every").text(), "3 epochs");
  EXPECT_EQ(spec.at("memory").at("limit").integer(), 300000000);
  EXPECT_EQ(spec.at("model").at("layers").Dump(),
            R"([{"type":"relu","name":null}])");
}

TEST(Schema, BytesTakeTheUsualUnits) {
  const auto limit = [](const std::string& text) {
    return ResolveText(R"({"model": {"layers": []}, "train": {"lr": 1},
                           "memory": {"limit": )" +
                       text + "}}")
        .at("memory")
        .at("limit")
        .integer();
  };
  EXPECT_EQ(limit("12"), 12);
  EXPECT_EQ(limit("\"12 B\""), 12);
  EXPECT_EQ(limit("\"12GiB\""), int64_t{12} << 30);
  EXPECT_EQ(limit("\"1.5 kib\""), 1536);
  EXPECT_EQ(limit("\"2 TB\""), 2000000000000);
}

TEST(Schema, UnknownNamesAreErrorsWithTheNearestKnownOne) {
  EXPECT_EQ(ErrorOf(R"({"model": {"layers": []},
                        "train": {
                          "optimizer": {"type": "adamm"}, "lr": 1}})"),
            "a.json:3: train.optimizer.type: unknown \"adamm\"; known: sgd, "
            "adam (did you mean \"adam\"?)");
  EXPECT_EQ(ErrorOf("{\"model\": {\"layers\": []},\n \"trian\": {}}"),
            "a.json:2: trian: unknown key; known: data, model, train, memory "
            "(did you mean \"train\"?)");
  EXPECT_EQ(ErrorOf(R"({"model": {"layers": []}, "train": {"lr": 1,
                        "optimizer": {"type": "sgd",
                                      "momentumm": 0.9}}})"),
            "a.json:3: train.optimizer.momentumm: unknown key of type \"sgd\"; "
            "known: type, momentum, nesterov (did you mean \"momentum\"?)");
  EXPECT_EQ(ErrorOf(R"({"model": {"layers": [], "loss": "CrossEntropy"},
                        "train": {"lr": 1}})"),
            "a.json:1: model.loss: unknown \"CrossEntropy\"; known: mse, "
            "cross_entropy (did you mean \"cross_entropy\"?)");
  EXPECT_EQ(ErrorOf(R"({"model": {"layers": [{"type": "linear", "units": 1},
                                             {"type": "linear",
                                              "unit": 1}]},
                        "train": {"lr": 1}})"),
            "a.json:3: model.layers[1].unit: unknown key of type \"linear\"; "
            "known: type, name, units (did you mean \"units\"?)");
}

TEST(Schema, MissingKeysAreErrorsAtTheirObject) {
  EXPECT_EQ(ErrorOf("{\n\"train\": {\"lr\": 1}}"),
            "a.json:1: missing \"model\"; expected an object");
  EXPECT_EQ(ErrorOf("{\"model\": {\"layers\": [\n{\"type\": \"linear\"}]}}"),
            "a.json:2: model.layers[0]: missing \"units\"; expected an integer "
            "in 1 .. 1000000: Number of outputs");
  EXPECT_EQ(ErrorOf("{\"model\": {\"layers\": [\n{\"name\": \"x\"}]}}"),
            "a.json:2: model.layers[0]: missing \"type\"; known: linear, relu, "
            "residual");
}

TEST(Schema, WrongKindsAreErrors) {
  const auto train = [](const std::string& members) {
    return ErrorOf(R"({"model": {"layers": []}, "train": {"lr": 1, )" +
                   members + "}}");
  };
  EXPECT_EQ(train(R"("seed": "x")"),
            "a.json:1: train.seed: found \"x\"; expected an integer");
  EXPECT_EQ(train(R"("seed": 1.5)"),
            "a.json:1: train.seed: found 1.5; expected an integer");
  EXPECT_EQ(train(R"("seed": null)"),
            "a.json:1: train.seed: found null; expected an integer");
  EXPECT_EQ(train(R"("epochs": -1)"),
            "a.json:1: train.epochs: found -1; expected a number >= 0 or null");
  EXPECT_EQ(train(R"("optimizer": {"type": "sgd", "nesterov": 1})"),
            "a.json:1: train.optimizer.nesterov: found 1; expected true or "
            "false");
  EXPECT_EQ(train(R"("optimizer": {"type": "sgd", "momentum": 1.5})"),
            "a.json:1: train.optimizer.momentum: found 1.5; expected a number "
            "in 0 .. 1");
  EXPECT_EQ(train(R"("optimizer": {"type": 3})"),
            "a.json:1: train.optimizer.type: found 3; expected a text; known: "
            "sgd, adam");
  EXPECT_EQ(train(R"("optimizer": [])"),
            "a.json:1: train.optimizer: found []; expected an object");
  EXPECT_EQ(train(R"("optimizer": {"type": "adam", "betas": [0.9, "x"]})"),
            "a.json:1: train.optimizer.betas[1]: found \"x\"; expected a "
            "number");
  EXPECT_EQ(train(R"("optimizer": {"type": "adam", "betas": 0.9})"),
            "a.json:1: train.optimizer.betas: found 0.9; expected an array of "
            "numbers");
  EXPECT_EQ(ErrorOf("[]"), "a.json:1: found an array; expected an object");
  EXPECT_EQ(ErrorOf(R"({"model": {"layers": {}}, "train": {"lr": 1}})"),
            "a.json:1: model.layers: found an object; expected an array of "
            "objects");
  EXPECT_EQ(ErrorOf(R"({"model": {"layers": [], "loss": 3}, "train": 1})"),
            "a.json:1: model.loss: found 3; expected a text of mse, "
            "cross_entropy; quote it: \"3\"");
}

TEST(Schema, ElementsOfArraysAreChecked) {
  const auto data = [](const std::string& members) {
    return ErrorOf(
        R"({"model": {"layers": []}, "train": {"lr": 1}, "data": {)" + members +
        "}}");
  };
  EXPECT_EQ(data(R"("crop": [1, 2,
    -3])"),
            "a.json:2: data.crop[2]: found -3; expected an integer >= 0");
  EXPECT_EQ(data(R"("tags": ["a", "c"])"),
            "a.json:1: data.tags[1]: unknown \"c\"; known: a, b");
  EXPECT_EQ(data(R"("files": 3)"),
            "a.json:1: data.files: found 3; expected an object");
}

TEST(Schema, BadIntervalsAndBytesAreErrors) {
  for (const std::string text :
       {"\"epochs\"", "\"0 epochs\"", "\"-1 epochs\"", "\"1 epochz\"",
        "\"nan epochs\"", "\"inf epochs\"", "\"1\"", "-1", "1.5", "true", "{}",
        "\"\""}) {
    EXPECT_THAT(ErrorOf(R"({"model": {"layers": []}, "train": {"lr": 1,
                            "eval_every": )" +
                        text + "}}"),
                HasSubstr("expected an integer of steps or \"N epochs\""))
        << text;
  }
  for (const std::string text :
       {"\"12\"", "\"GiB\"", "\"12 GB/s\"", "-1", "1.5", "\"-1 GB\"",
        "\"1e30 GB\"", "\"12G\""}) {
    EXPECT_THAT(ErrorOf(R"({"model": {"layers": []}, "train": {"lr": 1},
                            "memory": {"limit": )" +
                        text + "}}"),
                HasSubstr("expected an integer of bytes"))
        << text;
  }
}

TEST(Schema, IntegersBeyondDoublesStayExact) {
  const Json spec = ResolveText(
      R"({"model": {"layers": []},
          "train": {"lr": 1, "seed": 9223372036854775807}})");
  EXPECT_EQ(spec.at("train").at("seed").integer(), 9223372036854775807);
  EXPECT_THAT(ErrorOf(R"({"model": {"layers": []},
                          "train": {"lr": 1, "seed": 1e18}})"),
              HasSubstr("expected an integer"));
}

TEST(Schema, ResolvedValuesKnowWhereTheyAre) {
  const Json spec = ResolveText(
      "{\"model\": {\"layers\": []},\n"
      " \"train\": {\"lr\":\n"
      "  0.1}}");
  EXPECT_EQ(spec.at("train").at("lr").at("base").where(), "a.json:3");
  EXPECT_EQ(spec.at("train").at("lr").at("warmup").where(), "a.json:3");
  EXPECT_EQ(spec.at("train").at("seed").where(), "a.json:2");
  EXPECT_EQ(spec.at("train").at("optimizer").at("momentum").where(),
            "a.json:2");
  EXPECT_EQ(spec.at("data").at("crop").where(), "a.json:1");
}

TEST(Schema, ATypeLeftOutIsThatOfTheDefault) {
  const Json spec = ResolveText(
      R"({"model": {"layers": []},
          "train": {"lr": {"base": 0.5}, "optimizer": {"nesterov": true}}})");
  EXPECT_EQ(spec.at("train").at("lr").at("type").text(), "constant");
  // Not the other defaults: an object stands for itself.
  EXPECT_EQ(spec.at("train").at("optimizer").Dump(),
            R"({"type":"sgd","momentum":0.0,"nesterov":true})");
}

TEST(Schema, IntervalsParse) {
  EXPECT_EQ(ParseInterval(Json(100)).steps, 100);
  EXPECT_EQ(ParseInterval(Json(100)).epochs, 0);
  EXPECT_EQ(ParseInterval(Json("2.5 epochs")).steps, 0);
  EXPECT_EQ(ParseInterval(Json("2.5 epochs")).epochs, 2.5);
  EXPECT_THROW(ParseInterval(Json("often")), SpecError);
}

TEST(Schema, MathematicalTextHasOneLinePerValue) {
  const Json spec = ResolveText(R"({"train": {"lr": 1, "eval_every": 7},
      "memory": {"limit": 5}, "data": {"files": {"z": 1, "a": {"b": "c"}}},
      "model": {"layers": ["relu", {"type": "residual", "body": [
          {"type": "linear", "units": 3, "name": "fc"}]}]}})");
  EXPECT_EQ(MathematicalText(spec, kSpec),
            "data.files.a.b=\"c\"\n"
            "data.files.z=1\n"
            "data.crop=[]\n"
            "data.tags=[]\n"
            "model.layers[0].type=\"relu\"\n"
            "model.layers[0].name=null\n"
            "model.layers[1].type=\"residual\"\n"
            "model.layers[1].name=null\n"
            "model.layers[1].body[0].type=\"linear\"\n"
            "model.layers[1].body[0].name=\"fc\"\n"
            "model.layers[1].body[0].units=3\n"
            "model.loss=\"mse\"\n"
            "train.seed=1\n"
            "train.epochs=null\n"
            "train.steps=null\n"
            "train.optimizer.type=\"sgd\"\n"
            "train.optimizer.momentum=0.9\n"
            "train.optimizer.nesterov=false\n"
            "train.lr.type=\"constant\"\n"
            "train.lr.base=1.0\n"
            "train.lr.warmup=0\n");
}

TEST(Schema, EqualMathematicsGiveEqualText) {
  const auto text = [](const std::string& spec) {
    return MathematicalText(ResolveText(spec), kSpec);
  };
  const std::string shortest = text(example::kShortest);
  EXPECT_EQ(text(R"({"train": {"seed": 1.0, "lr": {"base": 1e-1},
                     "eval_every": 3}, "memory": {"activations": "bf16"},
                     "model": {"loss": "mse", "layers": []}})"),
            shortest);
  EXPECT_NE(text(R"({"train": {"lr": 0.1, "seed": 2},
                     "model": {"layers": []}})"),
            shortest);
}

TEST(Schema, DifferingKeysNameBothValues) {
  EXPECT_THAT(
      DifferingKeys("a=1\nb.c=\"x=y\"\nd=2\n", "a=1\nb.c=\"x=z\"\ne[0]=3\n"),
      ElementsAre("b.c: \"x=y\", \"x=z\"", "d: 2, absent", "e[0]: absent, 3"));
  EXPECT_THAT(DifferingKeys("a=1\n", "a=1\n"), ElementsAre());
  EXPECT_THAT(DifferingKeys("", "a=1"), ElementsAre("a: absent, 1"));
}

TEST(Schema, FieldReferenceNamesEveryKeyOnce) {
  const std::string text = FieldReference(kSpec);
  EXPECT_THAT(text, StartsWith("| Key | Kind | Default | Range | Meaning |\n"
                               "|---|---|---|---|---|\n"
                               "| `data` | object | `{}` |  |  |\n"));
  EXPECT_THAT(text, HasSubstr("### `train.optimizer`: type `sgd`\n\n"
                              "Gradient descent.\n\n"));
  EXPECT_THAT(text, HasSubstr("| `momentum` | number | `0` | 0 .. 1 | Share of "
                              "the last velocity that is kept |\n"));
  EXPECT_THAT(text, HasSubstr("| `units` | integer | required | 1 .. 1000000 | "
                              "Number of outputs |\n"));
  EXPECT_THAT(text, HasSubstr("### `model.layers[i].body[i]`\n\n"
                              "As `model.layers[i]`.\n"));
  EXPECT_THAT(text, HasSubstr("| `loss` | text | `\"mse\"` | `mse`, "
                              "`cross_entropy` |  |\n"));
  EXPECT_THAT(text, HasSubstr("a bare value is `base` of type `constant`"));
  EXPECT_THAT(text, HasSubstr("(not mathematical)"));
}

TEST(Schema, NearestFindsTypingMistakes) {
  const std::vector<std::string> known = {"sgd", "adam", "momentum", "lr"};
  EXPECT_EQ(Nearest("adamm", known), "adam");
  EXPECT_EQ(Nearest("sdg", known), "sgd");
  EXPECT_EQ(Nearest("Momentun", known), "momentum");
  EXPECT_EQ(Nearest("LR", known), "lr");
  EXPECT_EQ(Nearest("weight", known), "");
  EXPECT_EQ(Nearest("", known), "");
  EXPECT_EQ(Nearest("x", {}), "");
  EXPECT_EQ(Nearest("cat", {"cap", "car"}), "cap");
}

}  // namespace
}  // namespace lumen
