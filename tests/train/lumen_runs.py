# SPDX-License-Identifier: Apache-2.0
"""Runs the program for tests: mpirun, kills, resumes, summaries.

The environment variable LUMEN names the program (CTest sets it).
"""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

LUMEN = os.environ.get("LUMEN", "build/release/lumen")
HERE = os.path.dirname(os.path.abspath(__file__))
MPIRUN = [
    "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
    "--mca", "btl", "self,vader", "--mca", "mpi_yield_when_idle", "1",
    "--mca", "btl_vader_single_copy_mechanism", "none",
]


def command(spec, out, ranks=1, threads=1, isa="auto", options=()):
    """The command line of a training run; ranks=0 starts without mpirun."""
    launcher = MPIRUN + ["-np", str(ranks)] if ranks else []
    return launcher + [
        LUMEN, "train", spec, f"--out={out}", f"--threads={threads}",
        f"--isa={isa}", *options]


def start(*args, **kwargs):
    return subprocess.Popen(
        command(*args, **kwargs), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True)


def train(*args, expect=0, **kwargs):
    """Runs to the end and returns (summary, output). Checks the exit code."""
    done = subprocess.run(
        command(*args, **kwargs), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=280, check=False)
    if done.returncode != expect:
        raise AssertionError(
            f"exit code {done.returncode}, expected {expect}:\n"
            f"{' '.join(done.args)}\n{done.stdout[-4000:]}")
    out = args[1] if len(args) > 1 else kwargs["out"]
    return summary(out), done.stdout


def summary(out):
    path = os.path.join(out, "summary.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def metrics(out):
    """The lines of metrics.jsonl."""
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def surviving(out, split="train"):
    """step -> (loss, metrics): the last word on each step of a split."""
    kept = {}
    for line in metrics(out):
        if line["split"] == split:
            kept[line["step"]] = (line["loss"], line.get("accuracy"),
                                  line["lr"])
    return kept


def checkpoints(out):
    """Checkpoint folders, oldest first."""
    folder = os.path.join(out, "checkpoints")
    if not os.path.isdir(folder):
        return []
    names = [n for n in os.listdir(folder) if n.startswith("step-")]
    names.sort(key=lambda n: int(n.split("-")[1]))
    return [os.path.join(folder, n) for n in names]


def state(out):
    """Dense arrays by name of the newest checkpoint: parameters, statistics."""
    import h5py
    import numpy as np
    arrays = {}
    with h5py.File(checkpoints(out)[-1] + "/model.h5", "r") as file:
        for name, group in file["parameters"].items():
            shape = tuple(group["shape"][:])
            values = group["values"][:]
            if "column" in group:
                start = group["row_start"][:]
                dense = np.zeros((shape[0], int(np.prod(shape[1:]))),
                                 np.float32)
                rows = np.repeat(np.arange(shape[0]), np.diff(start))
                dense[rows, group["column"][:]] = values
                values = dense
            arrays[name] = values.reshape(shape)
        for name, values in file.get("statistics", {}).items():
            arrays[name] = values[:]
    return arrays


def session_of(process):
    """The processes of the session that `process` leads: mpirun puts every rank
    into a process group of its own, but not into another session."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == process.pid:
            found.append(int(name))
    return found


def kill_all(process, number=signal.SIGKILL):
    """Signals mpirun and all ranks at once, kill -9 as a dying node would."""
    for pid in session_of(process):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
    process.communicate()


def ranks_of(process):
    """The ranks below an mpirun, or the program itself."""
    found = []
    for pid in session_of(process):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                if file.read().strip() == "lumen":
                    found.append(pid)
        except OSError:
            pass
    return found


def wait_for(condition, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


class RunTest(unittest.TestCase):
    """A test case with a temporary folder and the small test spec."""
    SPEC = os.path.join(HERE, "small.json")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lumen-test-")
        self.addCleanup(self.folder.cleanup)

    def out(self, name="run"):
        return os.path.join(self.folder.name, name)

    def write_spec(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path
