# SPDX-License-Identifier: Apache-2.0
"""Real-valued, multi-label and yes-or-no targets, from files to metrics."""
import os
import unittest

import lumen_runs as runs

try:
    import numpy as np
except ImportError:
    np = None

MODEL = ('model.sparsity={"method": "dense"}', "train.lr.base=0.05",
         "train.steps=60", 'exchange={"type": "dense"}')


class Targets(runs.RunTest):

    def data(self, kind):
        """Options for x in R^20 and three targets made from it."""
        if np is None:
            self.skipTest("no numpy to write data sets with")
        random = np.random.default_rng(1)
        x = random.standard_normal((700, 20)).astype(np.float32)
        y = (x @ random.standard_normal((20, 3)) / 5).astype(np.float32)
        if kind == "labels":
            y = (y > 0).astype(np.float32)
        splits = []
        for name, rows in (("train", slice(0, 500)), ("test", slice(500, 700))):
            np.save(self.out(name + "-x.npy"), x[rows])
            np.save(self.out(name + "-y.npy"), y[rows])
            splits.append(f'"{name}": {{"x": "{name}-x.npy", '
                          f'"y": "{name}-y.npy"}}')
        return (f'data={{"type": "npy", "root": "{self.folder.name}", '
                f'"classes": 3, {", ".join(splits)}}}',
                'model.layers=[{"type": "linear", "units": 64}, '
                '{"type": "relu"}, {"type": "linear", "units": 3}]')

    def train(self, *options):
        """The test metrics, equal on one and three ranks."""
        found = []
        for ranks in (0, 3):
            out = self.out(f"run-{ranks}")
            summary, _ = runs.train(self.SPEC, out, ranks=ranks,
                                    options=MODEL + options)
            found.append((summary["state_hash"], summary["test"]))
        self.assertEqual(found[0], found[1])
        return found[0][1]

    def test_mse_fits_real_values(self):
        test = self.train('model.loss={"type": "mse"}', *self.data("values"))
        self.assertLess(test["loss"], 0.2)  # the targets' variance is 0.8
        self.assertLess(test["mae"], 0.4)

    def test_sigmoid_bce_fits_several_labels_per_sample(self):
        test = self.train('model.loss={"type": "sigmoid_bce"}',
                          *self.data("labels"))
        self.assertGreater(test["accuracy"], 0.8)
        self.assertGreater(test["auc"], 0.9)

    def test_one_output_says_which_of_two_classes(self):
        test = self.train('model.loss={"type": "sigmoid_bce"}',
                          "data.classes=2", "checkpoint.best.metric=auc",
                          'model.layers=[{"type": "linear", "units": 1}]')
        self.assertGreater(test["auc"], 0.8)

    def test_softmax_refuses_values(self):
        _, output = runs.train(self.SPEC, self.out(), ranks=2, expect=2,
                               options=MODEL + self.data("values"))
        self.assertIn("needs class labels", output)
        self.assertIn("use sigmoid_bce or mse", output)
        self.assertFalse(os.path.exists(self.out() + "/summary.json"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
