# SPDX-License-Identifier: Apache-2.0
"""lumen new: data of every type gets a spec that plans, trains and learns."""
import gzip
import json
import os
import struct
import subprocess
import sys
import unittest
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "train"))
import lumen_runs as runs  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None
try:
    import h5py
except ImportError:
    h5py = None

CLASSES = 4


def images(samples, shape, seed):
    """Bytes and labels: each class has a bright quarter of its own, or, as a
    mirrored colour image is of the same class, a bright half of a colour."""
    draw = np.random.default_rng(seed)
    y = np.arange(samples) % CLASSES
    x = draw.integers(0, 100, (samples, *shape))
    rows, columns = shape[-2] // 2, shape[-1] // 2
    for i, label in enumerate(y):
        top, left = (label // 2) * rows, (label % 2) * columns
        if len(shape) == 3:
            x[i, label % 2, top:top + rows] += 120
        else:
            x[i, top:top + rows, left:left + columns] += 120
    return x.astype(np.uint8), y


def table(samples, features, seed):
    draw = np.random.default_rng(seed)
    y = np.arange(samples) % CLASSES
    x = draw.normal(size=(samples, features))
    x[np.arange(samples), y] += 4
    return (x * 50 + 7).astype(np.float32), y


def write_idx(path, array):
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(
        f">{array.ndim}I", *array.shape)
    with gzip.open(path, "wb") as file:
        file.write(header + array.astype(np.uint8).tobytes())


def write_png(path, image):
    """RGB [3][h][w] as its definition says."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    _, height, width = image.shape
    rows = b"".join(b"\0" + image[:, r].T.tobytes() for r in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(
            b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_idx(folder):
    for split, n, seed in (("train", 400, 1), ("t10k", 80, 2)):
        x, y = images(n, (12, 12), seed)
        write_idx(f"{folder}/{split}-images-idx3-ubyte.gz", x)
        write_idx(f"{folder}/{split}-labels-idx1-ubyte.gz", y)


def make_npy(folder):
    for split, n, seed in (("train", 400, 1), ("test", 80, 2)):
        x, y = table(n, 20, seed)
        np.save(f"{folder}/X_{split}.npy", x)
        np.save(f"{folder}/y_{split}.npy", y)


def make_npz(folder):
    (x, y), (a, b) = table(400, 20, 1), table(80, 20, 2)
    np.savez(f"{folder}/all.npz", x_train=x, y_train=y, x_test=a, y_test=b)


def make_hdf5(folder):
    with h5py.File(folder + "/all.h5", "w") as file:
        for split, n, seed in (("train", 400, 1), ("test", 80, 2)):
            x, y = table(n, 20, seed)
            file[split + "/features"] = x
            file[split + "/labels"] = y


def make_cifar(folder):
    for name, n, seed in (("data_batch_1", 200, 1), ("data_batch_2", 200, 2),
                          ("test_batch", 40, 3)):
        x, y = images(n, (3, 32, 32), seed)
        with open(f"{folder}/{name}.bin", "wb") as file:
            for image, label in zip(x, y):
                file.write(bytes([label]) + image.tobytes())


def make_images(folder):
    for split, n, seed in (("train", 200, 1), ("test", 20, 2)):
        x, y = images(n, (3, 30, 34), seed)
        for i, label in enumerate(y):
            place = f"{folder}/{split}/{'abcd'[label]}"
            os.makedirs(place, exist_ok=True)
            write_png(f"{place}/{i}.png", x[i])


def sparse_lines(samples, base, seed, several):
    draw = np.random.default_rng(seed)
    for i in range(samples):
        labels = [i % CLASSES] + ([(i + 1) % CLASSES] if several else [])
        words = sorted({*draw.integers(CLASSES, 60, 5).tolist(), *labels})
        yield (",".join(str(n) for n in sorted(labels)) + " " +
               " ".join(f"{w + base}:1" for w in words) + "\n")


def make_csv(folder):
    """Numbers, a category, an identifier, and patients of four rows each."""
    draw = np.random.default_rng(4)
    with open(f"{folder}/flowers.csv", "w", encoding="utf-8") as file:
        file.write("id,patient,width,length,colour,species\n")
        for i in range(600):
            kind = i // 4 % 3
            file.write(f"{i},p{i // 4},{draw.normal() + 3 * kind:.3f},"
                       f"{draw.normal() - 2 * kind:.3f},"
                       f"{('red', 'blue', 'green')[kind]},"
                       f"{('setosa', 'versicolor', 'virginica')[kind]}\n")


def make_svmlight(folder):
    for name, n, seed in (("words", 400, 1), ("words.t", 80, 2)):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.writelines(["# words\n", *sparse_lines(n, 1, seed, False)])


def make_xmc(folder):
    for name, n, seed in (("train", 400, 1), ("test", 80, 2)):
        with open(f"{folder}/words_{name}.txt", "w", encoding="utf-8") as file:
            file.writelines([f"{n} 60 {CLASSES}\n",
                             *sparse_lines(n, 0, seed, True)])


# type, what makes it, the path below the folder, epochs, metric, and what the
# spec has to say.
TYPES = (
    ("idx", make_idx, "", 6, "accuracy",
     {"model.preset.stem": "small", "data.shape": [1, 12, 12]}),
    ("idx", make_idx, "train-images-idx3-ubyte.gz", 6, "accuracy", {}),
    ("npy", make_npy, "", 20, "accuracy", {"model.preset.type": "mlp"}),
    ("npy", make_npz, "all.npz", 20, "accuracy",
     {"data.train.x": "all.npz:x_train"}),
    ("hdf5", make_hdf5, "", 20, "accuracy",
     {"data.train.x": "all.h5:/train/features"}),
    ("cifar", make_cifar, "", 6, "accuracy",
     {"model.preset.type": "resnet",
      "data.train": ["data_batch_1.bin", "data_batch_2.bin"]}),
    ("image_folder", make_images, "", 10, "accuracy",
     {"data.size": [28, 28], "data.channels": 3}),
    ("csv", make_csv, "", 10, "accuracy",
     {"data.target": "species", "data.group": "patient", "data.ignore": ["id"],
      "data.categorical": {"colour": None}, "data.valid_fraction": 0.1,
      "data.class_names": ["setosa", "versicolor", "virginica"]}),
    ("svmlight", make_svmlight, "", 10, "accuracy",
     {"data.base": 1, "data.features": 60, "data.labels": "one"}),
    ("xmc", make_xmc, "words_train.txt", 20, "p_at_1",
     {"data.base": 0, "data.features": 60, "data.labels": "several",
      "model.loss.type": "sigmoid_bce"}),
)


def at(spec, path):
    for key in path.split("."):
        spec = spec[key]
    return spec


@unittest.skipIf(np is None, "needs numpy")
class New(runs.RunTest):

    def lumen(self, *arguments, code=0):
        done = subprocess.run([runs.LUMEN, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120,
                              check=False, cwd=self.folder.name)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def make(self, make, name="data"):
        folder = self.out(name)
        os.makedirs(folder)
        make(folder)
        return folder

    def test_every_type_gets_a_spec_that_learns(self):
        for number, (kind, make, name, epochs, metric, keys) in enumerate(TYPES):
            if kind == "hdf5" and h5py is None:
                continue
            with self.subTest(kind=kind, name=name):
                folder = self.make(make, f"data{number}")
                spec = self.out(f"{kind}{number}.json")
                output = self.lumen("new", os.path.join(folder, name),
                                    "--out=" + spec)
                self.assertIn(f"type       {kind}", output)
                self.assertRegex(output, r"bad +none of")
                self.assertIn("weights exist", self.lumen("plan", spec))
                run = self.out(f"run{number}")
                summary, _ = runs.train(spec, run, ranks=2, options=(
                    f"train.epochs={epochs}", "train.lr.warmup_epochs=1"))
                with open(run + "/spec.json", encoding="utf-8") as file:
                    resolved = json.load(file)
                for path, value in keys.items():
                    self.assertEqual(at(resolved, path), value, path)
                # A guess is right one time in four, or two of them.
                split = "valid" if kind == "csv" else "test"
                held_out = [line for line in runs.metrics(run)
                            if line["split"] == split][-1]
                self.assertGreater(held_out[metric], 0.8)
                if kind in ("csv", "image_folder"):
                    self.check_names(run, split, kind)
                last = [line for line in runs.metrics(run)
                        if line["split"] == "train"][-1]
                if metric in last:
                    self.assertGreater(last[metric], 0.8)

    def check_names(self, run, split, kind):
        """Predictions call samples and classes as the data does."""
        table = run + "/scores.csv"
        self.lumen("predict", run, "--input=" + split, "--output=" + table)
        with open(table, encoding="utf-8") as file:
            head, first, *_ = file.read().splitlines()
        if kind == "csv":
            self.assertEqual(head, "sample,predicted,score_setosa,"
                                   "score_versicolor,score_virginica")
            self.assertRegex(first, "^0,(setosa|versicolor|virginica),")
        else:
            self.assertEqual(head, "sample,predicted,score_a,score_b,score_c,"
                                   "score_d")
            self.assertRegex(first, "^a/[0-9]+.png,[abcd],")

    def test_what_it_found_is_printed(self):
        output = self.lumen("new", self.make(make_npy))
        for word in ("20 values, 4 classes", "400 training samples, 80 for tests",
                     "100 to 100 samples per class", "+-", "network    two hidden layers", " per rank, of ",
                     "data.json: written; next: lumen plan data.json, lumen train "):
            self.assertIn(word, output)
        x, _ = table(400, 20, 1)
        with open(self.out("data.json"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn(f'"mean": [{x[:, 0].mean():.4g}, ', text)
        self.assertIn(f'"std": [{x[:, 0].std():.4g}, ', text)

    def test_a_spec_is_not_replaced_by_mistake(self):
        folder = self.make(make_npy)
        spec = self.write_spec("mine.json", "precious")
        output = self.lumen("new", folder, "--out=" + spec, code=2)
        self.assertIn("add --force", output)
        with open(spec, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        self.lumen("new", folder, "--out=" + spec, "--force")
        self.lumen("plan", spec)

    def test_real_targets_get_a_regression(self):
        x, _ = table(200, 6, 1)
        folder = self.make(lambda path: (
            np.save(path + "/x.npy", x),
            np.save(path + "/y.npy", (x[:, :2] - 7) / 50)))
        output = self.lumen("new", folder)
        self.assertIn("2 real targets", output)
        self.assertIn("none for tests", output)
        spec = self.out("data.json")
        _, _ = runs.train(spec, self.out(), options=("train.epochs=30",))
        losses = [line["loss"] for line in runs.metrics(self.out())
                  if line["split"] == "train"]
        self.assertLess(losses[-1], losses[0] / 4)

    def test_signs_are_two_classes(self):
        with open(self.out("a.svm"), "w", encoding="utf-8") as file:
            for i in range(60):
                file.write(f"{'-+'[i % 2]}1 {1 + i % 2}:1 7:0.5\n")
        self.assertIn("2 classes", self.lumen("new", self.out("a.svm")))
        self.lumen("plan", "a.json")

    def test_small_batches_get_group_norm(self):
        def make(folder):
            x, y = images(12, (3, 32, 32), 1)
            np.save(folder + "/x.npy", x)
            np.save(folder + "/y.npy", y)
        self.assertIn("group_norm", self.lumen("new", self.make(make)))
        runs.train(self.out("data.json"), self.out(),
                   options=("train.epochs=2",))

    def test_bad_samples_are_counted_and_skipped(self):
        folder = self.make(make_images)
        with open(folder + "/train/a/0.png", "wb") as file:
            file.write(b"no image")
        output = self.lumen("new", folder)
        self.assertIn("1 of 200 samples cannot be read, the first: ", output)
        self.assertIn("a/0.png", output)
        runs.train(self.out("data.json"), self.out(),
                   options=("train.epochs=1",))

    def test_bad_rows_are_counted(self):
        folder = self.make(make_svmlight)
        with open(folder + "/words", "a", encoding="utf-8") as file:
            file.write("1 5:1 6:x\n0 7\n")
        output = self.lumen("new", folder, code=1)
        self.assertIn('words:402: found "6:x"; expected index:value; 2 of',
                      output)

    def test_what_is_no_data_set_is_refused(self):
        os.makedirs(self.out("empty"))
        self.assertIn("found no data set; expected files of one of: cifar, ",
                      self.lumen("new", "empty", code=1))
        self.assertIn("no such file", self.lumen("new", "missing", code=1))
        self.assertIn("usage", self.lumen("new", code=2))
        both = self.make(lambda path: (make_npy(path), make_xmc(path)), "both")
        self.assertIn("several types: npy, xmc",
                      self.lumen("new", both, code=1))
        self.lumen("new", both + "/X_train.npy", "--out=one.json")
        x, y = table(40, 5, 1)
        two = self.make(lambda path: [
            np.save(f"{path}/{name}_{kind}.npy", array)
            for name in ("birds", "fish") for kind, array in zip("xy", (x, y))],
            "two")
        output = self.lumen("new", two, code=1)
        self.assertIn('several data sets, told by their names: "birds", "fish"',
                      output)
        self.lumen("new", two + "/fish_x.npy", "--out=fish.json")
        with open(self.out("fish.json"), encoding="utf-8") as file:
            self.assertIn('"fish_y.npy"', file.read())
        lonely = self.make(lambda path: np.save(path + "/x.npy", x), "lonely")
        self.assertIn("as many labels or targets y",
                      self.lumen("new", lonely, code=1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
