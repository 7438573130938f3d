# SPDX-License-Identifier: Apache-2.0
"""Training on a folder of image files."""
import os
import random
import struct
import unittest
import zlib

import lumen_runs as runs


def png(rows):
    """A grey PNG of these rows of bytes."""
    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body +
                struct.pack(">I", zlib.crc32(kind + body)))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows))) +
            chunk(b"IEND", b""))


class Images(runs.RunTest):

    def setUp(self):
        super().setUp()
        # Two classes: bright above, bright below.
        dice = random.Random(1)
        for split, count in (("train", 200), ("test", 40)):
            for i in range(count):
                name = ("above", "below")[i % 2]
                folder = self.out(f"{split}/{name}")
                os.makedirs(folder, exist_ok=True)
                rows = [bytes(dice.randrange(256) if (y < 6) == (i % 2 == 0)
                              else dice.randrange(128) for _ in range(14))
                        for y in range(12)]
                with open(f"{folder}/{i}.png", "wb") as file:
                    file.write(png(rows))

    def options(self, more=""):
        return (f'data={{"type": "image_folder", "root": "{self.folder.name}",'
                f'"train": "train", "test": "test", "size": [8, 8], '
                f'"channels": 1{more}}}',
                'model.layers=[{"type": "flatten"}, {"type": "linear", '
                '"units": 32}, {"type": "relu"}, {"type": "linear", '
                '"units": 2}]', 'model.sparsity={"method": "dense"}',
                "train.global_batch=40", "train.steps=60",
                'exchange={"type": "dense"}')

    def train_on(self, ranks, more="", **kwargs):
        return runs.train(self.SPEC, self.out(f"run-{ranks}"), ranks=ranks,
                          options=self.options(more), **kwargs)

    def test_a_folder_of_pngs_trains_alike_on_any_number_of_ranks(self):
        one, _ = self.train_on(0)
        three, _ = self.train_on(3)
        self.assertEqual(one["state_hash"], three["state_hash"])
        self.assertGreater(one["test"]["accuracy"], 0.9)

    def test_a_damaged_file_is_named_or_skipped(self):
        path = self.out("train/below/17.png")
        with open(path, "r+b") as file:
            file.truncate(60)
        _, output = self.train_on(0, expect=1)
        self.assertIn(path, output)
        summaries = [self.train_on(ranks, ', "on_bad_sample": "skip"')
                     for ranks in (0, 3)]
        self.assertEqual(summaries[0][0]["state_hash"],
                         summaries[1][0]["state_hash"])
        self.assertIn("bad samples skipped", summaries[0][1])
        self.assertGreater(summaries[0][0]["bad_samples"], 0)
        with open(self.out("run-0/logs/rank-0000.log"),
                  encoding="utf-8") as file:
            self.assertIn(path, file.read())


if __name__ == "__main__":
    unittest.main()
