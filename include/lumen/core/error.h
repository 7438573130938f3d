// SPDX-License-Identifier: Apache-2.0
// Errors that a user can fix. They are thrown by the library and caught only in
// main, which prints one line. Our own bugs are glog CHECKs instead.
#pragma once

#include <stdexcept>
#include <string>

namespace lumen {

// Every message reads "where: found; expected; hint", for example
//   jobs/a.json:14: train.optimizer.type: unknown "adamm"; known: adam, sgd
// Throw sites write that sentence themselves: they know it best.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The spec or the command line is wrong: exit code 2.
class SpecError : public Error {
 public:
  using Error::Error;
};

// A file is missing, damaged, or cannot be written.
class IoError : public Error {
 public:
  using Error::Error;
};

// An IoError of one rank that all ranks were told of and throw alike, so that
// the program can end in good order.
class SharedIoError : public IoError {
 public:
  using IoError::IoError;
};

// Ranks disagree, stall, or one of them is gone.
class CommError : public Error {
 public:
  using Error::Error;
};

}  // namespace lumen
