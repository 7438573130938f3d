// SPDX-License-Identifier: Apache-2.0
// Did the launcher start the ranks it was asked for?
#pragma once

namespace lumen::comm {

// Throws CommError when SLURM was asked for several tasks but MPI sees one
// rank: then every task is a world of its own. `slurm_tasks` is SLURM_NTASKS,
// `mpirun_ranks` is OMPI_COMM_WORLD_SIZE or PMI_SIZE (an explicit mpirun -np 1
// inside an allocation is fine); either may be null.
void CheckLauncher(int ranks, const char* slurm_tasks,
                   const char* mpirun_ranks);

}  // namespace lumen::comm
