// SPDX-License-Identifier: Apache-2.0
// Times exchanges on random gradients and counts their bytes, beside
// MPI_Allreduce of the dense buffer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lumen/comm/exchange.h"

namespace lumen::comm {

struct ExchangeBenchOptions {
  int64_t elements = 0;
  int shards = 1;
  Json spec;               // the resolved "exchange" object
  int rounds = 5;          // each ends with one MPI_Allreduce
  int exchanges = 4;       // of a round
  bool wire_only = false;  // from coded to decoded, without a pause between
};

// Milliseconds of the slowest rank.
struct BenchSpread {
  double min = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};

struct ExchangeBenchResult {
  BenchSpread ms;        // from gradient to applied sum
  double select_ms = 0;  // medians, of the slowest rank
  double encode_ms = 0;
  double send_ms = 0;
  double decode_ms = 0;
  double pass_ms = 0;       // y += x over `elements`: read, read, write
  double allreduce_ms = 0;  // the best one
  int64_t bytes_sent = 0;   // in one exchange, by the rank that sends most
  double bound_bytes = 0;   // V2 of DESIGN section 6, for this rank count
  std::string sum_hash;     // of the sums of all exchanges
};

// Collective. Gradients have evenly random support by construction. Verifies
// that all ranks get the same sums; throws CommError if not. Rounds and
// MPI_Allreduce take turns. REQUIRES ranks <= shards; wire_only is for
// exchanges that send again.
ExchangeBenchResult RunExchangeBench(const ExchangeBenchOptions& options,
                                     Communicator* communicator,
                                     const sparse::Compute& compute);

// Resolves an "exchange" object of this type with all defaults.
Json DefaultExchangeSpec(const ExchangeRow& row);

}  // namespace lumen::comm
