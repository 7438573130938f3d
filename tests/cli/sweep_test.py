# SPDX-License-Identifier: Apache-2.0
"""jobs/sweep: every combination once, resumed, one table."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "train"))
import lumen_runs as runs  # noqa: E402

SWEEP = os.path.join(runs.HERE, "..", "..", "jobs", "sweep")
SMALL = os.path.join(runs.HERE, "small.json")
GRID = ["train.seed=1,2", "model.sparsity.density=0.3,0.5", "train.steps=10"]


class Sweep(runs.RunTest):

    def sweep(self, *arguments, code=0):
        done = subprocess.run(
            [sys.executable, SWEEP, "--lumen=" + runs.LUMEN, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=250, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def test_every_combination_is_trained_once(self):
        out = self.out("sweep")
        only = self.sweep(SMALL, "--out=" + out, *GRID, "--only=3")
        self.assertEqual(only.count("== "), 1)
        self.assertIn("| density=0.5_steps=10 | 1 |", only)

        text = self.sweep(SMALL, "--out=" + out, *GRID)
        self.assertEqual(text.count("== "), 3)
        for density in ("0.3", "0.5"):
            found = [runs.summary(f"{out}/density={density}_steps=10_seed={seed}")
                     for seed in (1, 2)]
            accuracy = [one["test"]["accuracy"] for one in found]
            self.assertIn(
                f"| density={density}_steps=10 | 2 | "
                f"{found[0]['nnz'] / found[0]['parameters']:.3f} | accuracy | "
                f"{sum(accuracy) / 2:.4f} | {min(accuracy):.4f} to "
                f"{max(accuracy):.4f} |", text)
        self.assertNotIn("== ", self.sweep(SMALL, "--out=" + out, *GRID))
        self.assertIn("| density=0.3_steps=10 | 2 |",
                      self.sweep("--table", out))

    def test_a_run_that_was_stopped_goes_on(self):
        out = self.out("sweep")
        grid = ["train.seed=1", "train.steps=100000"]
        process = subprocess.Popen(
            [sys.executable, SWEEP, "--lumen=" + runs.LUMEN, SMALL,
             "--out=" + out, *grid],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        path = f"{out}/steps=100000_seed=1"
        runs.wait_for(lambda: os.path.exists(path + "/metrics.jsonl"))
        subprocess.run(["pkill", "-TERM", "-f", "--", "--out=" + path],
                       check=True)
        self.assertEqual(process.wait(timeout=60), 75)
        self.assertIn("1 not finished yet", self.sweep("--table", out))

    def test_mistakes_are_told(self):
        self.assertIn("0 density=0.3", self.sweep(
            SMALL, "--list", "model.sparsity.density=0.3,0.5"))
        out = "--out=" + self.out("sweep")
        for arguments, code, wanted in (
                ([], 2, "expected SPEC"), ([SMALL, out, "seed"], 1, "KEY=VALUE"),
                ([SMALL, out, "--only=1"], 2, "expected 0 to 0"),
                ([SMALL, out, "train.sead=1"], 2, 'did you mean "seed"')):
            with self.subTest(arguments=arguments):
                self.assertIn(wanted, self.sweep(*arguments, code=code))


if __name__ == "__main__":
    unittest.main(verbosity=2)
