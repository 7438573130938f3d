# SPDX-License-Identifier: Apache-2.0
"""The spec decides the mathematics; the machine only decides the speed.

The oracle is the scalar engine: one process, one thread, reference kernels.
"""
import os
import random
import time
import unittest

import lumen_runs as runs

RANKS = (1, 2, 3, 4, 7)
SPECS = {"perceptron": runs.RunTest.SPEC,
         "images": os.path.join(runs.HERE, "small_images.json"),
         "rows": os.path.join(runs.HERE, "small_rows.json")}
# The others take the corners of the grid.
WHOLE_GRID = ("split", "images")
# A spec and what it is changed to: two exchanges, two optimizers, an average of
# the weights, two losses.
CASES = {
    "split": ("perceptron",),
    "dense": ("perceptron",
              'exchange={"type": "dense", "bucket": 500, "verify_every": 5}'),
    "images": ("images",),
    "images-dense": ("images", 'exchange={"type": "dense"}',
                     "model.sparsity.method=dense"),
    "rigl": ("images", "model.sparsity.method=rigl",
             "model.sparsity.update_every=4", "train.ema=0.9"),
    "gmp": ("images", "model.sparsity.method=gmp",
            "model.sparsity.update_every=3", "train.ema=0.9"),
    "strips": ("images", "data.shape=[3,12,16]", "train.global_batch=8",
               "model.layers=null", "model.strips=2", "memory.recompute=block",
               'model.preset={"type": "resnet", "depth": 8, "width": 8, '
               '"stem": "small", "zero_init": true}'),
    "set": ("perceptron", "model.sparsity.method=set",
            "model.sparsity.update_every=5",
            'exchange={"type": "dense", "bucket": 500}'),
    "adamw": ("perceptron",
              'train.optimizer={"type": "adamw"}', "train.lr.base=0.01",
              "train.ema=0.9", 'model.loss={"type": "sigmoid_bce"}',
              "checkpoint.best.metric=auc"),
    "rows": ("rows",),
    "label-sets": ("rows", "data.labels=several", "data.train=sets-train.txt",
                   "data.valid=sets-valid.txt", "data.test=sets-test.txt",
                   'exchange={"type": "dense", "bucket": 500}',
                   'model.loss={"type": "sigmoid_bce"}',
                   'checkpoint.best={"metric": "p_at_1", "mode": "max"}'),
}


def write_rows(folder):
    """Sparse rows with one label, and with any number, as svmlight files."""
    chance = random.Random(1)
    for kind in ("one", "sets"):
        for split, samples in (("train", 500), ("valid", 100), ("test", 200)):
            path = os.path.join(folder, f"{kind}-{split}.txt")
            with open(path, "w", encoding="ascii") as file:
                for _ in range(samples):
                    index = sorted(chance.sample(range(1, 61),
                                                 chance.randrange(0, 12)))
                    classes = sorted({i % 5 for i in index[:3]})
                    labels = (classes if kind == "sets"
                              else [sum(index) % 5])
                    words = [",".join(map(str, labels))]
                    words += [f"{i}:{chance.gauss(0, 1):.3f}" for i in index]
                    file.write(" ".join(words) + "\n")


