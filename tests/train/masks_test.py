# SPDX-License-Identifier: Apache-2.0
"""Masks while training: which weights exist from step to step."""
import unittest

import lumen_runs as runs

STEPS = 24
EVERY = 5
# A checkpoint after every step; the mask changes with steps 5, 10, 15 and stays
# from 18 on.
OPTIONS = (f"train.steps={STEPS}", "train.eval_every=0", "checkpoint.every=1",
           "checkpoint.keep=100", f"model.sparsity.update_every={EVERY}",
           "model.sparsity.stop_at=0.75", "model.sparsity.drop_fraction=0.4")


class Masks(runs.RunTest):

    def masks(self, method, *options):
        """Per step: name -> position -> (value, velocity)."""
        import h5py
        out = self.out(method)
        runs.train(self.SPEC, out, ranks=2, options=OPTIONS + options +
                   (f"model.sparsity.method={method}",))
        steps = []
        for path in runs.checkpoints(out):
            tensors, offset = {}, 0
            with h5py.File(path + "/model.h5", "r") as file:
                velocity = file["optimizer/velocity"][:]
                groups = file["parameters"]
                order = sorted(groups, key=self.model_order)
                for name in order:
                    group = groups[name]
                    values = group["values"][:].reshape(-1)
                    part = velocity[offset:offset + len(values)]
                    offset += len(values)
                    positions = range(len(values))
                    if "column" in group:
                        columns = int(group["shape"][1])
                        start = group["row_start"][:]
                        column = group["column"][:]
                        positions = [r * columns + int(column[p])
                                     for r in range(len(start) - 1)
                                     for p in range(start[r], start[r + 1])]
                    tensors[name] = dict(zip(positions, zip(values, part)))
            steps.append(tensors)
        self.assertEqual(len(steps), STEPS)
        return steps

    @staticmethod
    def model_order(name):
        layer, kind = name.split(".")
        return layer, kind != "weight"

    def test_a_static_mask_stays(self):
        steps = self.masks("static")
        for tensors in steps:
            for name in tensors:
                self.assertEqual(tensors[name].keys(), steps[0][name].keys())

    def moving(self, method):
        steps = self.masks(method)
        moved = []
        for before, after in zip(steps, steps[1:]):
            count = 0
            for name in after:
                self.assertEqual(len(before[name]), len(after[name]), name)
                fresh = after[name].keys() - before[name].keys()
                count += len(fresh)
                for position in fresh:
                    self.assertEqual(after[name][position], (0, 0), name)
                if name.startswith("fc3") or name.endswith("bias"):
                    self.assertFalse(fresh, f"{name} has no mask")
            moved.append(count)
        # Checkpoint i is that of step i + 1: the mask changes at the end of the
        # steps 5, 10 and 15, counted from 0.
        changed = [i + 1 for i, count in enumerate(moved) if count > 0]
        self.assertEqual(changed, [5, 10, 15])
        self.assertGreater(moved[4], moved[9])
        self.assertGreater(moved[9], moved[14])
        # What goes is what was least.
        for name in ("fc1.weight", "fc2.weight"):
            gone = steps[4][name].keys() - steps[5][name].keys()
            self.assertEqual(
                len(gone), len(steps[5][name].keys() - steps[4][name].keys()))

    def test_set_moves_weights_and_fewer_each_time(self):
        self.moving("set")

    def test_rigl_moves_weights_and_fewer_each_time(self):
        self.moving("rigl")

    def test_gmp_only_drops_down_to_the_density(self):
        steps = self.masks("gmp", "model.sparsity.stop_at=0.6")
        sizes = [len(tensors["fc1.weight"]) for tensors in steps]
        self.assertEqual(sizes[0], 64 * 20)
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        for before, after in zip(steps, steps[1:]):
            for name in after:
                self.assertLessEqual(after[name].keys(), before[name].keys())
                if len(after[name]) == len(before[name]):
                    continue
                # Those that went were no larger than those that stayed, up to
                # what the step itself changed.
                kept = min(abs(before[name][p][0]) for p in after[name])
                gone = [abs(before[name][p][0])
                        for p in before[name].keys() - after[name].keys()]
                self.assertLess(sorted(gone)[len(gone) // 2],
                                kept + 0.05, name)
        total = sum(len(steps[-1][n]) for n in ("fc1.weight", "fc2.weight"))
        dense = 64 * 20 + 33 * 64
        self.assertAlmostEqual(total / dense, 0.3, delta=0.01)


if __name__ == "__main__":
    unittest.main(verbosity=2)
