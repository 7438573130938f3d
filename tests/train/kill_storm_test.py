# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments, half of them inside the writing of a checkpoint.

usage: kill_storm_test.py [--kills=N] [--seed=N]   default 20 kills

Runs are killed and started again until they finish; every one must end with
the state of a run that nobody disturbed. A start goes on from the newest
checkpoint that was whole when the run was killed: at most one interval of steps
is done again. 500 kills take about five minutes.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

import lumen_runs as runs

KILLS = 20
SEED = 1
INTERVAL = 5
LENGTH = ("train.steps=400", f"checkpoint.every={INTERVAL}", "train.shards=4",
          "train.eval_every=200", "checkpoint.keep=2")


def whole(out):
    return [c for c in runs.checkpoints(out)
            if os.path.exists(c + "/MANIFEST.json")]


def writes_now(out):
    return any(not os.path.exists(c + "/MANIFEST.json")
               for c in runs.checkpoints(out))


class KillStorm(runs.RunTest):

    def start(self, out):
        return subprocess.Popen(
            runs.command(self.SPEC, out, ranks=0, options=LENGTH),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def kill_sometime(self, process, out, inside):
        """False: it ended before."""
        began = len(self.lines(out))
        runs.wait_for(lambda: process.poll() is not None or
                      len(self.lines(out)) > began, 60)
        time.sleep(random.uniform(0, 0.15))
        if inside:
            runs.wait_for(lambda: writes_now(out) or
                          process.poll() is not None, 10)
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        if process.returncode == 0:
            return False
        self.assertEqual(process.returncode, -signal.SIGKILL, errors)
        return True

    def lines(self, out):
        """Whole lines of metrics.jsonl, as they are on the disk now."""
        try:
            with open(out + "/metrics.jsonl", encoding="utf-8") as file:
                return [json.loads(line) for line in file
                        if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def check_restarts(self, out, newest_at_kill, lines_at_kill):
        lines = self.lines(out)
        starts = [line["step"] for line in lines if line["split"] == "start"]
        for step, newest in zip(starts[1:], newest_at_kill):
            self.assertEqual(step, newest)
        # No line is lost, none is torn.
        for kept in lines_at_kill:
            self.assertEqual(lines[:len(kept)], kept)
        # A start does at most one interval of logged steps again, and the
        # writing of a checkpoint may last into the next one.
        last = 0
        for line in lines:
            if line["split"] == "start":
                self.assertLessEqual(last - line["step"], 2 * INTERVAL)
            last = line["step"]
        self.assertEqual(sorted(runs.surviving(out)), list(range(1, 401)))

    def test_every_run_ends_with_the_state_of_an_undisturbed_one(self):
        random.seed(SEED)
        calm, _ = runs.train(self.SPEC, self.out("calm"), ranks=0,
                             options=LENGTH)
        kills = inside = finished = 0
        while kills < KILLS:
            out = self.out()
            newest, kept = [], []
            while True:
                process = self.start(out)
                hit = kills < KILLS and self.kill_sometime(
                    process, out, inside=kills % 2)
                if not hit:
                    self.assertEqual(process.wait(timeout=120), 0)
                    process.stderr.close()
                    break
                kills += 1
                inside += writes_now(out)
                newest.append(int(whole(out)[-1].split("-")[-1])
                              if whole(out) else 0)
                kept.append(self.lines(out))
            self.assertEqual(runs.summary(out)["state_hash"],
                             calm["state_hash"])
            self.assertEqual(runs.surviving(out),
                             runs.surviving(self.out("calm")))
            self.check_restarts(out, newest, kept)
            finished += 1
            shutil.rmtree(out)
        self.assertGreater(inside, KILLS / 5)
        print(f"{kills} kills, {inside} of them inside the writing of a "
              f"checkpoint; {finished} runs, all with state "
              f"{calm['state_hash']}.")


if __name__ == "__main__":
    for word in list(sys.argv[1:]):
        if word.startswith("--kills="):
            KILLS = int(word.split("=")[1])
        elif word.startswith("--seed="):
            SEED = int(word.split("=")[1])
        else:
            continue
        sys.argv.remove(word)
    unittest.main(verbosity=2)
