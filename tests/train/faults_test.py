# SPDX-License-Identifier: Apache-2.0
"""Ranks that disagree, shards without samples, gradients that are not finite."""
import os
import subprocess
import unittest

import lumen_runs as runs


class Faults(runs.RunTest):

    def test_x1_shards_without_samples_spread_no_nan(self):
        hashes = set()
        for ranks in (0, 3, 7):
            out = self.out(f"few-{ranks}")
            summary, output = runs.train(
                self.SPEC, out, ranks=ranks,
                options=("data.samples.train=20", "data.samples.test=3",
                         "train.steps=12"))
            self.assertIn("smaller than train.global_batch", output)
            hashes.add(summary["state_hash"])
            self.assertEqual(summary["bad_steps"], 0)
            self.assertGreater(summary["test"]["accuracy"], -1)
            for line in runs.metrics(out):
                if line["split"] == "train":
                    self.assertIsNotNone(line["loss"])
        self.assertEqual(len(hashes), 1)

    def test_x2_ranks_started_with_different_specs_stop_with_the_key(self):
        one = runs.command(self.SPEC, self.out(), ranks=1)
        two = runs.command(self.SPEC, self.out(), ranks=0,
                           options=("train.lr.base=0.3",))
        done = subprocess.run(one + [":", "-np", "1"] + two,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("train.lr.base=0.3", done.stdout)

    def test_x2_ranks_that_see_different_data_stop_with_the_fingerprint(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy to write two data sets with")
        spec = self.write_spec("data.json", """{
          "data": {"type": "npy", "train": {"x": "x.npy", "y": "y.npy"},
                   "classes": 2},
          "model": {"preset": {"type": "mlp", "units": [4]}},
          "train": {"global_batch": 8, "steps": 2, "lr": 0.1}}""")
        commands = []
        for number in (0, 1):
            folder = self.out(f"node{number}")
            os.mkdir(folder)
            numpy.save(folder + "/x.npy", numpy.full((8, 3), number,
                                                     numpy.float32))
            numpy.save(folder + "/y.npy", numpy.zeros(8, numpy.int64))
            commands.append(["-np", "1", "-wdir", folder,
                             os.path.abspath(runs.LUMEN), "train", spec,
                             "--out=" + self.out()])
        done = subprocess.run(runs.MPIRUN + commands[0] + [":"] + commands[1],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("rank 1", done.stdout)
        self.assertIn("data.fingerprint", done.stdout)

    def test_x3_non_finite_gradients_are_skipped_then_stop_the_run(self):
        states = set()
        for ranks in (0, 2, 3):
            out = self.out(f"nan-{ranks}")
            summary, output = runs.train(
                self.SPEC, out, ranks=ranks, expect=1,
                options=("train.lr.base=1e30", "train.max_bad_steps=3"))
            self.assertEqual(summary["stopped_by"], "nan")
            self.assertEqual(summary["bad_steps"], 4)
            self.assertIn("not finite", output)
            # Its checkpoints can be read: the same end again, by resume.
            again, output = runs.train(
                self.SPEC, out, ranks=ranks, expect=1,
                options=("train.lr.base=1e30", "train.max_bad_steps=3"))
            self.assertIn("resume: step", output)
            self.assertEqual(again["state_hash"], summary["state_hash"])
            states.add(summary["state_hash"])
        self.assertEqual(len(states), 1)


    def test_x3_a_run_goes_on_after_steps_that_were_skipped(self):
        out = self.out("skipped")
        options = ("train.lr.base=1e30", "train.max_bad_steps=1000")
        first, _ = runs.train(self.SPEC, out, ranks=2, options=options)
        self.assertGreater(first["bad_steps"], 3)
        more, _ = runs.train(self.SPEC, out, ranks=3,
                             options=options + ("train.steps=44",))
        self.assertEqual(more["steps"], 44)
        self.assertEqual(more["bad_steps"], first["bad_steps"] + 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
