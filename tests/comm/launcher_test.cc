// SPDX-License-Identifier: Apache-2.0
#include "../../comm/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lumen/core/error.h"

namespace lumen::comm {
namespace {

TEST(Launcher, SingletonsUnderSlurmAreRefusedWithTheFlagToUse) {
  try {
    CheckLauncher(1, "4", nullptr);
    FAIL();
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("SLURM_NTASKS is 4"));
    EXPECT_THAT(error.what(), testing::HasSubstr("srun --mpi=pmix"));
  }
  // SLURM's own PMI told of four tasks, MPI did not listen.
  EXPECT_THROW(CheckLauncher(1, "4", "4"), CommError);
}

TEST(Launcher, WhatWasAskedForIsFine) {
  CheckLauncher(1, nullptr, nullptr);  // no SLURM, no mpirun
  CheckLauncher(1, "1", nullptr);
  CheckLauncher(4, "4", "4");
  CheckLauncher(2, "4", "2");
  CheckLauncher(1, "4", "1");  // mpirun -np 1 inside an allocation
}

}  // namespace
}  // namespace lumen::comm
