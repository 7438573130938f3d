# SPDX-License-Identifier: Apache-2.0
"""lumen status: how far a run is, while it trains and after it ended."""
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "train"))
import lumen_runs as runs  # noqa: E402

LENGTH = ("train.steps=3000", "checkpoint.every=100", "train.eval_every=1000")


class Status(runs.RunTest):

    def status(self, *paths, code=0):
        done = subprocess.run([runs.LUMEN, "status", *paths],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def value(self, text, name):
        found = re.search(rf"^  {name} +(.*)$", text, re.MULTILINE)
        self.assertIsNotNone(found, text)
        return found.group(1)

    def start(self, ranks):
        process = runs.start(self.SPEC, self.out(), ranks=ranks, options=LENGTH)
        before = len(self.whole())
        self.assertTrue(runs.wait_for(
            lambda: self.whole() and (before == 0 or
                                      len(self.starts()) > 1)))
        return process

    def starts(self):
        return [line for line in runs.metrics(self.out())
                if line["split"] == "start"]

    def whole(self):
        return [c for c in runs.checkpoints(self.out())
                if os.path.exists(c + "/MANIFEST.json")]

    def test_a_run_is_followed_from_its_start_to_its_end(self):
        process = self.start(ranks=2)
        texts = []
        for _ in range(2):
            texts.append(self.status(self.out()))
            step = runs.metrics(self.out())[-1]["step"]
            runs.wait_for(lambda: runs.metrics(self.out())[-1]["step"] > step)
        steps = []
        for text in texts:
            self.assertIn(": in progress, ", text)
            step, total, done = re.match(r"(\d+)/(\d+), (.*) %",
                                         self.value(text, "step")).groups()
            self.assertEqual(total, "3000")
            self.assertAlmostEqual(float(done), int(step) / 30, delta=0.051)
            steps.append(int(step))
            self.assertRegex(self.value(text, "speed"), r"^[1-9].* samples/s")
            self.assertRegex(self.value(text, "ETA"), r"^[\d.]+ m?s$")
            self.assertRegex(self.value(text, "last line"), "ago$")
            self.assertRegex(self.value(text, "checkpoint"),
                             r"^step-\d+00, .* ago, [\d.]+ KiB")
            self.assertEqual(self.value(text, "starts"), "1")
        self.assertLess(steps[0], steps[1])

        process.send_signal(signal.SIGUSR1)
        process.communicate(timeout=60)
        stopped = runs.summary(self.out())["steps"]
        text = self.status(self.out())
        self.assertIn(": stopped by signal, ", text)
        self.assertEqual(self.value(text, "step").split(",")[0],
                         f"{stopped}/3000")
        self.assertTrue(self.value(text, "checkpoint")
                        .startswith(f"step-{stopped},"), text)
        self.assertNotIn("  ETA", text)

        runs.kill_all(self.start(ranks=0))
        text = self.status(self.out())
        self.assertIn(": not ended, ", text)
        self.assertEqual(self.value(text, "starts"),
                         f"2, the newest from step {stopped} on 1 rank")

        runs.train(self.SPEC, self.out(), ranks=3, options=LENGTH)
        text = self.status(self.out())
        self.assertIn(": finished\n", text)
        self.assertEqual(self.value(text, "step"), "3000/3000, 100.0 %")
        self.assertRegex(self.value(text, "starts"), "^3, .* on 3 ranks$")
        self.assertIn("accuracy, valid, step", self.value(text, "metric"))

    def test_a_folder_of_runs_is_a_line_for_each(self):
        for name, options, code in (("a", (), 0), ("b", ("--max_time=1",
                                                        "train.steps=1000000"),
                                                  75)):
            runs.train(self.SPEC, self.out(name), expect=code, options=options)
        shutil.copytree(self.out("a"), self.out("c"))
        os.remove(self.out("c") + "/summary.json")
        os.mkdir(self.out("no-run"))
        steps = runs.summary(self.out("b"))["steps"]
        for paths in ([self.folder.name], [self.out(n) for n in "abc"]):
            lines = self.status(*paths).splitlines()
            self.assertEqual(len(lines), 4, lines)
            self.assertRegex(lines[1], r"^a +finished +40/40 +100.0 % .* step-40"
                                       r" +1 ")
            self.assertRegex(lines[2], rf"^b +stopped by max_time +{steps}/"
                                       rf"1000000 .* step-{steps} ")
            self.assertRegex(lines[3], r"^c +not ended +40/40 ")

    def test_damaged_folders_are_told_apart(self):
        runs.train(self.SPEC, self.out(), options=("train.steps=8",))
        for path in runs.checkpoints(self.out()):
            with open(path + "/MANIFEST.json", "w", encoding="utf-8") as file:
                file.write("{")
        self.assertIn("step-8", self.status(self.out()))
        shutil.rmtree(self.out() + "/checkpoints")
        with open(self.out() + "/metrics.jsonl", "w", encoding="utf-8") as file:
            file.write('{"step": 3, "split": "start"}\n{"step": 4, "spl')
        os.remove(self.out() + "/spec.json")
        os.remove(self.out() + "/summary.json")
        text = self.status(self.out())
        self.assertEqual(self.value(text, "step"), "3, -")
        self.assertEqual(self.value(text, "checkpoint"), "none yet")
        os.mkdir(self.out("empty"))
        self.assertIn("neither a run folder", self.status(self.out("empty"),
                                                          code=1))
        self.assertIn("no such folder", self.status(self.out("missing"),
                                                    code=1))
        self.status(code=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
