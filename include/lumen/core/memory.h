// SPDX-License-Identifier: Apache-2.0
// How much memory there is.
#pragma once

#include <cstdint>

namespace lumen {

// Largest resident memory of this process so far.
int64_t PeakRssBytes();

// Memory that can be had without swapping: MemAvailable of the system, or less
// where a limit of the control group (version 1 or 2) leaves less.
int64_t AvailableMemoryBytes();

}  // namespace lumen
