// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "evaluator.h"
#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/train/checkpoint.h"
#include "model_build.h"
#include "model_state.h"

namespace lumen::train {
namespace {

// Rows of scores, [rows][outputs].
struct Scores {
  int64_t first = 0;  // sample
  int64_t outputs = 0;
  std::vector<float> values;
  int64_t rows() const { return std::ssize(values) / outputs; }
  const float* row(int64_t i) const { return values.data() + i * outputs; }
};

// The highest score, of equal ones the first; a single output is the
// probability of class 1.
int64_t PredictedClass(const float* scores, int64_t outputs) {
  if (outputs == 1) return scores[0] > 0.5f ? 1 : 0;
  return std::max_element(scores, scores + outputs) - scores;
}

class Writer {
 public:
  virtual ~Writer() = default;
  virtual void Write(const Scores& scores) = 0;
  virtual void Close() = 0;
};

// A cell of CSV, quoted where RFC 4180 asks for it.
std::string Cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

class CsvWriter : public Writer {
 public:
  CsvWriter(const std::string& path, const data::Dataset& dataset,
            int64_t outputs)
      : path_(path),
        dataset_(dataset),
        file_(path, std::ios::trunc),
        names_(dataset.class_names()) {
    // As many names as scores, and one score can still tell two classes.
    if (std::ssize(names_) != std::max<int64_t>(outputs, 2)) names_.clear();
    file_ << "sample,predicted";
    for (int64_t c = 0; c < outputs; ++c) {
      const int64_t of = outputs == 1 ? 1 : c;
      file_ << ",score_"
            << (names_.empty() ? std::to_string(c) : Cell(names_[of]));
    }
    file_ << "\n";
  }
  void Write(const Scores& scores) override {
    for (int64_t i = 0; i < scores.rows(); ++i) {
      const float* row = scores.row(i);
      const int64_t sample = scores.first + i;
      const int64_t predicted = PredictedClass(row, scores.outputs);
      const std::string name = dataset_.SampleName(sample);
      std::string line = fmt::format(
          "{},{}", name.empty() ? std::to_string(sample) : Cell(name),
          names_.empty() ? std::to_string(predicted) : Cell(names_[predicted]));
      for (int64_t c = 0; c < scores.outputs; ++c) {
        line += fmt::format(",{}", row[c]);
      }
      file_ << line << "\n";
    }
  }
  void Close() override {
    file_.close();
    if (!file_) {
      throw IoError(path_ + ": cannot be written; is the disk full?");
    }
  }

 private:
  std::string path_;
  const data::Dataset& dataset_;
  std::ofstream file_;
  std::vector<std::string> names_;
};

class H5ScoreWriter : public Writer {
 public:
  H5ScoreWriter(const std::string& path, const data::Dataset& dataset,
                int64_t outputs)
      : file_(path) {
    const int64_t samples = dataset.size();
    file_.Create("/scores", data::ElementType::kFloat32, {samples, outputs});
    file_.Create("/predicted", data::ElementType::kInt32, {samples});
    std::string names;
    for (const std::string& name : dataset.class_names()) names += name + "\n";
    if (!names.empty()) file_.WriteText("/class_names", names);
    names.clear();
    for (int64_t i = 0; i < samples; ++i) {
      const std::string name = dataset.SampleName(i);
      if (name.empty()) break;
      names += name + "\n";
    }
    if (!names.empty()) file_.WriteText("/sample_names", names);
  }
  void Write(const Scores& scores) override {
    std::vector<int64_t> predicted;
    for (int64_t i = 0; i < scores.rows(); ++i) {
      predicted.push_back(PredictedClass(scores.row(i), scores.outputs));
    }
    file_.WritePart("/scores", scores.first * scores.outputs,
                    std::span<const float>(scores.values));
    file_.WritePart("/predicted", scores.first,
                    std::span<const int64_t>(predicted));
  }
  void Close() override { file_.Close(); }

