// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD that ends or fails a process at its n-th call that
// changes anything below a folder: fault injection for checkpoints.
//
//   CRASH_BELOW=TEXT   calls on paths that hold TEXT count
//   CRASH_AT=N         which one, from 1; 0: none
//   CRASH_HOW=kill     SIGKILL instead of the call
//             half     a write does half of it first
//             enospc   this call and all later writes fail, the disk is full
//   CRASH_COUNT=FILE   at the end the number of calls is written here
//
// Calls: write, pwrite, ftruncate, fsync, rename, mkdir, unlink, unlinkat,
// remove.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int calls;

static int ends_here(void) {
  const char* at = getenv("CRASH_AT");
  return at != NULL && atomic_load(&calls) == atoi(at);
}

static int how(const char* what) {
  const char* text = getenv("CRASH_HOW");
  return strcmp(text == NULL ? "kill" : text, what) == 0;
}

static int counts(const char* path) {
  const char* below = getenv("CRASH_BELOW");
  return below != NULL && strstr(path, below) != NULL;
}

static int disk_full(void) {
  const char* at = getenv("CRASH_AT");
  return how("enospc") && at != NULL && atoi(at) > 0 &&
         atomic_load(&calls) >= atoi(at);
}

// 0: go on; else the call fails.
static int on_path(const char* path, int writes) {
  if (!counts(path)) return 0;
  atomic_fetch_add(&calls, 1);
  if (ends_here() && !how("enospc")) kill(getpid(), SIGKILL);
  if (!writes || !disk_full()) return 0;
  errno = ENOSPC;
  return 1;
}

static const char* path_of(int descriptor, char* path, size_t size) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, size - 1);
  path[length < 0 ? 0 : length] = '\0';
  return path;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int on_descriptor(int descriptor, int writes) {
  char path[4096];
  return on_path(path_of(descriptor, path, sizeof(path)), writes);
}

ssize_t write(int fd, const void* data, size_t size) {
  REAL(write);
  return on_descriptor(fd, 1) ? -1 : real(fd, data, size);
}

static ssize_t positioned(ssize_t (*real)(int, const void*, size_t, off_t),
                          int fd, const void* data, size_t size, off_t at) {
  char path[4096];
  if (counts(path_of(fd, path, sizeof(path))) && how("half") &&
      getenv("CRASH_AT") != NULL &&
      atomic_load(&calls) + 1 == atoi(getenv("CRASH_AT"))) {
    real(fd, data, size / 2, at);
  }
  return on_path(path, 1) ? -1 : real(fd, data, size, at);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  REAL(pwrite);
  return positioned(real, fd, data, size, at);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  REAL(pwrite);
  return positioned(real, fd, data, size, at);
}

int ftruncate(int fd, off_t size) {
  REAL(ftruncate);
  return on_descriptor(fd, 0) ? -1 : real(fd, size);
}

int fsync(int fd) {
  REAL(fsync);
  return on_descriptor(fd, 1) ? -1 : real(fd);
}

int rename(const char* from, const char* to) {
  REAL(rename);
  return on_path(to, 0) ? -1 : real(from, to);
}

int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  return on_path(path, 1) ? -1 : real(path, mode);
}

int unlink(const char* path) {
  REAL(unlink);
  return on_path(path, 0) ? -1 : real(path);
}

int unlinkat(int folder, const char* path, int flags) {
  REAL(unlinkat);
  if (folder != AT_FDCWD && path[0] != '/') on_descriptor(folder, 0);
  else on_path(path, 0);
  return real(folder, path, flags);
}

int remove(const char* path) {
  REAL(remove);
  return on_path(path, 0) ? -1 : real(path);
}

__attribute__((destructor)) static void report(void) {
  const char* file = getenv("CRASH_COUNT");
  // Helpers of MPI inherit the library and call nothing.
  FILE* out = file == NULL || atomic_load(&calls) == 0 ? NULL : fopen(file, "w");
  if (out == NULL) return;
  fprintf(out, "%d\n", atomic_load(&calls));
  fclose(out);
}
