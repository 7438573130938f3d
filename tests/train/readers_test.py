# SPDX-License-Identifier: Apache-2.0
"""Every reader of data sets gives the same bits on one and on three ranks."""
import json
import os
import random
import re
import struct
import subprocess
import unittest
import zlib

import lumen_runs as runs

SAMPLES = {"train": 60, "test": 20}


def png(rows):
    """A grey PNG of these rows of bytes."""
    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body +
                struct.pack(">I", zlib.crc32(kind + body)))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows))) +
            chunk(b"IEND", b""))


def npy(kind, shape, values):
    header = (f"{{'descr': '{kind}', 'fortran_order': False, "
              f"'shape': {shape}, }}").ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + (
        header.encode() + values)


class Readers(runs.RunTest):
    """Each method that is named as a type writes its files and returns the
    keys of data."""

    def setUp(self):
        super().setUp()
        self.chance = random.Random(1)

    def put(self, name, content):
        path = self.out(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes)
                       else content.encode())

    def labels(self, split, classes=2):
        return [self.chance.randrange(classes) for _ in range(SAMPLES[split])]

    def pairs(self, write):
        """Files x and y of each split, by `write(split, labels)`."""
        for split in SAMPLES:
            write(split, self.labels(split))

    def cifar(self):
        for split in SAMPLES:
            self.put(f"{split}.bin", b"".join(
                bytes([label]) + self.chance.randbytes(3072)
                for label in self.labels(split, 10)))
        return {"train": ["train.bin"], "test": ["test.bin"]}

    def csv(self):
        for split in SAMPLES:
            rows = [f"{self.chance.gauss(0, 1)},{self.chance.choice('abc')},{y}"
                    for y in self.labels(split)]
            self.put(f"{split}.csv", "\n".join(["x,c,y"] + rows))
        return {"train": "train.csv", "test": "test.csv", "target": "y",
                "classes": 2, "categorical": {"c": None}}

    def hdf5(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("no h5py")

        def write(split, labels):
            with h5py.File(self.out(f"{split}.h5"), "w") as file:
                file.create_dataset(
                    "x", dtype="f4", compression="gzip", chunks=(1, 6),
                    data=[[self.chance.gauss(0, 1) for _ in range(6)]
                          for _ in labels])
                file.create_dataset("y", data=labels, dtype="i8")
        self.pairs(write)
        return {"classes": 2} | {
            split: {"x": f"{split}.h5:/x", "y": f"{split}.h5:/y"}
            for split in SAMPLES}

    def idx(self):
        def write(split, labels):
            count = struct.pack(">I", len(labels))
            self.put(split + "-x", b"\0\0\x08\3" + count + struct.pack(
                ">II", 4, 3) + self.chance.randbytes(12 * len(labels)))
            self.put(split + "-y", b"\0\0\x08\1" + count + bytes(labels))
        self.pairs(write)
        return {"classes": 2} | {
            split: {"x": split + "-x", "y": split + "-y"} for split in SAMPLES}

    def image_folder(self):
        for split in SAMPLES:
            for number, label in enumerate(self.labels(split)):
                self.put(f"{split}/{label}/{number}.png", png(
                    [self.chance.randbytes(7) for _ in range(9)]))
        return {"train": "train", "test": "test", "size": [6, 5],
                "channels": 1}

    def npy(self):
        def write(split, labels):
            n = len(labels)
            self.put(split + "-x.npy", npy("<f4", (n, 5), struct.pack(
                f"<{5 * n}f", *(self.chance.gauss(0, 1)
                                for _ in range(5 * n)))))
            self.put(split + "-y.npy",
                     npy("<i8", (n,), struct.pack(f"<{n}q", *labels)))
        self.pairs(write)
        return {"classes": 2} | {
            split: {"x": split + "-x.npy", "y": split + "-y.npy"}
            for split in SAMPLES}

    def rows(self, base):
        return " ".join(f"{i}:{self.chance.gauss(0, 1):.3f}" for i in sorted(
            self.chance.sample(range(base, 20 + base), 4)))

    def svmlight(self):
        for split in SAMPLES:
            self.put(f"{split}.txt", "".join(
                f"{label} {self.rows(1)}\n" for label in self.labels(split)))
        return {"train": "train.txt", "test": "test.txt", "features": 20,
                "classes": 2}

    def synthetic(self):
        return {"shape": [6], "classes": 2, "samples": SAMPLES}

    def xmc(self):
        for split in SAMPLES:
            self.put(f"{split}.txt", f"{SAMPLES[split]} 20 3\n" + "".join(
                ",".join(str(c) for c in range(3) if self.chance.random() < 0.5)
                + f" {self.rows(0)}\n" for _ in range(SAMPLES[split])))
        return {"train": "train.txt", "test": "test.txt", "features": 20,
                "classes": 3}

    def check(self, kind):
        data = getattr(self, kind)() | {"type": kind}
        if kind != "synthetic":
            data["root"] = self.folder.name
        first = ("sparse_linear" if kind in ("svmlight", "xmc") else "linear")
        outputs = {"cifar": 10, "xmc": 3}.get(kind, 2)
        layers = [{"type": first, "units": 16}, {"type": "relu"},
                  {"type": "linear", "units": outputs}]
        if kind in ("cifar", "idx", "image_folder"):
            layers.insert(0, {"type": "flatten"})
        options = ["data=" + json.dumps(data),
                   "model.layers=" + json.dumps(layers),
                   'model.sparsity={"method": "static", "density": 0.5}',
                   "train.global_batch=24", "train.shards=3", "train.steps=8",
                   "train.eval_every=4"]
        if kind == "xmc":
            options.append('model.loss={"type": "sigmoid_bce"}')
        found = []
        for ranks in (1, 3):
            summary, _ = runs.train(self.SPEC, self.out(f"run-{ranks}"),
                                    ranks=ranks, options=options)
            found.append((summary["state_hash"], summary["test"]))
        self.assertEqual(found[0], found[1])

    def test_this_file_knows_every_reader(self):
        reference = subprocess.run([runs.LUMEN, "help", "spec"], text=True,
                                   check=True, stdout=subprocess.PIPE).stdout
        kinds = re.findall(r"^### `data`: type `(\w+)`", reference, re.M)
        self.assertGreater(len(kinds), 8)
        for kind in kinds:
            self.assertTrue(hasattr(self, f"test_{kind}"), kind)


for name in ("cifar", "csv", "hdf5", "idx", "image_folder", "npy", "svmlight",
             "synthetic", "xmc"):
    setattr(Readers, f"test_{name}",
            lambda self, kind=name: self.check(kind))


if __name__ == "__main__":
    unittest.main(verbosity=2)
