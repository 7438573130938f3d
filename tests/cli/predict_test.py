# SPDX-License-Identifier: Apache-2.0
"""Predictions: the numbers of eval, in sample order, on any rank count."""
import csv
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "train"))
import lumen_runs as runs  # noqa: E402

try:
    import h5py
    import numpy as np
except ImportError:
    np = None

NPY = """{
  "data": {"type": "npy", "classes": 3,
           "train": {"x": "%s/x.npy", "y": "%s/y.npy"}},
  "model": {"preset": {"type": "mlp", "units": [8]}, "loss": {"type": "%s"}},
  "train": {"shards": 4, "global_batch": 16, "steps": 5, "lr": 0.1}}"""


@unittest.skipIf(np is None, "needs numpy and h5py")
class Predict(runs.RunTest):

    def predict(self, *arguments, ranks=0, code=0):
        launcher = runs.MPIRUN + ["-np", str(ranks)] if ranks else []
        done = subprocess.run([*launcher, runs.LUMEN, "predict", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def read(self, path):
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual(rows[0][:3], ["sample", "predicted", "score_0"])
        self.assertEqual([row[0] for row in rows[1:]],
                         [str(i) for i in range(len(rows) - 1)])
        return (np.array([int(row[1]) for row in rows[1:]]),
                np.array([row[2:] for row in rows[1:]], np.float32))

    def test_any_rank_count_writes_the_same_file(self):
        runs.train(self.SPEC, self.out())
        files = []
        for ranks in (0, 3):
            path = self.out(f"{ranks}.csv")
            self.predict(self.out(), "--output=" + path, ranks=ranks)
            with open(path, "rb") as file:
                files.append(file.read())
        self.assertEqual(files[0], files[1])
        predicted, scores = self.read(path)
        self.assertEqual(scores.shape, (200, 5))
        np.testing.assert_array_equal(predicted, scores.argmax(axis=1))
        np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)
        self.predict(self.out(), "--output=" + self.out("test.h5"))
        with h5py.File(self.out("test.h5")) as file:
            np.testing.assert_array_equal(file["scores"][:], scores)
            np.testing.assert_array_equal(file["predicted"][:], predicted)

    def test_a_file_of_samples_gives_what_the_split_gives(self):
        random = np.random.default_rng(1)
        x = random.normal(size=(37, 6)).astype(np.float32)
        np.save(self.out("x.npy"), x)
        folder = self.folder.name
        for loss, y in (("softmax_cross_entropy", random.integers(0, 3, 37)),
                        ("mse", random.normal(size=(37, 3)))):
            np.save(self.out("y.npy"), y)
            spec = self.write_spec(loss + ".json",
                                   NPY % (folder, folder, loss))
            runs.train(spec, self.out(loss))
            self.predict(self.out(loss), "--input=train",
                         "--output=" + self.out("a.csv"))
            self.predict(self.out(loss), "--input=" + self.out("x.npy"),
                         "--output=" + self.out("b.csv"))
            expected = self.read(self.out("a.csv"))
            found = self.read(self.out("b.csv"))
            np.testing.assert_array_equal(found[1], expected[1])
            # By hand, from the weights of the checkpoint.
            state = runs.state(self.out(loss))
            names = sorted(n for n in state if n.endswith(".weight"))
            values = x
            for name in names:
                values = (values @ state[name].T +
                          state[name.replace("weight", "bias")])
                if name != names[-1]:
                    values = np.maximum(values, 0)
            if loss != "mse":
                values = np.exp(values - values.max(axis=1, keepdims=True))
                values /= values.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(found[1], values, atol=1e-4)

    def test_what_does_not_fit_is_said(self):
        runs.train(self.SPEC, self.out(), options=("train.steps=2",))
        output = "--output=" + self.out("a.csv")
        self.assertIn("add --output", self.predict(self.out(), code=2))
        self.assertIn(".csv, .h5", self.predict(
            self.out(), "--output=a.txt", code=2))
        self.assertIn("expected train, valid or test", self.predict(
            self.out(), "--input=tset", output, code=2))
        np.save(self.out("x.npy"), np.zeros((3, 7), np.float32))
        self.assertIn("samples of shape 7; the model", self.predict(
            self.out(), "--input=" + self.out("x.npy"), output, code=2))
        self.assertFalse(os.path.exists(self.out("a.csv")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
