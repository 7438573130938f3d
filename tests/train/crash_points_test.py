# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that ends at any of its calls, by a kill or a full disk.

CRASH_LIBRARY names tests/train/crash_at.c as a library (CTest sets it).
usage: crash_points_test.py [--every=N]   each N-th call only (default 8)
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

import lumen_runs as runs

EVERY = 8
# One checkpoint before the one that is hit, which replaces it.
LENGTH = ("train.shards=2", "train.eval_every=1000", "checkpoint.every=4",
          "checkpoint.keep=1", "train.global_batch=32")


class CrashPoints(runs.RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        library = os.environ.get("CRASH_LIBRARY", "")
        if not os.path.exists(library):
            raise unittest.SkipTest("no CRASH_LIBRARY: " + library)

    def setUp(self):
        super().setUp()
        runs.train(self.SPEC, self.out("first"), ranks=0,
                   options=LENGTH + ("train.steps=4",))
        done = self.attempt("whole", at=0)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.whole = runs.summary(self.out("whole"))
        with open(self.out("calls"), encoding="ascii") as file:
            self.calls = int(file.read())
        self.assertGreater(self.calls, 30)

    def attempt(self, name, at, how="kill"):
        """From step 4 to 8, to be ended at the at-th call of its checkpoint."""
        shutil.copytree(self.out("first"), self.out(name))
        os.remove(self.out(name) + "/summary.json")
        return subprocess.run(
            runs.command(self.SPEC, self.out(name), ranks=0,
                         options=LENGTH + ("train.steps=8",)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=60, check=False, env=dict(
                os.environ, LD_PRELOAD=os.environ["CRASH_LIBRARY"],
                CRASH_BELOW=f"{name}/checkpoints", CRASH_AT=str(at),
                CRASH_HOW=how, CRASH_COUNT=self.out("calls")))

    def whole_steps(self, name):
        return [int(path.split("-")[-1]) for path in
                runs.checkpoints(self.out(name))
                if os.path.exists(path + "/MANIFEST.json")]

    def finish(self, name, claim):
        before = self.whole_steps(name)
        self.assertTrue(before, claim)
        summary, output = runs.train(self.SPEC, self.out(name), ranks=0,
                                     options=LENGTH + ("train.steps=8",))
        self.assertEqual(summary["state_hash"], self.whole["state_hash"], claim)
        resumed = re.search(r"resume: step (\d+)", output)
        self.assertEqual(int(resumed.group(1)), before[-1], output)
        if before[-1] == 8:  # killed while it removed the old one: all is done
            shutil.rmtree(self.out(name))
            return
        # Nothing half is left behind.
        self.assertEqual(self.whole_steps(name), [8], claim)
        self.assertEqual(len(runs.checkpoints(self.out(name))), 1, claim)
        for folder, _, names in os.walk(self.out(name)):
            for file in names:
                self.assertFalse(file.endswith(".tmp"), claim + folder + file)
        shutil.rmtree(self.out(name))

    def points(self):
        return range(1, self.calls + 1, EVERY)

    def test_a_kill_at_any_call_resumes_to_the_same_state(self):
        killed = 0
        for how in ("kill", "half"):
            for at in self.points():
                done = self.attempt("run", at, how)
                killed += done.returncode == -9
                self.finish("run", f"{how} at call {at}")
        # The calls after the last step's are those of a run that ended.
        self.assertGreaterEqual(killed, 2 * len(self.points()) - 2)
        print(f"{killed} kills at {self.calls} calls, every {EVERY}.")

    def test_a_disk_that_is_full_from_any_call_on_keeps_the_old_one(self):
        failed = 0
        for at in self.points():
            done = self.attempt("run", at, "enospc")
            if done.returncode:
                failed += 1
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("No space left on device", done.stdout)
                self.assertIn("older ones are kept", done.stdout)
                self.assertEqual(self.whole_steps("run"), [4])
            self.finish("run", f"disk full at call {at}")
        self.assertGreater(failed, len(self.points()) / 2)
        print(f"{failed} full disks at {self.calls} calls, every {EVERY}.")


if __name__ == "__main__":
    for word in sys.argv[1:]:
        if word.startswith("--every="):
            EVERY = int(word.split("=")[1])
            sys.argv.remove(word)
    unittest.main(verbosity=2)
