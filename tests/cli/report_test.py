# SPDX-License-Identifier: Apache-2.0
"""Reports: the page says what the run folder says, whatever state that is in."""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "train"))
import lumen_runs as runs  # noqa: E402

VOID = {"meta", "input", "br"}


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Page(html.parser.HTMLParser):
    """The elements of a page; fails when they are not closed in order."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.figures = {}     # key -> JSON values, one per run that has it
        self.attributes = []  # (tag, name, value)
        self.texts = {}       # tag -> text of each element
        self.open = []
        with open(path, encoding="utf-8") as file:
            self.source = file.read()
        self.feed(self.source)
        self.close()
        if self.open:
            raise AssertionError(f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")
        attrs = dict(attrs)
        if tag == "data":
            self.figures.setdefault(attrs["data-key"], []).append(
                json.loads(attrs["value"]))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]][-1] += data

    def curves(self):
        return json.loads(next(text for text in self.texts["script"]
                               if text.startswith("{")))


class Report(runs.RunTest):

    def report(self, *arguments, code=0):
        done = subprocess.run([runs.LUMEN, "report", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def page(self, folder):
        output = self.report(folder)
        self.assertIn(folder + "/report.html", output)
        return Page(folder + "/report.html"), output

    def assert_curves(self, run, folder):
        """The columns of the page are the lines of metrics.jsonl."""
        for split in ("train", "valid", "test"):
            lines = [line for line in runs.metrics(folder)
                     if line["split"] == split]
            for key in ("step", "seconds", "loss", "accuracy", "wire_bytes",
                        "flops_executed"):
                self.assertEqual(run["splits"][split][key],
                                 [line[key] for line in lines], (split, key))

    def test_figures_are_those_of_the_run(self):
        summary, _ = runs.train(self.SPEC, self.out(), ranks=2)
        page, output = self.page(self.out())
        self.assertIn("run: finished, ", output)
        for key in ("state_hash", "seconds", "samples_per_s", "train_loss",
                    "nnz", "flops_executed", "peak_rss_bytes", "steps",
                    "ranks"):
            self.assertEqual(page.figures[key], [summary[key]], key)
        self.assertEqual(page.figures["best"], [summary["best"]["value"]])
        self.assertEqual(page.figures["compression"], [
            summary["wire_bytes_dense"] / summary["wire_bytes"]])
        curves = page.curves()
        self.assertEqual(curves["metrics"], ["accuracy"])
        self.assert_curves(curves["runs"][0], self.out())
        for name, dense, present in summary["layers"]:
            self.assertIn(f'<th scope="row">{name}</th><td>'
                          f'{100 * present / dense:.1f} %', page.source)
        self.assertEqual(sum(row[2] for row in summary["layers"]),
                         summary["nnz"])
        self.assertEqual(page.texts["pre"][0],
                         read(self.out() + "/spec.json").decode())
        self.assertIn("exchange that nothing hides", page.source)

    def test_the_page_loads_nothing(self):
        runs.train(self.SPEC, self.out(), options=("train.steps=4",))
        page, _ = self.page(self.out())
        for tag, name, value in page.attributes:
            self.assertNotIn(name, ("src", "href", "srcset", "action",
                                    "background", "poster"), tag)
            if name == "http-equiv":
                policy = value
        self.assertEqual(policy, "Content-Security-Policy")
        self.assertIn("default-src 'none'", page.source)
        styles = " ".join(page.texts["style"])
        self.assertNotRegex(styles, r"url\(|@import")
        self.assertNotRegex(page.source, r"\bfetch\(|XMLHttpRequest|import\(")
        # The licence of the chart library comes with it.
        self.assertIn("Leon Sorokin", page.source)
        # An address is there once: in the first line of that library.
        self.assertEqual(re.findall(r"https?://\S+", page.source),
                         ["https://github.com/leeoniya/uPlot"])

    def test_runs_are_compared(self):
        one = self.out("a/run")
        two = self.out("b/run")
        first, _ = runs.train(self.SPEC, one)
        second, _ = runs.train(self.SPEC, two,
                               options=("model.sparsity.density=0.1",))
        path = self.out("both.html")
        output = self.report(one, two, "--out=" + path)
        self.assertIn("a/run: finished", output)
        page = Page(path)
        self.assertEqual(page.figures["state_hash"],
                         [first["state_hash"], second["state_hash"]])
        self.assertEqual(page.figures["nnz"], [first["nnz"], second["nnz"]])
        curves = page.curves()
        self.assertEqual([run["name"] for run in curves["runs"]],
                         ["a/run", "b/run"])
        self.assert_curves(curves["runs"][1], two)
        self.assertFalse(os.path.exists(one + "/report.html"))

    def test_hostile_names_stay_text(self):
        name = "<script>alert(1)<!--\"'&x\x1b"
        hostile = self.out(name)
        layer = "</pre></script><img onerror=x>"
        runs.train(self.SPEC, hostile, options=("train.steps=4",))
        for file in ("spec.json", "summary.json"):
            with open(f"{hostile}/{file}", encoding="utf-8") as text:
                json_text = text.read().replace('"fc2"', json.dumps(layer))
            with open(f"{hostile}/{file}", "w", encoding="utf-8") as text:
                text.write(json_text)
        page, _ = self.page(hostile)
        # The script elements are the program's own: curves, uPlot and the page.
        self.assertEqual(len(page.texts["script"]), 3)
        self.assertNotIn("img", page.texts)
        self.assertNotIn("<img", page.source)
        shown = name.replace("\x1b", "\\x1b")
        self.assertEqual(page.texts["h1"], [shown])
        self.assertEqual(page.curves()["runs"][0]["name"], shown)
        self.assertIn(layer, page.texts["th"])
        self.assertIn(layer, page.texts["pre"][0])

    def test_a_killed_run_is_reported_as_far_as_it_came(self):
        runs.train(self.SPEC, self.out())
        lines = read(self.out() + "/metrics.jsonl").splitlines()
        os.remove(self.out() + "/summary.json")
        for damage in (b'{"step": 41, "spl', b"\xff\xfe\x00", b"[1, 2]", b"{}",
                       b'{"step": "x", "split": "train"}',
                       b'{"step": 9, "split": "train", "loss": {"a": 1}'):
            with open(self.out() + "/metrics.jsonl", "wb") as file:
                file.write(b"\n".join(lines[:20]) + b"\n" + damage)
            page, output = self.page(self.out())
            self.assertIn("run: not ended", output)
            self.assertIn("1 damaged line of metrics.jsonl", page.source)
            self.assertNotIn("state_hash", page.figures)
            step = json.loads(lines[19])["step"]
            self.assertEqual(page.figures["steps"], [step])
            self.assertIn(f"last logged step {step}", page.source)
            self.assertEqual(
                len(page.curves()["runs"][0]["splits"]["train"]["step"]),
                sum(json.loads(line)["split"] == "train"
                    for line in lines[:20]))
        # Half a spec and half a summary are as good as none.
        for name in ("spec.json", "summary.json"):
            with open(f"{self.out()}/{name}", "w", encoding="utf-8") as file:
                file.write('{"steps": ')
        self.assertIn("not ended", self.page(self.out())[1])
        # Before the first step, or the first line.
        for kept in (1, 0):
            with open(self.out() + "/metrics.jsonl", "wb") as file:
                file.write(b"".join(line + b"\n" for line in lines[:kept]))
            page, _ = self.page(self.out())
            self.assertIn("no step was logged yet", page.source)

    def test_lines_of_strange_values_are_shown_without_them(self):
        runs.train(self.SPEC, self.out(), options=("train.steps=4",))
        with open(self.out() + "/metrics.jsonl", "a", encoding="utf-8") as file:
            for line in (
                    {"step": 5, "split": "train", "loss": None, "accuracy": "x"},
                    {"step": 6, "split": "a < b", "loss": 1e308, "other_s": 1},
                    {"step": 7, "split": "train", "layers": [[1], ["a", 0, 0]],
                     "seconds": -1}):
                file.write(json.dumps(line) + "\n")
        page, _ = self.page(self.out())
        self.assertEqual(page.curves()["runs"][0]["splits"]["a < b"]["loss"],
                         [1e308])

    def test_steps_done_again_count_once(self):
        runs.train(self.SPEC, self.out(), options=("train.steps=24",))
        shutil.rmtree(self.out() + "/checkpoints/step-24")
        summary, _ = runs.train(self.SPEC, self.out(), options=(
            "train.steps=24",))
        self.assertIsNotNone(summary["resumed_from"])
        page, _ = self.page(self.out())
        for split in page.curves()["runs"][0]["splits"].values():
            self.assertEqual(split["step"], sorted(set(split["step"])))
        train = page.curves()["runs"][0]["splits"]["train"]
        self.assertEqual(train["step"], list(range(1, 25)))
        self.assertIn("2 starts", page.source)

    def test_a_run_in_progress_is_reported_as_such(self):
        process = runs.start(self.SPEC, self.out(), ranks=0, options=(
            "train.steps=1000000", "checkpoint.every=0"))
        try:
            metrics = self.out() + "/metrics.jsonl"
            self.assertTrue(runs.wait_for(
                lambda: os.path.exists(metrics) and
                os.path.getsize(metrics) > 5000))
            page, output = self.page(self.out())
            self.assertIn("run: in progress, ", output)
            self.assertIn("in progress", page.texts["span"])
            # The same, now a summary of an earlier start lies there.
            with open(self.out() + "/summary.json", "w",
                      encoding="utf-8") as file:
                json.dump({"steps": 1, "state_hash": "0"}, file)
            page, output = self.page(self.out())
            self.assertIn("run: in progress, ", output)
            self.assertNotIn("state_hash", page.figures)
        finally:
            runs.kill_all(process)
        page, output = self.page(self.out())
        self.assertIn("run: not ended", output)

    def test_what_is_no_run_is_refused(self):
        missing = self.out("missing")
        self.assertIn(f"{missing}: no such folder", self.report(missing, code=1))
        self.assertIn("not a run folder", self.report(self.folder.name, code=1))
        self.assertIn("no such folder", self.report(self.folder.name + "/x\ny",
                                                    code=1))
        self.assertIn("not a run folder", self.report(self.SPEC, code=1))
        self.assertIn("usage: lumen report", self.report(code=2))
        runs.train(self.SPEC, self.out(), options=("train.steps=2",))
        self.assertIn("not a run folder",
                      self.report(self.out() + "/checkpoints/step-2", code=1))
        self.assertIn("/no/such/a.html",
                      self.report(self.out(), "--out=/no/such/a.html", code=1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
