#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# jobs/train.sbatch on a real SLURM of two virtual hosts (cluster/local_slurm).
#
# usage: slurm_test.sh LUMEN-PROGRAM
#   1. A job of two nodes, one rank each, runs to its end.
#   2. The same job under a time limit of a minute, shorter than it needs:
#      signal, checkpoint, requeue, resume, until it is finished.
#   3. Both must have the same parameter_hash and state_hash, and the log of 2.
#      must hold every start.
# Exit code 77: skipped, with the reason. Ends and removes all that it starts.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
lumen=$(readlink -e "${1:?usage: slurm_test.sh LUMEN-PROGRAM}")
spec=$root/jobs/fashion_mlp.json
slurm=$root/cluster/local_slurm

skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "virtual hosts need root"
for program in munged slurmctld slurmd sbatch ip nsenter mpirun python3; do
  command -v $program >/dev/null || skip "no $program; tests/run --cluster installs it"
done
unshare --net --uts --ipc --mount true 2>/dev/null || skip "no namespaces here"
[ -d /usr/share/datasets/fashion-mnist ] || skip "no dataset-fashion-mnist"

work=$(mktemp -d /tmp/lumen-slurm-test.XXXXXX)
export VHOSTS=test$$
finish() {
  local status=$?
  trap - EXIT INT TERM
  if [ $status != 0 ]; then
    echo "--- failed ($status); the ends of the logs:"
    tail -n 25 "$work"/*.log "$work"/slurm/log/slurmctld.log 2>/dev/null || true
  fi
  "$slurm" down || true
  rm -rf --one-file-system "$work"
  exit $status
}
trap finish EXIT
trap 'exit 1' INT TERM

# Two hosts share this machine's cores: whoever waits must not spin.
export OMP_WAIT_POLICY=passive OMPI_MCA_mpi_yield_when_idle=1
export LUMEN=$lumen
export VHOSTS_SHARE=$root:$(dirname "$lumen")   # the checkout may be under /tmp

cd "$work"
mkdir slurm run
"$slurm" up 2 "$work/slurm" >up.log 2>&1
echo "SLURM is up: $("$slurm" exec sinfo -h -o '%D nodes %T')"

# submit NAME LIMIT OVERRIDE...: prints the job's number.
submit() {
  local name=$1 limit=$2
  shift 2
  "$slurm" exec sbatch --parsable -N 2 -t "$limit" -o "$work/$name.log" \
    "$root/jobs/train.sbatch" "$spec" "--out=$work/run/$name" "$@"
}

# await JOB SECONDS: until it is over; fails if that was not a success.
await() {
  local job=$1 deadline=$((SECONDS + $2)) state
  while :; do
    state=$("$slurm" exec scontrol show job "$job" | sed -n 's/^ *JobState=\([A-Z_]*\).*/\1/p')
    case $state in
      COMPLETED) return 0 ;;
      BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | \
        PREEMPTED | REVOKED | TIMEOUT | "") echo "job $job is $state"; return 1 ;;
      *) ;;   # on its way: PENDING, RUNNING, SIGNALING, COMPLETING, ...
    esac
    ((SECONDS < deadline)) || { echo "job $job: still $state"; return 1; }
    sleep 0.5
  done
}

# value NAME KEY: from the run's summary.
value() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' \
    "$work/run/$1/summary.json" "$2"
}

check() {   # check CLAIM COMMAND...
  local claim=$1
  shift
  if "$@"; then echo "ok: $claim"; else echo "NOT OK: $claim ($*)"; return 1; fi
}

# How many steps keep two ranks busy for 45 s here? SLURM looks at time limits
# every 30 s, so the signal comes within 30 s of the start.
await "$(submit probe 10 train.steps=60)" 120
steps=$(python3 -c 'import sys; print(max(100, int(45 * int(sys.argv[1]) / float(sys.argv[2]))))' \
  "$(value probe steps)" "$(value probe seconds)")
echo "a job of $steps steps"

await "$(submit calm 10 train.steps="$steps")" 240
check "the undisturbed job finished" [ "$(value calm stopped_by)" = finished ]
await "$(submit limited 1 train.steps="$steps")" 400
check "the limited job finished" [ "$(value limited stopped_by)" = finished ]
starts=$(grep -c ', start [0-9]*, on 2 nodes' limited.log)
check "it was requeued ($starts starts, all in one log)" [ "$starts" -ge 2 ]
check "it resumed from a checkpoint" [ "$(value limited resumed_from)" != None ]
for hash in parameter_hash state_hash; do
  check "$hash $(value calm $hash)" [ "$(value calm $hash)" = "$(value limited $hash)" ]
done
