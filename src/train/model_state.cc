// SPDX-License-Identifier: Apache-2.0
#include "model_state.h"

#include <algorithm>
#include <cstring>

#include "lumen/core/error.h"
#include "lumen/core/hash.h"
#include "lumen/data/dataset.h"

namespace lumen::train {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20;
// Of HDF5, texts and names, per file; less in most.
constexpr int64_t kFileOverhead = int64_t{16} << 10;
constexpr char kStatistics[] = "running_statistics";  // of a shard

std::string ShardFile(int shard) {
  return "shard-" + std::to_string(shard) + ".h5";
}

std::string Group(const nn::ParameterDecl& declaration) {
  return "/parameters/" + declaration.name;
}

// Rank by rank, in order.
std::vector<uint64_t> GatherDigests(std::span<const uint64_t> mine,
                                    comm::Communicator* communicator) {
  std::vector<uint64_t> all;
  for (const auto& bytes : communicator->AllGather(std::as_bytes(mine))) {
    const size_t old = all.size();
    all.resize(old + bytes.size() / sizeof(uint64_t));
    std::memcpy(all.data() + old, bytes.data(), bytes.size());
  }
  return all;
}

void CopyInto(std::span<const float> from, Buffer<float>* to) {
  const auto size = static_cast<int64_t>(from.size());
  if (to->size() != size) *to = Buffer<float>(size);
  std::copy(from.begin(), from.end(), to->data());
}

std::string InputText(const nn::Graph& graph) {
  Json shape = Json::Array();
  for (int64_t size : {graph.input.channels, graph.input.depth,
                       graph.input.height, graph.input.width}) {
    shape.Append(size);
  }
  Json json = Json::Object();
  json.Set("shape", std::move(shape));
  json.Set("outputs", graph.output().channels);
  return json.Dump(2);
}

// A sparse tensor as compressed rows, piece by piece.
void WritePattern(const nn::Parameter& tensor, data::H5Writer* file) {
  const std::string group = Group(tensor.decl);
  const int64_t nnz = tensor.size();
  const int64_t columns = tensor.rows->columns();
  const auto row_start = tensor.rows->row_start();
  file->Write(group + "/row_start", row_start,
              {static_cast<int64_t>(row_start.size())});
  file->Create(group + "/column", data::ElementType::kInt32, {nnz});
  std::vector<int64_t> part;
  for (int64_t begin = 0; begin < nnz; begin += kChunk) {
    part.resize(static_cast<size_t>(std::min(kChunk, nnz - begin)));
    tensor.Positions(begin, part);
    for (int64_t& position : part) position %= columns;
    file->WritePart(group + "/column", begin, std::span<const int64_t>(part));
  }
}

void WriteParameters(const nn::ParameterSet& parameters,
                     std::span<const float> values, data::H5Writer* file) {
  for (const nn::Parameter& tensor : parameters.tensors()) {
    const std::string group = Group(tensor.decl);
    const auto part = values.subspan(static_cast<size_t>(tensor.offset),
                                     static_cast<size_t>(tensor.size()));
    file->Write(group + "/shape", std::span<const int64_t>(tensor.decl.shape),
                {static_cast<int64_t>(tensor.decl.shape.size())});
    if (tensor.rows == nullptr) {
      file->Write(group + "/values", part, tensor.decl.shape);
    } else {
      file->Write(group + "/values", part, {tensor.size()});
      WritePattern(tensor, file);
    }
  }
}

// Of model.h5, about: values, masks, and all that is saved of each weight.
int64_t ModelBytes(const nn::Model& model, size_t optimizer_floats,
                   int64_t average, int64_t owner) {
  const nn::ParameterSet& parameters = model.parameters();
  int64_t bytes = kFileOverhead;
  for (const nn::Parameter& tensor : parameters.tensors()) {
    if (tensor.rows == nullptr) continue;
    bytes += tensor.size() * int64_t{sizeof(int32_t)} +
             std::ssize(tensor.rows->row_start()) * int64_t{sizeof(int64_t)};
  }
  const int64_t floats =
      parameters.size() * (1 + static_cast<int64_t>(optimizer_floats)) +
      average + owner;
  return bytes + floats * int64_t{sizeof(float)};
}

}  // namespace

