# SPDX-License-Identifier: Apache-2.0
"""lumen bench: what it verifies and writes; never how fast it was."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "train"))
import lumen_runs as runs  # noqa: E402

SHAPES = """# small ones
linear 48 80 20
conv3x3 8 5 9 1 3
conv1x1 7 6 5 2 17
"""


class Bench(runs.RunTest):

    def bench(self, *arguments, code=0):
        done = subprocess.run([runs.LUMEN, "bench", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=250, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def shapes(self, text):
        os.makedirs(self.out("."), exist_ok=True)
        path = self.out("shapes.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_kernels_write_each_shape_density_and_pass(self):
        to = self.out("kernels.json")
        text = self.bench("kernels", self.shapes(SHAPES), "--json=" + to,
                          "--isa=scalar")
        self.assertIn("geometric means", text)
        with open(to, encoding="utf-8") as file:
            rows = json.load(file)
        self.assertEqual(len(rows), 3 * 4 * 3)
        self.assertEqual([row["pass"] for row in rows[:3]],
                         ["forward", "dx", "dw"])
        self.assertEqual({row["kind"] for row in rows},
                         {"linear", "conv3x3", "conv1x1/2"})
        self.assertEqual({row["density"] for row in rows},
                         {0.2, 0.1, 0.05, 0.01})
        for row in rows:
            self.assertEqual(
                list(row), ["kind", "shape", "density", "pass", "isa",
                            "threads", "dense_ms", "sparse_ms", "ratio",
                            "gflops", "peak_fraction"])
            self.assertEqual((row["isa"], row["threads"]), ("scalar", 1))
            self.assertAlmostEqual(row["ratio"],
                                   row["dense_ms"] / row["sparse_ms"])

    def test_a_bad_shape_is_named(self):
        path = self.shapes("linear 1 2\n")
        self.assertIn(f"{path}:1: \"linear 1 2\" is no shape",
                      self.bench("kernels", path, code=2))
        path = self.shapes("linear 1 2 3\nconv3x5 1 2 3 1 1\n")
        self.assertIn(":2: ", self.bench("kernels", path, code=2))
        self.assertIn("did you mean kernels?", self.bench("kernel", code=2))

    def test_a_step_is_told_layer_by_layer(self):
        to = self.out("step.json")
        os.makedirs(self.out("."), exist_ok=True)
        spec = os.path.join(runs.HERE, "small_images.json")
        text = self.bench("step", spec, "--json=" + to, "--threads=1")
        self.assertIn("dense: ", text)
        with open(to, encoding="utf-8") as file:
            step = json.load(file)
        self.assertGreater(step["samples_per_s"], 0)
        self.assertAlmostEqual(
            step["ratio"], step["samples_per_s"] / step["dense_samples_per_s"])
        convolutions = [layer for layer in step["layers"]
                        if layer["type"] == "conv2d"]
        self.assertGreater(len(convolutions), 1)
        for layer in convolutions:
            self.assertGreater(layer["forward_ms"], 0)
            self.assertGreater(layer["backward_ms"], 0)
            self.assertAlmostEqual(
                layer["possible"],
                layer["flops_dense"] / layer["flops_executed"])
        self.assertFalse(os.path.exists("checkpoints"))

    def exchange(self, ranks, *options):
        to = self.out("exchange.json")
        os.makedirs(self.out("."), exist_ok=True)
        done = subprocess.run(
            [*runs.MPIRUN, "-np", str(ranks), runs.LUMEN, "bench", "exchange",
             "--json=" + to, "--threads=1", "--rounds=1", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=250, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(to, encoding="utf-8") as file:
            return json.load(file)

    def test_exchanges_count_their_bytes(self):
        rows = self.exchange(2, "--elements=300000", "--density=0.01")
        self.assertEqual(
            {row["codec"] for row in rows if row["exchange"] == "dense"},
            {"fp32"})
        self.assertGreaterEqual(
            {(row["exchange"], row["codec"]) for row in rows},
            {("split", "fp32"), ("split", "bf16"), ("split", "int8")})
        for row in rows:
            self.assertEqual((row["ranks"], row["elements"]), (2, 300000))
            self.assertAlmostEqual(row["ratio"],
                                   row["bytes_sent"] / row["bound_bytes"])
            self.assertGreater(row["allreduce_ms"], 0)
            self.assertLessEqual(row["ms_min"], row["ms_p50"])
            self.assertLessEqual(row["ms_p50"], row["ms_max"])
            if row["exchange"] in ("dense", "split"):
                self.assertLess(row["ratio"], 1.10, row)

    def test_few_entries_stay_near_the_bound(self):
        rows = self.exchange(3, "--elements=8000000", "--density=0.0001",
                             "--exchange=split", "--codec=int8")
        self.assertLess(rows[0]["ratio"], 1.10)

    def test_wire_phases_alone_keep_the_sum(self):
        options = ("--elements=100000", "--exchange=split", "--codec=int8",
                   "--phases=wire")
        rows = self.exchange(2, *options)
        self.assertEqual([row["phases"] for row in rows], ["wire"])
        self.assertIn("no exchange \"ring\"", self.bench(
            "exchange", "--exchange=ring", code=2))

    def test_a_dense_spec_has_no_twin(self):
        spec = os.path.join(runs.HERE, "small_images.json")
        text = self.bench("step", spec, "model.sparsity.method=dense",
                          "--threads=1")
        self.assertNotIn("dense: ", text)
        self.assertIn("usage: lumen bench step SPEC",
                      self.bench("step", code=2))


if __name__ == "__main__":
    unittest.main()
