// SPDX-License-Identifier: Apache-2.0
// The file driver under HDF5: plain pread and pwrite on a descriptor we own.
//
// HDF5's recovery from failed writes is poorly tested: after a full disk its
// close fails, the file stays open inside the library, and the exit handler
// tries again. This driver therefore never reports a failed write to HDF5. It
// remembers the first errno, drops everything written later, and H5Writer asks
// for it after each call. It takes no file locks, which many cluster file
// systems refuse.
#pragma once

#include <hdf5.h>

namespace lumen::data {

// Owned by H5Writer or H5Reader; outlives the HDF5 file that uses it.
struct DriverFile {
  int descriptor = -1;
  bool writable = false;
  int error = 0;             // errno of the first failure
  bool ended_early = false;  // a read went beyond the end of the file

  DriverFile() = default;
  ~DriverFile();
  DriverFile(const DriverFile&) = delete;
  DriverFile& operator=(const DriverFile&) = delete;
};

// Makes a file access list use the driver with `file`. Negative on failure.
herr_t SetDriver(hid_t access_list, DriverFile* file);

}  // namespace lumen::data
