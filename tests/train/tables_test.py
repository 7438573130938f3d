# SPDX-License-Identifier: Apache-2.0
"""Tables as text: a CSV file trains, evaluates and reports what it left out."""
import gzip
import json
import random
import subprocess
import unittest

import lumen_runs as runs

MODEL = ('model.sparsity={"method": "dense"}', "train.lr.base=0.05",
         "train.steps=60", 'exchange={"type": "dense"}')
LAYERS = ('model.layers=[{"type": "linear", "units": 32}, {"type": "relu"}, '
          '{"type": "linear", "units": 2}]')


class Tables(runs.RunTest):

    def write(self, name, rows, gaps=0):
        """Rows of two numbers and a colour, which decide the class; the last
        `gaps` of them have no class."""
        draw = random.Random(name)
        lines = ['x,"the colour",y,answer']
        for row in range(rows):
            x, y = draw.uniform(-1, 1), draw.uniform(-1, 1)
            colour = draw.choice(["red", "deep, blue"])
            answer = "yes" if x + (y if colour == "red" else -y) > 0 else "no"
            if row >= rows - gaps:
                answer = ""
            lines.append(f'{x},"{colour}",{y},{answer}')
        text = "\r\n".join(lines)
        with gzip.open(self.out(name), "wt", newline="") as file:
            file.write(text)

    def data(self, **more):
        return "data=" + json.dumps(more | {
            "type": "csv", "root": self.folder.name, "train": "train.csv.gz",
            "test": "test.csv.gz", "target": "answer", "classes": 2,
            "class_names": ["no", "yes"], "categorical": {"the colour": None}})

    def test_a_compressed_table_trains_and_evaluates(self):
        self.write("train.csv.gz", 600, gaps=5)
        self.write("test.csv.gz", 150)
        found = []
        for ranks in (0, 3):
            out = self.out(f"run-{ranks}")
            summary, output = runs.train(
                self.SPEC, out, ranks=ranks,
                options=MODEL + (LAYERS, self.data()))
            found.append((summary["state_hash"], summary["test"]))
            self.assertIn("5 of 600 rows left out: no target, first in line "
                          "597", output)
        self.assertEqual(found[0], found[1])
        self.assertGreater(summary["test"]["accuracy"], 0.75)
        done = subprocess.run(
            [runs.LUMEN, "eval", out, "--split=test"], text=True, check=True,
            stdout=subprocess.PIPE)
        self.assertIn(str(summary["test"]["samples"]), done.stdout)

    def test_a_held_out_part_with_weights_is_the_same_on_any_ranks(self):
        self.write("train.csv.gz", 600)
        self.write("test.csv.gz", 150)
        data = self.data(valid_fraction=0.2, stratified=True,
                         class_weights="balanced")
        found = []
        for ranks in (0, 2):
            out = self.out(f"run-{ranks}")
            summary, _ = runs.train(self.SPEC, out, ranks=ranks,
                                    options=MODEL + (LAYERS, data))
            done = subprocess.run(
                [runs.LUMEN, "eval", out, "--split=valid"], text=True,
                check=True, stdout=subprocess.PIPE)
            valid = json.loads(done.stdout)
            found.append((summary["state_hash"], valid["loss"]))
        self.assertEqual(found[0], found[1])
        self.assertEqual(valid["samples"], 120)
        plain, _ = runs.train(
            self.SPEC, self.out("plain"), ranks=0, options=MODEL + (
                LAYERS, self.data(valid_fraction=0.2, stratified=True)))
        self.assertNotEqual(plain["state_hash"], summary["state_hash"])

    def test_plan_counts_the_rows(self):
        self.write("train.csv.gz", 600, gaps=5)
        self.write("test.csv.gz", 150)
        done = subprocess.run(
            [runs.LUMEN, "plan", self.SPEC, self.data(), LAYERS, *MODEL],
            text=True, check=True, stdout=subprocess.PIPE)
        self.assertIn("data set", done.stdout)


if __name__ == "__main__":
    unittest.main()
