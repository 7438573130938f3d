// SPDX-License-Identifier: Apache-2.0
// Is a zstd file whole? Boost takes one that is cut short for its end.
#pragma once

#include <istream>

namespace lumen::data {

// Walks the headers of frames and blocks (RFC 8878, section 3.1) without
// reading what is between. False where the file ends inside a frame; what is
// damaged in another way is left to the decompressor. REQUIRES: a stream that
// can seek.
bool IsWholeZstd(std::istream* file);

}  // namespace lumen::data
