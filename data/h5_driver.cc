// SPDX-License-Identifier: Apache-2.0
#include "data/h5_driver.h"

#include <sys/stat.h>
#include <unistd.h>

#if __has_include(<H5FDdevelop.h>)  // HDF5 1.14
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace lumen::data {
namespace {

// One transfer stays below what read and write accept.
constexpr size_t kMaxTransfer = size_t{1} << 30;
constexpr haddr_t kMaxAddress = (haddr_t{1} << 63) - 1;

struct Info {
  DriverFile* file;
};

struct OpenFile {
  H5FD_t base;  // must be first: HDF5 fills it in
  DriverFile* file;
  haddr_t end_allocated;
  haddr_t end_file;
};

OpenFile* Self(H5FD_t* base) { return reinterpret_cast<OpenFile*>(base); }
const OpenFile* Self(const H5FD_t* base) {
  return reinterpret_cast<const OpenFile*>(base);
}

H5FD_t* Open(const char*, unsigned, hid_t access_list, haddr_t) {
  const auto* info = static_cast<const Info*>(H5Pget_driver_info(access_list));
  if (info == nullptr) return nullptr;
  struct stat status;
  if (fstat(info->file->descriptor, &status) != 0) {
    info->file->error = errno;
    return nullptr;
  }
  auto* self = new OpenFile{};
  self->file = info->file;
  self->end_file = static_cast<haddr_t>(status.st_size);
  return &self->base;
}

herr_t Close(H5FD_t* base) {
  delete Self(base);
  return 0;
}

herr_t Query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
           H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t EndAllocated(const H5FD_t* base, H5FD_mem_t) {
  return Self(base)->end_allocated;
}

herr_t SetEndAllocated(H5FD_t* base, H5FD_mem_t, haddr_t address) {
  Self(base)->end_allocated = address;
  return 0;
}

haddr_t EndFile(const H5FD_t* base, H5FD_mem_t) { return Self(base)->end_file; }

herr_t Read(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t size,
            void* buffer) {
  OpenFile* self = Self(base);
  auto* out = static_cast<char*>(buffer);
  if (address > kMaxAddress || size > kMaxAddress - address) return -1;
  while (size > 0) {
    const ssize_t got =
        pread(self->file->descriptor, out, std::min(size, kMaxTransfer),
              static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      if (self->file->error == 0) self->file->error = errno;
      return -1;
    }
    if (got == 0) {
      // While writing, allocated space may not have been written yet.
      if (!self->file->writable) {
        self->file->ended_early = true;
        return -1;
      }
      std::memset(out, 0, size);
      return 0;
    }
    out += got;
    address += static_cast<haddr_t>(got);
    size -= static_cast<size_t>(got);
  }
  return 0;
}

herr_t Write(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t size,
             const void* buffer) {
  OpenFile* self = Self(base);
  const auto* in = static_cast<const char*>(buffer);
  const haddr_t end = address + size;
  while (size > 0 && self->file->error == 0) {
    const ssize_t put =
        pwrite(self->file->descriptor, in, std::min(size, kMaxTransfer),
               static_cast<off_t>(address));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      self->file->error = put < 0 ? errno : EIO;
      break;
    }
    in += put;
    address += static_cast<haddr_t>(put);
    size -= static_cast<size_t>(put);
  }
  self->end_file = std::max(self->end_file, end);
  return 0;
}

herr_t Truncate(H5FD_t* base, hid_t, hbool_t) {
  OpenFile* self = Self(base);
  if (!self->file->writable || self->end_file == self->end_allocated) return 0;
  if (self->file->error == 0 &&
      ftruncate(self->file->descriptor,
                static_cast<off_t>(self->end_allocated)) != 0) {
    self->file->error = errno;
  }
  self->end_file = self->end_allocated;
  return 0;
}

hid_t Register() {
  H5FD_class_t driver = {};
#ifdef H5FD_CLASS_VERSION  // HDF5 1.14; values below 512 are reserved
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(0x4c75);
#endif
  driver.name = "lumen";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(Info);
  driver.open = Open;
  driver.close = Close;
  driver.query = Query;
  driver.get_eoa = EndAllocated;
  driver.set_eoa = SetEndAllocated;
  driver.get_eof = EndFile;
  driver.read = Read;
  driver.write = Write;
  driver.truncate = Truncate;
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), driver.fl_map);
  return H5FDregister(&driver);
}

}  // namespace

DriverFile::~DriverFile() {
  if (descriptor >= 0) close(descriptor);
}

herr_t SetDriver(hid_t access_list, DriverFile* file) {
  static const hid_t driver = Register();
  if (driver < 0) return -1;
  const Info info{file};
  return H5Pset_driver(access_list, driver, &info);
}

}  // namespace lumen::data
