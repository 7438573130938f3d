// SPDX-License-Identifier: Apache-2.0
// The state of a run, to and from HDF5, and its hashes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint_writer.h"
#include "counters.h"
#include "lumen/comm/communicator.h"
#include "lumen/comm/exchange.h"
#include "lumen/core/buffer.h"
#include "lumen/data/h5_file.h"
#include "lumen/nn/model.h"
#include "lumen/sparse/pattern.h"
#include "lumen/train/export.h"
#include "lumen/train/optimizer.h"
#include "lumen/train/spec.h"
#include "shard_statistics.h"

namespace lumen::train {

// What a checkpoint is made of. Views; all outlive it.
struct StateParts {
  nn::Model* model = nullptr;
  ShardStatistics* statistics = nullptr;
  Optimizer* optimizer = nullptr;
  comm::Exchange* exchange = nullptr;
  std::vector<int> hosted_shards;
  std::span<float> average;  // of the parameters, or empty
};

// Parameters and running statistics: 16 hex digits.
std::string ParameterHash(const nn::Model& model);
// Sets the model's running statistics to those of all shards together.
// Collective.
void CombineStatistics(const StateParts& parts,
                       comm::Communicator* communicator);
// Parameters, optimizer, average, shard statistics, residuals and cursor.
// Collective; the result is valid on rank 0. Costs a gather of the owner state,
// into `owner` (allocated on rank 0 when it is empty).
std::string StateHash(const StateParts& parts, int64_t step,
                      comm::Communicator* communicator, Buffer<float>* owner);
// Compares parameters and optimizer state over the ranks; throws CommError
// naming those that differ from rank 0. Collective.
void VerifyRanksAgree(const StateParts& parts, int64_t step,
                      comm::Communicator* communicator);

// A copy of everything that changes, so that training goes on while it is
// written. Its memory is reused from one checkpoint to the next.
class Snapshot {
 public:
  // Collective: rank 0 gathers the owner state.
  void Take(const StateParts& parts, comm::Communicator* communicator);
  // The files of this rank. Holds references to this and to the patterns.
  std::vector<PendingFile> Files(const Spec& spec,
                                 const std::string& mathematical_text,
                                 const Counters& counters) const;
  // Room for the owner state, free between checkpoints.
  Buffer<float>* owner_buffer() { return &owner_; }
  // Bytes on rank 0, for plan; an average counts as an optimizer float.
  static int64_t MemoryBytes(int64_t parameters, int64_t optimizer_floats,
                             int64_t shard_floats, int64_t owner_floats);

 private:
  struct Array {
    std::string name;
    Buffer<float> values;
  };
  struct ShardCopy {
    int shard = 0;
    std::vector<Array> arrays;
  };
  const nn::Model* model_ = nullptr;
  bool is_root_ = false;
  Buffer<float> values_;
  std::vector<float> statistics_;
  std::vector<Array> optimizer_;
  Buffer<float> average_;
  Buffer<float> owner_;
  std::vector<ShardCopy> shards_;
};

// Everything of model.h5 that is small, from a verified checkpoint.
struct CheckpointHead {
  std::string spec_text;
  std::string mathematical_text;
  Counters counters;
};
// What the model was built for: one sample in, `outputs` numbers out.
struct ModelInput {
  Shape shape;
  int64_t outputs = 0;
};
// From the checkpoint, or from the data where an old checkpoint lacks it.
ModelInput ReadInput(const data::H5Reader& file, const Spec& spec);
CheckpointHead ReadHead(const data::H5Reader& file);
// The mask of a sparse tensor.
sparse::Pattern ReadPattern(const data::H5Reader& file,
                            const nn::ParameterDecl& declaration);
// nnz of every tensor as stored, into the declarations; throws IoError when
// names or shapes differ.
void ReadNonzeros(const data::H5Reader& file,
                  std::vector<nn::ParameterDecl>* declarations);
void ReadTensorValues(const data::H5Reader& file,
                      const nn::ParameterDecl& declaration,
                      std::span<float> values);
void ReadStatistic(const data::H5Reader& file,
                   const nn::StatisticDecl& statistic, std::span<float> values);
// The averaged weights of a checkpoint, if it has some.
bool HasAverage(const data::H5Reader& file);
void ReadAverage(const data::H5Reader& file, std::span<float> values);
// Which weights to use, "last" or "ema"? Throws SpecError when the average is
// asked for and `where` has none.
bool UsesAverage(const data::H5Reader& file, Weights weights,
                 const std::string& where);
// Optimizer, average, shard and owner state. Collective.
void ReadTrainingState(const std::string& checkpoint, StateParts* parts,
                       comm::Communicator* communicator);

}  // namespace lumen::train
