// SPDX-License-Identifier: Apache-2.0
// How ranks end that met an error.
#pragma once

#include <string>

#include "lumen/comm/communicator.h"

namespace lumen::cli {

// An error of this rank alone: prints it, with rank and host, and ends all
// ranks. Without a communicator, or as the only rank, prints it and returns
// `code`.
int EndAll(comm::Communicator* communicator, const std::string& message,
           int code);

// An error that the other ranks may have met too. When all did, rank 0 prints
// it once and `code` is returned everywhere; else as EndAll.
int EndTogether(comm::Communicator* communicator, const std::string& message,
                int code);

}  // namespace lumen::cli
