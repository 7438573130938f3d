// SPDX-License-Identifier: Apache-2.0
#include "launcher.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "lumen/core/error.h"

namespace lumen::comm {

void CheckLauncher(int ranks, const char* slurm_tasks,
                   const char* mpirun_ranks) {
  if (ranks != 1 || !slurm_tasks) return;
  if (mpirun_ranks && std::string_view(mpirun_ranks) == "1") return;
  const long tasks = std::strtol(slurm_tasks, nullptr, 10);
  if (tasks <= 1) return;
  throw CommError(fmt::format(
      "launcher: SLURM_NTASKS is {} but MPI sees one rank; expected {} ranks "
      "in one world; start with mpirun, or with srun --mpi=pmix (srun "
      "--mpi=list shows what is there); for one rank on purpose: mpirun -np 1",
      tasks, tasks));
}

}  // namespace lumen::comm
