# SPDX-License-Identifier: Apache-2.0
"""The same start and batches in PyTorch: losses agree step by step.

Needs /usr/bin/python3 with torch; TORCH_PEER may name another script with the
same options. Skips, saying so, where torch is missing.
"""
import json
import os
import subprocess
import unittest

import lumen_runs as runs

PYTHON = "/usr/bin/python3"
PEER = os.environ.get("TORCH_PEER",
                      os.path.join(runs.HERE, "torch_reference.py"))
STEPS = 20
BATCH = 128

SPEC = """{
  "data": {"type": "npy", "root": "%s", "train": {"x": "x.npy", "y": "y.npy"},
           "classes": 10, "order": "file"},
  "model": {
    "layers": [
      {"type": "flatten"},
      {"name": "1", "type": "linear", "units": 512}, {"type": "relu"},
      {"name": "3", "type": "linear", "units": 512}, {"type": "relu"},
      {"name": "5", "type": "linear", "units": 10}],
    "init": {"file": "%s/init.npz", "mask": "zeros"}
  },
  "train": {"shards": 4, "global_batch": 128, "steps": 20, "lr": 0.05,
            "log_every": 1, "eval_every": 0,
            "optimizer": {"type": "sgd", "momentum": 0.9,
                          "weight_decay": 5e-4}},
  "checkpoint": {"every": 0}
}"""


class Parity(runs.RunTest):

    def compare(self, sparsity):
        dump = self.out("dump")
        made = subprocess.run(
            [PYTHON, PEER, "--model", "mlp:512,512", "--batch", str(BATCH),
             "--steps", str(STEPS), "--sparsity", str(sparsity), "--dump",
             dump], capture_output=True, text=True, check=False)
        if made.returncode:
            self.skipTest("no PyTorch reference here: " +
                          made.stderr.strip().splitlines()[-1])
        spec = self.write_spec("parity.json", SPEC % (dump, dump))
        summary, _ = runs.train(spec, self.out("run"), ranks=2)
        with open(dump + "/loss.json", encoding="utf-8") as file:
            expected = json.load(file)
        ours = [line["loss"] for line in runs.metrics(self.out("run"))
                if line["split"] == "train"]
        self.assertEqual(len(ours), STEPS)
        worst = max(abs(a - b) / b for a, b in zip(ours, expected))
        print(f"sparsity {sparsity}: largest relative difference of the loss "
              f"over {STEPS} steps: {worst:.2e}")
        self.assertLess(worst, 1e-5)
        return summary

    def test_dense_losses_agree(self):
        summary = self.compare(0)
        self.assertEqual(summary["nnz"], summary["parameters"])

    def test_masked_weights_are_absent_and_losses_agree(self):
        summary = self.compare(0.9)
        # The last layer is not masked.
        self.assertLess(summary["nnz"], 0.12 * summary["parameters"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
