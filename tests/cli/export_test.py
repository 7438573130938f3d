# SPDX-License-Identifier: Apache-2.0
"""Exported weights: names, values and masks, as other programs read them."""
import json
import os
import struct
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "train"))
import lumen_runs as runs  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

IMAGES = os.path.join(os.path.dirname(runs.__file__), "small_images.json")
TYPES = {"F32": "<f4", "I64": "<i8", "I32": "<i4"}


def read_safetensors(path):
    """The format by its definition: length, JSON header, values."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        data = file.read()
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(
            data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def read_npz(path):
    with np.load(path) as file:
        return dict(file)


READERS = {"npz": read_npz, "safetensors": read_safetensors}


@unittest.skipIf(np is None, "needs numpy")
class Export(runs.RunTest):

    def export(self, *arguments, code=0):
        done = subprocess.run([runs.LUMEN, "export", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def assert_same(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, values in expected.items():
            self.assertEqual(found[name].shape, values.shape, name)
            np.testing.assert_array_equal(found[name], values, name)

    def test_dense_files_hold_the_checkpoint_and_give_its_hash_again(self):
        for spec, options in ((self.SPEC, ()), (IMAGES, ("train.steps=6",))):
            out = self.out(os.path.basename(spec))
            summary, _ = runs.train(spec, out, options=options)
            expected = runs.state(out)
            for form, read in READERS.items():
                path = f"{out}.{form}"
                self.export(f"{out}/checkpoints/step-{summary['steps']}",
                            "--to=" + path)
                self.assert_same(read(path), expected)
                again, _ = runs.train(
                    spec, f"{out}-{form}", options=(
                        f"model.init.file={path}", "model.init.mask=zeros",
                        "train.steps=0"))
                self.assertEqual(again["parameter_hash"],
                                 summary["parameter_hash"])
                self.assertEqual(again["nnz"], summary["nnz"])

    def test_sparse_files_hold_compressed_rows(self):
        summary, _ = runs.train(self.SPEC, self.out())
        last = f"{self.out()}/checkpoints/step-{summary['steps']}"
        expected = runs.state(self.out())
        for form, read in READERS.items():
            path = self.out("weights." + form)
            self.export(last, "--to=" + path, "--sparse")
            found = read(path)
            self.assertNotIn("fc1.weight", found)
            self.assertIn("fc3.weight", found)  # excluded, so whole
            for name in ("fc1.weight", "fc2.weight"):
                shape = found[name + ".shape"]
                dense = np.zeros(shape, np.float32)
                rows = np.repeat(np.arange(shape[0]),
                                 np.diff(found[name + ".row_start"]))
                dense[rows, found[name + ".column"]] = found[name + ".values"]
                np.testing.assert_array_equal(dense, expected[name])

    def test_averaged_weights_are_preferred(self):
        summary, _ = runs.train(self.SPEC, self.out(),
                                options=("train.ema=0.9",))
        last = f"{self.out()}/checkpoints/step-{summary['steps']}"
        loaded = {}
        for weights in ("", "ema", "last"):
            path = self.out(f"w{weights}.npz")
            output = self.export(last, "--to", path, *(
                ["--weights=" + weights] if weights else []))
            self.assertIn("last" if weights == "last" else "ema", output)
            loaded[weights] = read_npz(path)
        self.assert_same(loaded[""], loaded["ema"])
        self.assert_same(loaded["last"], runs.state(self.out()))
        self.assertFalse(np.array_equal(loaded["ema"]["fc1.bias"],
                                        loaded["last"]["fc1.bias"]))
        # The average trains and evaluates as summary.json says.
        again, _ = runs.train(self.SPEC, self.out("again"), options=(
            f"model.init.file={self.out('wema.npz')}",
            "model.init.mask=zeros", "train.steps=0"))
        self.assertEqual(again["test"], summary["test"])

    def test_what_cannot_be_written_is_said(self):
        runs.train(self.SPEC, self.out(), options=("train.steps=2",))
        for words, arguments in (
                ("add --to", []),
                ("names no format", ["--to=weights.bin"]),
                ("unknown; known: npz", ["--to=a.npz", "--format=onnx"]),
                ("exclude each other", ["--to=a.npz", "--dense", "--sparse"]),
                ("no averaged weights", ["--to=a.npz", "--weights=ema"])):
            self.assertIn(words, self.export(self.out(), *arguments, code=2))
        self.export(self.out(), "--to=/no/such/folder/a.npz", code=1)
        path = self.out("weights.bin")
        self.export(self.out(), "--to=" + path, "--format=npz")
        self.assertIn("fc1.weight", read_npz(path))
        self.assertFalse(os.path.exists(path + ".tmp"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