std::string ParameterHash(const nn::Model& model) {
  Hasher hasher;
  model.HashInto(&hasher);
  return HexDigest(hasher.Digest());
}

void CombineStatistics(const StateParts& parts,
                       comm::Communicator* communicator) {
  const std::vector<float> all = parts.statistics->Combined(communicator);
  std::copy(all.begin(), all.end(), parts.model->statistics().begin());
}

std::string StateHash(const StateParts& parts, int64_t step,
                      comm::Communicator* communicator, Buffer<float>* owner) {
  std::vector<uint64_t> mine;
  for (int shard : parts.hosted_shards) {
    Hasher hasher;
    for (const auto& state : parts.exchange->ShardState(shard)) {
      hasher.Update(state.values);
    }
    hasher.Update(std::span<const float>(parts.statistics->current(shard)));
    mine.push_back(hasher.Digest());
  }
  const std::vector<uint64_t> shards = GatherDigests(mine, communicator);
  const bool root = communicator->rank() == 0;
  if (parts.exchange->has_owner_state()) {
    if (root && owner->size() != parts.model->parameters().size()) {
      *owner = Buffer<float>(parts.model->parameters().size());
    }
    parts.exchange->GatherOwnerState(owner->span());
  }
  if (!root) return "";
  Hasher hasher;
  parts.model->parameters().HashInto(&hasher);
  for (const auto& state : parts.optimizer->State()) {
    hasher.Update(state.values);
  }
  hasher.Update(std::span<const float>(parts.average));
  hasher.Update(std::span<const uint64_t>(shards));
  hasher.Update(owner->span());
  hasher.Update(std::span<const int64_t>(&step, 1));
  return HexDigest(hasher.Digest());
}