class SameBits(runs.RunTest):

    known = {}

    def setUp(self):
        super().setUp()
        write_rows(self.folder.name)

    def arguments(self, case):
        spec, *options = CASES[case]
        if spec == "rows":
            options.append(f"data.root={self.folder.name}")
        return {"spec": SPECS[spec], "options": options}

    def oracle(self, case):
        if case not in self.known:
            out = self.out(f"oracle-{case}")
            summary, _ = runs.train(out=out, ranks=0, isa="scalar",
                                    **self.arguments(case))
            self.known[case] = summary, runs.surviving(out)
        return self.known[case]

    def test_state_depends_on_no_rank_thread_or_isa(self):
        for case in CASES:
            oracle, curve = self.oracle(case)
            grid = [(3, 1, "avx2"), (2, 2, "auto"), (7, 1, "auto")]
            if case in WHOLE_GRID:
                grid += [(1, 2, "avx512"), (1, 1, "auto"), (4, 2, "auto"),
                         (7, 1, "avx2")]
            if case == "split":
                grid.append((2, 2, "scalar"))
            for ranks, threads, isa in grid:
                with self.subTest(case=case, ranks=ranks,
                                  threads=threads, isa=isa):
                    out = self.out(f"{case}-{ranks}-{threads}-{isa}")
                    try:
                        summary, _ = runs.train(
                            out=out, ranks=ranks, threads=threads, isa=isa,
                            **self.arguments(case))
                    except AssertionError as error:
                        if "this CPU" in str(error):
                            print(f"skipped {isa}: not on this CPU")
                            continue
                        raise
                    self.assertEqual(summary["state_hash"],
                                     oracle["state_hash"])
                    self.assertEqual(summary["parameter_hash"],
                                     oracle["parameter_hash"])
                    self.assertEqual(summary["test"], oracle["test"])
                    self.assertEqual(runs.surviving(out), curve)

    def test_a_different_seed_gives_different_bits(self):
        first, _ = runs.train(self.SPEC, self.out("a"), ranks=0)
        second, _ = runs.train(self.SPEC, self.out("b"), ranks=0,
                               options=("train.seed=8",))
        self.assertNotEqual(first["state_hash"], second["state_hash"])

    def test_layers_computed_again_change_no_bits(self):
        for case in ("images", "rigl"):
            oracle, curve = self.oracle(case)
            arguments = self.arguments(case)
            arguments["options"] = (*arguments["options"],
                                    "memory.recompute=block")
            out = self.out(f"again-{case}")
            summary, output = runs.train(out=out, ranks=2, **arguments)
            self.assertIn("computed again in the backward pass", output)
            self.assertEqual(summary["state_hash"], oracle["state_hash"])
            self.assertEqual(runs.surviving(out), curve)

    def test_an_average_of_the_weights_changes_evaluations_only(self):
        plain, _ = runs.train(self.SPEC, self.out("plain"), ranks=0)
        averaged, _ = runs.train(self.SPEC, self.out("averaged"), ranks=0,
                                 options=("train.ema=0.9",))
        newest, _ = runs.train(self.SPEC, self.out("newest"), ranks=0,
                               options=("train.ema=0",))
        for summary in (averaged, newest):
            self.assertEqual(summary["parameter_hash"],
                             plain["parameter_hash"])
            self.assertNotEqual(summary["state_hash"], plain["state_hash"])
        self.assertNotEqual(averaged["test"], plain["test"])
        self.assertEqual(newest["test"], plain["test"])

    def test_killed_at_random_and_resumed_on_other_ranks(self):
        chance = random.Random(time.time_ns())
        # Other cases each time; all of them with LUMEN_LONG_TESTS=1.
        cases = list(CASES)
        if not os.environ.get("LUMEN_LONG_TESTS"):
            cases = chance.sample(cases, 5)
        for case in cases:
            oracle, curve = self.oracle(case)
            out = self.out(f"killed-{case}")
            kills = 0
            for attempt in range(60):
                ranks = chance.choice(RANKS)
                threads = chance.choice((1, 2))
                # The later attempts get more time, so that the run ends.
                delay = chance.uniform(0.05, 0.4 + 0.15 * attempt)
                process = runs.start(out=out, ranks=ranks, threads=threads,
                                     **self.arguments(case))
                try:
                    process.wait(timeout=delay)
                except runs.subprocess.TimeoutExpired:
                    kills += 1
                    runs.kill_all(process)
                    continue
                output, _ = process.communicate()
                self.assertEqual(process.returncode, 0, output)
                break
            else:  # a busy machine: the last start is left alone
                runs.train(out=out, ranks=3, **self.arguments(case))
            summary = runs.summary(out)
            print(f"{case}: {kills} kills, then finished")
            self.assertEqual(summary["stopped_by"], "finished")
            self.assertEqual(summary["state_hash"], oracle["state_hash"])
            self.assertEqual(runs.surviving(out), curve)


if __name__ == "__main__":
    unittest.main(verbosity=2)