 private:
  data::H5Writer file_;
};

template <class T>
std::unique_ptr<Writer> New(const std::string& path,
                            const data::Dataset& dataset, int64_t outputs) {
  return std::make_unique<T>(path, dataset, outputs);
}

// One row per format.
struct Format {
  std::string_view extension;
  std::unique_ptr<Writer> (*create)(const std::string& path,
                                    const data::Dataset& dataset,
                                    int64_t outputs);
};
constexpr Format kFormats[] = {{".csv", New<CsvWriter>},
                               {".h5", New<H5ScoreWriter>}};

const Format& FormatOf(const std::string& output) {
  std::string known;
  for (const Format& format : kFormats) {
    if (output.ends_with(format.extension)) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.extension);
  }
  throw SpecError("--output=" + output +
                  ": unknown extension; expected one of " + known);
}

std::unique_ptr<data::Dataset> OpenInput(const Spec& spec,
                                         const std::string& input,
                                         int64_t outputs) {
  for (data::Split split :
       {data::Split::kTrain, data::Split::kValid, data::Split::kTest}) {
    if (data::SplitName(split) != input) continue;
    auto dataset = data::OpenDataset(spec.data(), split);
    if (dataset == nullptr) {
      throw SpecError("--input=" + input + ": the spec names no such split");
    }
    return dataset;
  }
  if (input.ends_with(".npy") || input.find(".npz") != std::string::npos) {
    return data::OpenUnlabelled(input, outputs);
  }
  throw SpecError("--input=" + input +
                  ": expected train, valid or test, or a file x.npy or "
                  "file.npz:x");
}

// The scores of this rank's samples of one step, in ascending order.
std::vector<float> ComputeStep(const nn::Loss& loss,
                               const sparse::Compute& compute, int64_t shards,
                               data::Loader* loader, nn::Model* model) {
  std::vector<float> scores;
  for (int64_t i = 0; i < shards; ++i) {
    const data::Batch* batch = loader->Next();
    const nn::Model::Pass pass{.kind = nn::PassKind::kEvaluation,
                               .epoch = 0,
                               .samples = batch->samples,
                               .labels = batch->labels};
    const Panel output = model->Forward(batch->x, pass);
    // Any label does: a loss leaves the scores behind.
    std::vector<int32_t> labels(batch->labels.size());
    std::transform(batch->labels.begin(), batch->labels.end(), labels.begin(),
                   [](int32_t label) { return std::min(label, 0); });
    loss.Compute(compute, output, {.labels = labels}, nn::Loss::kSumsOnly, 1);
    const int64_t lanes = output.layout.lanes;
    for (int64_t s = 0; s < std::ssize(labels); ++s) {
      if (labels[static_cast<size_t>(s)] < 0) continue;
      const float* lane = output.tile(s / lanes) + s % lanes;
      for (int64_t c = 0; c < output.shape.channels; ++c) {
        scores.push_back(lane[c * lanes]);
      }
    }
  }
  return scores;
}

// All ranks' scores; shards, and so samples, ascend with the rank. Collective.
void Gather(comm::Communicator* communicator, Scores* scores) {
  std::vector<float> all;
  for (const auto& bytes : communicator->AllGather(
           std::as_bytes(std::span<const float>(scores->values)))) {
    const size_t old = all.size();
    all.resize(old + bytes.size() / sizeof(float));
    std::memcpy(all.data() + old, bytes.data(), bytes.size());
  }
  scores->values = std::move(all);
}

}  // namespace

PredictionResult RunPrediction(const PredictionOptions& options,
                               comm::Communicator* communicator,
                               const sparse::Compute& compute) {
  const Format& format = FormatOf(options.output);
  const std::string checkpoint = FindCheckpoint(options.checkpoint);
  const data::H5Reader file(checkpoint + "/model.h5");
  const Spec spec =
      ParseSpec(ReadHead(file).spec_text, checkpoint + "/model.h5:/spec",
                options.overrides);
  const ModelInput input = ReadInput(file, spec);
  const auto dataset = OpenInput(spec, options.input, input.outputs);
  if (dataset->shape() != input.shape) {
    throw SpecError("--input=" + options.input + ": samples of shape " +
                    dataset->shape().ToString() + "; the model of " +
                    checkpoint + " expects " + input.shape.ToString());
  }
  const bool averaged =
      UsesAverage(file, options.weights, checkpoint + "/model.h5");
  nn::Model model =
      ModelFromCheckpoint(spec, file, input.shape, input.outputs, compute,
                          {.passes = nn::PassKind::kEvaluation});
  if (averaged) {
    ReadAverage(file, model.parameters().values());
    model.parameters().Refresh(compute.parallel);
  }
  const auto loss = nn::NewLoss(spec.model().at("loss"), input.outputs);

  const int ranks = std::min(communicator->ranks(), spec.shards());
  const std::vector<int> shards =
      communicator->rank() < ranks
          ? comm::HostedShards(spec.shards(), ranks, communicator->rank())
          : std::vector<int>();
  const data::SampleOrder order(dataset->size(), spec.global_batch(),
                                spec.shards(), spec.seed(), data::Order::kFile,
                                data::Tail::kKeep);
  data::Loader loader(dataset.get(), order,
                      data::NewTransform(spec.data(), dataset->shape()),
                      model.layout(), shards, 0, order.steps_per_epoch());
  const std::string temporary = TemporaryPath(options.output);
  std::unique_ptr<Writer> writer;
  if (communicator->rank() == 0) {
    writer = format.create(temporary, *dataset, input.outputs);
  }
  Scores scores{.outputs = input.outputs};
  for (int64_t step = 0; step < order.steps_per_epoch(); ++step) {
    scores.values =
        ComputeStep(*loss, compute, std::ssize(shards), &loader, &model);
    Gather(communicator, &scores);
    if (writer) writer->Write(scores);
    scores.first += scores.rows();
  }
  if (writer) {
    try {
      writer->Close();
    } catch (const IoError&) {
      std::remove(temporary.c_str());
      throw;
    }
    CommitFile(temporary, options.output);
  }
  return {checkpoint, dataset->size()};
}

}  // namespace lumen::train