void VerifyRanksAgree(const StateParts& parts, int64_t step,
                      comm::Communicator* communicator) {
  Hasher hasher;
  hasher.Update(std::as_const(*parts.model).parameters().values());
  for (const auto& state : parts.optimizer->State()) {
    hasher.Update(state.values);
  }
  hasher.Update(std::span<const float>(parts.average));
  const uint64_t digest = hasher.Digest();
  const auto all = GatherDigests({&digest, 1}, communicator);
  std::string differing;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    differing += (differing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (differing.empty()) return;
  throw CommError("step " + std::to_string(step) +
                  ": parameters differ between ranks: rank(s) " + differing +
                  " from rank 0; expected equal bits; restart from the last "
                  "checkpoint and suspect the memory of these nodes");
}

void Snapshot::Take(const StateParts& parts, comm::Communicator* communicator) {
  model_ = parts.model;
  statistics_ = parts.statistics->Combined(communicator);
  is_root_ = communicator->rank() == 0;
  if (parts.exchange->has_owner_state()) {
    if (is_root_ && owner_.size() != model_->parameters().size()) {
      owner_ = Buffer<float>(model_->parameters().size());
    }
    parts.exchange->GatherOwnerState(owner_.span());
  }
  shards_.resize(parts.hosted_shards.size());
  for (size_t i = 0; i < shards_.size(); ++i) {
    const auto states = parts.exchange->ShardState(parts.hosted_shards[i]);
    shards_[i].shard = parts.hosted_shards[i];
    shards_[i].arrays.resize(states.size());
    for (size_t j = 0; j < states.size(); ++j) {
      shards_[i].arrays[j].name = states[j].name;
      CopyInto(states[j].values, &shards_[i].arrays[j].values);
    }
    if (statistics_.empty()) continue;
    shards_[i].arrays.push_back({.name = kStatistics, .values = {}});
    CopyInto(parts.statistics->current(shards_[i].shard),
             &shards_[i].arrays.back().values);
  }
  if (!is_root_) return;
  CopyInto(model_->parameters().values(), &values_);
  CopyInto(parts.average, &average_);
  const auto states = parts.optimizer->State();
  optimizer_.resize(states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    optimizer_[i].name = states[i].name;
    CopyInto(states[i].values, &optimizer_[i].values);
  }
}

std::vector<PendingFile> Snapshot::Files(const Spec& spec,
                                         const std::string& mathematical_text,
                                         const Counters& counters) const {
  std::vector<PendingFile> files;
  if (is_root_) {
    files.push_back(
        {"model.h5",
         ModelBytes(*model_, optimizer_.size(), average_.size(), owner_.size()),
         [this, spec_text = spec.json.Dump(2), mathematical_text,
          progress = counters.ToJson().Dump(2)](const std::string& path) {
           data::H5Writer file(path);
           file.WriteText("/spec", spec_text);
           file.WriteText("/mathematics", mathematical_text);
           file.WriteText("/progress", progress);
           file.WriteText("/input", InputText(model_->graph()));
           WriteParameters(model_->parameters(), values_.span(), &file);
           int64_t begin = 0;
           for (const auto& statistic : model_->graph().statistics) {
             const std::span<const float> all(statistics_);
             file.Write("/statistics/" + statistic.name,
                        all.subspan(static_cast<size_t>(begin),
                                    static_cast<size_t>(statistic.size)),
                        {statistic.size});
             begin += statistic.size;
           }
           for (const Array& array : optimizer_) {
             file.Write("/optimizer/" + array.name, array.values.span(),
                        {array.values.size()});
           }
           if (average_.size() > 0) {
             file.Write("/ema", average_.span(), {average_.size()});
           }
           if (owner_.size() > 0) {
             file.Write("/exchange/owner_residual", owner_.span(),
                        {owner_.size()});
           }
           file.Close();
         }});
  }
  for (const ShardCopy& shard : shards_) {
    if (shard.arrays.empty()) continue;
    int64_t bytes = kFileOverhead;
    for (const Array& array : shard.arrays) {
      bytes += array.values.size() * int64_t{sizeof(float)};
    }
    files.push_back(
        {ShardFile(shard.shard), bytes, [&shard](const std::string& path) {
           data::H5Writer file(path);
           for (const Array& array : shard.arrays) {
             file.Write("/" + array.name, array.values.span(),
                        {array.values.size()});
           }
           file.Close();
         }});
  }
  return files;
}

int64_t Snapshot::MemoryBytes(int64_t parameters, int64_t optimizer_floats,
                              int64_t shard_floats, int64_t owner_floats) {
  return 4 *
         (parameters * (1 + optimizer_floats) + shard_floats + owner_floats);
}

CheckpointHead ReadHead(const data::H5Reader& file) {
  return {.spec_text = file.ReadText("/spec"),
          .mathematical_text = file.ReadText("/mathematics"),
          .counters = Counters::FromJson(
              Json::Parse(file.ReadText("/progress"), "/progress"))};
}

ModelInput ReadInput(const data::H5Reader& file, const Spec& spec) {
  if (!file.Has("/input")) {
    const data::DatasetInfo info = data::GetDatasetInfo(spec.data());
    return {info.shape, info.classes};
  }
  const Json json = Json::Parse(file.ReadText("/input"), "/input");
  const std::vector<Json>& sizes = json.at("shape").items();
  return {.shape = {.channels = sizes.at(0).integer(),
                    .depth = sizes.at(1).integer(),
                    .height = sizes.at(2).integer(),
                    .width = sizes.at(3).integer()},
          .outputs = json.at("outputs").integer()};
}

sparse::Pattern ReadPattern(const data::H5Reader& file,
                            const nn::ParameterDecl& declaration) {
  const std::string group = Group(declaration);
  const int64_t rows = declaration.shape[0];
  std::vector<int64_t> row_start(static_cast<size_t>(rows + 1));
  file.Read(group + "/row_start", 0, std::span<int64_t>(row_start));
  Buffer<int32_t> column(declaration.nnz);
  std::vector<int64_t> part;
  for (int64_t begin = 0; begin < declaration.nnz; begin += kChunk) {
    part.resize(static_cast<size_t>(std::min(kChunk, declaration.nnz - begin)));
    file.Read(group + "/column", begin, std::span<int64_t>(part));
    std::transform(part.begin(), part.end(), column.data() + begin,
                   [](int64_t c) { return static_cast<int32_t>(c); });
  }
  return {rows, declaration.dense_size() / rows, std::move(row_start),
          std::move(column)};
}

void ReadNonzeros(const data::H5Reader& file,
                  std::vector<nn::ParameterDecl>* declarations) {
  for (nn::ParameterDecl& declaration : *declarations) {
    const std::string group = Group(declaration);
    std::vector<int64_t> shape(declaration.shape.size());
    if (file.Info(group + "/shape").shape !=
        std::vector<int64_t>{static_cast<int64_t>(shape.size())}) {
      throw IoError(group + ": has another rank than the model's tensor");
    }
    file.Read(group + "/shape", 0, std::span<int64_t>(shape));
    if (shape != declaration.shape) {
      throw IoError(group + ": has another shape than the model's tensor");
    }
    declaration.nnz = file.Has(group + "/column")
                          ? file.Info(group + "/column").shape.at(0)
                          : declaration.dense_size();
  }
}

void ReadTensorValues(const data::H5Reader& file,
                      const nn::ParameterDecl& declaration,
                      std::span<float> values) {
  file.Read(Group(declaration) + "/values", 0, values);
}

bool HasAverage(const data::H5Reader& file) { return file.Has("/ema"); }

void ReadAverage(const data::H5Reader& file, std::span<float> values) {
  file.Read("/ema", 0, values);
}

bool UsesAverage(const data::H5Reader& file, Weights weights,
                 const std::string& where) {
  if (weights == Weights::kAverage && !HasAverage(file)) {
    throw SpecError("--weights=ema: " + where +
                    " holds no averaged weights; expected a run with "
                    "train.ema; use --weights=last");
  }
  return weights != Weights::kLast && HasAverage(file);
}

void ReadStatistic(const data::H5Reader& file,
                   const nn::StatisticDecl& statistic,
                   std::span<float> values) {
  file.Read("/statistics/" + statistic.name, 0, values);
}

void ReadTrainingState(const std::string& checkpoint, StateParts* parts,
                       comm::Communicator* communicator) {
  const data::H5Reader model(checkpoint + "/model.h5");
  for (const OptimizerState& state : parts->optimizer->State()) {
    model.Read("/optimizer/" + state.name, 0, state.values);
  }
  if (!parts->average.empty()) ReadAverage(model, parts->average);
  for (int shard : parts->hosted_shards) {
    const auto states = parts->exchange->ShardState(shard);
    if (states.empty() && parts->statistics->size() == 0) continue;
    const data::H5Reader file(checkpoint + "/" + ShardFile(shard));
    for (const auto& state : states) {
      file.Read("/" + state.name, 0, state.values);
    }
    if (parts->statistics->size() > 0) {
      file.Read(std::string("/") + kStatistics, 0,
                parts->statistics->current(shard));
    }
  }
  if (!parts->exchange->has_owner_state()) return;
  Buffer<float> owner;
  if (communicator->rank() == 0) {
    owner = Buffer<float>(parts->model->parameters().size());
    model.Read("/exchange/owner_residual", 0, owner.span());
  }
  parts->exchange->ScatterOwnerState(owner.span());
}

}  // namespace lumen::train
