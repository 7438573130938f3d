# SPDX-License-Identifier: Apache-2.0
"""Ranks that were started differently, fail alone, crash or are stopped."""
import json
import os
import signal
import struct
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "train"))
import lumen_runs as runs  # noqa: E402

LUMEN = os.path.abspath(runs.LUMEN)


def write_npy(path, code, shape, values):
    """An array as numpy.save writes it, without numpy."""
    header = repr({"descr": "<" + code, "fortran_order": False,
                   "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    kind = {"f4": "f", "i8": "q"}[code]
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) +
                   header.encode() +
                   struct.pack(f"<{len(values)}{kind}", *values))


class Ranks(runs.RunTest):

    def each(self, *commands, folders=()):
        """One rank per command line, each in its own folder if there are."""
        line = list(runs.MPIRUN)
        for number, words in enumerate(commands):
            line += ([":"] if number else []) + ["-np", "1"]
            if folders:
                line += ["-wdir", folders[number]]
            line += [LUMEN, *words]
        done = subprocess.run(line, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60,
                              check=False)
        return done.returncode, done.stdout

    def folders(self):
        names = [self.out(f"node{i}") for i in (0, 1)]
        for name in names:
            os.mkdir(name)
        return names

    def test_a_usage_error_is_said_once_by_all_ranks(self):
        good = ["train", self.SPEC, "--out=" + self.out()]
        wrong = good + ["--thread=1"]
        for commands in ([wrong, wrong, wrong], [good, wrong], [wrong, good],
                         [good, ["trian"]]):
            code, output = self.each(*commands)
            self.assertEqual(code, 2, output)
            self.assertEqual(output.count("did you mean"), 1, output)
        self.assertFalse(os.path.exists(self.out()))

    def test_x2_different_flags_and_commands_stop_all_ranks(self):
        one = ["train", self.SPEC, "--out=" + self.out("one")]
        two = ["train", self.SPEC, "--out=" + self.out("two")]
        code, output = self.each(one, two)
        self.assertEqual(code, 2, output)
        self.assertIn("only rank 1 has --out=" + self.out("two"), output)
        self.assertIn("only rank 0 has --out=" + self.out("one"), output)
        code, output = self.each(one, one + ["--resume=never"])
        self.assertEqual(code, 2, output)
        self.assertIn("only rank 1 has --resume=never", output)
        code, output = self.each(one, ["eval"] + one[1:2])
        self.assertEqual(code, 2, output)
        self.assertIn("only rank 1 has eval", output)
        self.assertFalse(os.path.exists(self.out("one")))

    def test_threads_and_instruction_sets_may_differ(self):
        words = ["train", self.SPEC, "--out=" + self.out(), "train.steps=3"]
        code, output = self.each(words + ["--threads=1"],
                                 words + ["--threads=2", "--isa=scalar"])
        self.assertEqual(code, 0, output)
        self.assertIn("1 to 2 threads per rank", output)
        self.assertIn("scalar", output.splitlines()[0])

    def test_folders_of_one_name_on_two_disks_are_refused(self):
        words = ["train", self.SPEC, "--out=here"]
        code, output = self.each(words, words, folders=self.folders())
        self.assertEqual(code, 1, output)
        self.assertIn("here: not the folder of rank 0", output)
        self.assertEqual(output.count("on rank 1 ("), 1, output)
        for folder in ("node0", "node1"):
            self.assertEqual(os.listdir(self.out(folder)), [])

    def test_an_error_of_one_rank_ends_all_ranks(self):
        folders = self.folders()
        for folder, samples in zip(folders, (16, 8)):
            write_npy(folder + "/x.npy", "f4", (samples, 3), [0.5] * samples * 3)
            write_npy(folder + "/y.npy", "i8", (samples,), [0] * samples)
        spec = self.write_spec("npy.json", json.dumps({
            "data": {"type": "npy", "classes": 2, "samples": {"train": 16},
                     "train": {"x": "x.npy", "y": "y.npy"}},
            "model": {"preset": {"type": "mlp", "units": [4]}},
            "train": {"global_batch": 8, "steps": 2, "lr": 0.1}}))
        words = ["train", spec, "--out=" + self.out()]
        for order in (folders, folders[::-1]):
            code, output = self.each(words, words, folders=order)
            self.assertEqual(code, 2, output)
            self.assertEqual(output.count("data.samples.train: 16; expected 8"),
                             1, output)
        code, output = self.each(words, words, folders=[folders[0]] * 2)
        self.assertEqual(code, 0, output)

    def test_errors_of_all_ranks_are_said_once(self):
        for code, text, words in (
                (1, "nowhere: no such folder", ["eval", "nowhere"]),
                (1, "cannot create the run folder",
                 ["train", self.SPEC, "--out=/proc/no/such"]),
                (2, "--isa: unknown", ["train", self.SPEC, "--isa=mmx"])):
            found, output = self.each(words, words, words)
            self.assertEqual(found, code, output)
            self.assertEqual(output.count(text), 1, output)
            self.assertNotIn("MPI_ABORT", output)

    def test_a_crash_leaves_its_stack_in_the_log_of_the_rank(self):
        process = runs.start(self.SPEC, self.out(), ranks=2, options=(
            "train.steps=1000000", "checkpoint.every=0"))
        log = self.out() + "/metrics.jsonl"
        self.assertTrue(runs.wait_for(
            lambda: os.path.exists(log) and os.path.getsize(log) > 0))
        victim = runs.ranks_of(process)[1]
        os.kill(victim, signal.SIGSEGV)
        output, _ = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("SIGSEGV", output)
        texts = []
        for rank in (0, 1):
            with open(self.out() + f"/logs/rank-000{rank}.log",
                      encoding="utf-8") as file:
                texts.append(file.read())
        self.assertEqual(sum("SIGSEGV" in text for text in texts), 1)
        for text in texts:
            self.assertIn("2 ranks", text)
            if "SIGSEGV" in text:
                self.assertIn("lumen::cli::RunTrain", text)

    def test_errors_are_kept_in_the_log_of_the_rank(self):
        spec = self.write_spec("idx.json", json.dumps({
            "data": {"type": "idx", "root": "/no/such/folder", "classes": 10,
                     "shape": [1, 28, 28], "samples": {"train": 100},
                     "train": {"x": "x.gz", "y": "y.gz"}},
            "model": {"preset": {"type": "mlp", "units": [8]}},
            "train": {"global_batch": 16, "steps": 1, "lr": 0.1}}))
        os.mkdir(self.out())  # a folder that the failed start made goes with it
        for start in (1, 2):
            self.each(["train", spec, "--out=" + self.out()])
            with open(self.out() + "/logs/rank-0000.log",
                      encoding="utf-8") as file:
                self.assertEqual(file.read().count("/no/such/folder"), start)

    def test_signals_end_commands_that_do_not_train(self):
        process = subprocess.Popen([LUMEN, "selftest"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL,
                                   cwd=self.folder.name, text=True,
                                   env=dict(os.environ,
                                            TMPDIR=self.folder.name))
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_what_to_do_after_a_stop_is_a_command_that_does_it(self):
        done = subprocess.run(
            runs.command(self.SPEC, self.out(), ranks=0, options=(
                "train.steps=1000000", "checkpoint.every=0",
                'model.loss={"type":"softmax_cross_entropy"}', "--max_time=2")),
            stdout=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 75, done.stdout)
        again = done.stdout.split("go on with: ")[1].splitlines()[0]
        self.assertTrue(again.startswith("lumen train "), again)
        before = runs.summary(self.out())["steps"]
        again = again.replace("lumen", LUMEN, 1) + " --max_time=2"
        done = subprocess.run(["sh", "-c", again], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 75, done.stdout)
        self.assertGreater(runs.summary(self.out())["steps"], before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
