# SPDX-License-Identifier: Apache-2.0
"""Tables as text: a CSV file trains, evaluates and reports what it left out."""
import gzip
import json
import os
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
        `gaps` of them have no class. Three rows in turn are of one person."""
        draw = random.Random(name)
        lines = ['x,"the colour",y,answer,person']
        for row in range(rows):
            x, y = draw.uniform(-1, 1), draw.uniform(-1, 1)
            colour = draw.choice(["red", "deep, blue"])
            answer = "yes" if x + (y if colour == "red" else -y) > 0 else "no"
            if row >= rows - gaps:
                answer = ""
            lines.append(f'{x},"{colour}",{y},{answer},p{row // 3}')
        text = "\r\n".join(lines)
        with gzip.open(self.out(name), "wt", newline="") as file:
            file.write(text)

    def data(self, **more):
        return "data=" + json.dumps({
            "type": "csv", "root": self.folder.name, "train": "train.csv.gz",
            "test": "test.csv.gz", "target": "answer", "classes": 2,
            "class_names": ["no", "yes"], "categorical": {"the colour": None},
            "ignore": ["person"]} | more)

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

    def train_with_held_out_part(self, **more):
        """State and validation result, the same on any number of ranks."""
        data = self.data(valid_fraction=0.2, **more)
        found = []
        for ranks in (0, 2, 3):
            out = self.out(f"run-{len(os.listdir(self.folder.name))}")
            summary, _ = runs.train(self.SPEC, out, ranks=ranks,
                                    options=MODEL + (LAYERS, data))
            done = subprocess.run(
                [runs.LUMEN, "eval", out, "--split=valid"], text=True,
                check=True, stdout=subprocess.PIPE)
            valid = json.loads(done.stdout)
            found.append((summary["state_hash"], valid["loss"],
                          valid["samples"]))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        return found[0]

    def test_a_held_out_part_is_the_same_on_any_ranks(self):
        self.write("train.csv.gz", 600)
        self.write("test.csv.gz", 150)
        plain = self.train_with_held_out_part(stratified=True)
        self.assertEqual(plain[2], 120)
        weighted = self.train_with_held_out_part(
            stratified=True, class_weights="balanced")
        self.assertNotEqual(weighted[0], plain[0])
        grouped = self.train_with_held_out_part(group="person", ignore=[])
        self.assertEqual(grouped[2], 120)
        self.assertNotEqual(grouped[0], plain[0])

    def test_a_bad_row_is_named_and_nothing_hangs(self):
        self.write("test.csv.gz", 150)
        rows = ["x,the colour,y,answer,person", "1,red,2,yes,p1"]
        for row, problem in (
                ("1,red,2,yes", "found 4 columns; expected 5"),
                ("1,red,,yes,p2", 'column 3 "y": found ""; expected a number'),
                ("1,red,inf,yes,p2", "expected a finite number"),
                ("1,red,2,perhaps,p2", 'found "perhaps"; expected one of')):
            with open(self.out("train.csv"), "w", encoding="utf-8") as file:
                file.write("\n".join(rows + [row]))
            for ranks in (0, 3):
                _, output = runs.train(
                    self.SPEC, self.out("bad"), ranks=ranks, expect=1,
                    options=MODEL + (LAYERS, self.data(train="train.csv")))
                self.assertIn(self.out("train.csv") + ":3: ", output)
                self.assertIn(problem, output)

    def test_fewer_rows_than_a_batch_are_enough(self):
        self.write("train.csv.gz", 5)
        self.write("test.csv.gz", 3)
        found = []
        for ranks in (0, 3):
            summary, output = runs.train(
                self.SPEC, self.out(f"run-{ranks}"), ranks=ranks,
                options=MODEL + (LAYERS, self.data()))
            found.append((summary["state_hash"], summary["test"]))
            self.assertIn("(5 samples) is smaller than train.global_batch",
                          output)
        self.assertEqual(found[0], found[1])

    def test_plan_counts_the_rows(self):
        self.write("train.csv.gz", 600, gaps=5)
        self.write("test.csv.gz", 150)
        done = subprocess.run(
            [runs.LUMEN, "plan", self.SPEC, self.data(), LAYERS, *MODEL],
            text=True, check=True, stdout=subprocess.PIPE)
        self.assertIn("data set", done.stdout)


if __name__ == "__main__":
    unittest.main()
