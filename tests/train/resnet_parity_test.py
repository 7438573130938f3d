# SPDX-License-Identifier: Apache-2.0
"""A residual network step by step as in PyTorch, dense and sparse.

Networks with batch normalisation are chaotic, so the first steps are compared
closely: the first loss, the first update of each tensor and of the running
statistics. TORCH_PEER may name a script that takes --model resnet:18 --image 32
--batch 64 --lr 0.001 --steps 5 --warmup 0 --sparsity S --dump DIR; else a
smaller network of our own script is used. Skips, saying so, without torch.
"""
import json
import os
import subprocess
import unittest

import lumen_runs as runs

PYTHON = "/usr/bin/python3"
PEER = os.environ.get("TORCH_PEER")
OWN = os.path.join(runs.HERE, "torch_resnet.py")
STEPS = 5

SPEC = """{
  "data": {"type": "npy", "root": "%s", "train": {"x": "x.npy", "y": "y.npy"},
           "classes": 10, "order": "file"},
  "model": {
    "preset": {"type": "resnet", %s, "norm_group": 64},
    "init": {"file": "%s/init.npz", "mask": "zeros"}
  },
  "train": {"shards": 1, "global_batch": 64, "steps": %d, "lr": 0.001,
            "log_every": 1, "eval_every": 0,
            "optimizer": {"type": "sgd", "momentum": 0.9,
                          "weight_decay": 5e-4}},
  "checkpoint": {"every": 0}
}"""


def reference(sparsity, dump):
    command = [PYTHON, OWN, "--sparsity", str(sparsity), "--dump", dump]
    if PEER:
        command = [PYTHON, PEER, "--model", "resnet:18", "--image", "32",
                   "--batch", "64", "--lr", "0.001", "--steps", str(STEPS),
                   "--warmup", "0", "--sparsity", str(sparsity), "--dump",
                   dump]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class ResnetParity(runs.RunTest):

    def train(self, dump, steps):
        structure = '"depth": 18' if PEER else '"blocks": [1, 1], "width": 16'
        spec = self.write_spec(f"steps{steps}.json",
                               SPEC % (dump, structure, dump, steps))
        out = self.out(f"run{steps}")
        summary, _ = runs.train(spec, out)
        losses = [line["loss"] for line in runs.metrics(out)
                  if line["split"] == "train"]
        return summary, losses, runs.state(out)

    def compare(self, sparsity):
        dump = self.out("dump")
        made = reference(sparsity, dump)
        if made.returncode:
            self.skipTest("no PyTorch reference here: " +
                          made.stderr.strip().splitlines()[-1])
        import numpy as np
        with open(dump + "/loss.json", encoding="utf-8") as file:
            expected = json.load(file)
        summary, losses, _ = self.train(dump, STEPS)
        differences = [abs(a - b) / b for a, b in zip(losses, expected)]
        self.assertEqual(len(differences), STEPS)
        self.assertLess(differences[0], 1e-5)
        self.assertLess(max(differences), 2e-3)

        _, _, state = self.train(dump, 1)
        before, after = np.load(dump + "/init.npz"), np.load(
            dump + "/after1.npz")
        worst = 0
        for name in before:
            if name.endswith("num_batches_tracked"):
                continue
            update = after[name].astype(np.float64) - before[name]
            ours = state[name].astype(np.float64) - before[name]
            distance = np.linalg.norm(ours - update) / np.linalg.norm(update)
            worst = max(worst, distance)
            self.assertLess(distance, 1e-3, name)
        print(f"sparsity {sparsity}: losses differ by {differences[0]:.1e} at "
              f"step 1, at most {max(differences):.1e} to step {STEPS}; the "
              f"first update of a tensor by at most {worst:.1e}")
        return summary

    def test_dense_steps_are_those_of_pytorch(self):
        self.compare(0)

    def test_steps_with_absent_weights_are_those_of_pytorch(self):
        summary = self.compare(0.9)
        self.assertLess(summary["nnz"], 0.3 * summary["parameters"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
