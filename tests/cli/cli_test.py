# SPDX-License-Identifier: Apache-2.0
"""The command line as a person meets it: help, mistakes, exit codes."""
import glob
import json
import os
import pty
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "train"))
import lumen_runs as runs  # noqa: E402


def lumen(*arguments, ranks=0):
    launcher = runs.MPIRUN + ["-np", str(ranks)] if ranks else []
    done = subprocess.run(launcher + [runs.LUMEN, *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=120, check=False)
    return done.returncode, done.stdout


class CommandLine(runs.RunTest):

    def expect(self, code, words, *arguments, **kwargs):
        found, output = lumen(*arguments, **kwargs)
        self.assertEqual(found, code, output)
        for word in words:
            self.assertIn(word, output)
        return output

    def test_help_is_there_for_everything(self):
        text = self.expect(0, ["commands", "examples", "Exit codes"], "help")
        self.assertEqual(text, self.expect(0, [], "--help"))
        for command in ("train", "eval", "export", "predict", "plan", "inspect",
                        "new", "report", "selftest"):
            self.assertIn(command, text)
            self.expect(0, ["example"], "help", command)
            self.expect(0, ["example"], command, "--help")

    def test_unknown_words_are_errors_with_a_suggestion(self):
        self.expect(2, ["unknown command", "did you mean train?"], "trian")
        self.expect(2, ["unknown flag --thread", "did you mean --threads?"],
                    "train", self.SPEC, "--thread=2")
        self.expect(2, ["belongs to lumen plan"], "train", self.SPEC,
                    "--ranks=2")
        self.expect(2, ["--threads=two"], "train", self.SPEC, "--threads=two")
        self.expect(2, ["--isa: unknown"], "train", self.SPEC, "--isa=avx3",
                    "--out=" + self.out())
        self.expect(2, ["not a time"], "train", self.SPEC, "--max_time=soon",
                    "--out=" + self.out())
        self.expect(2, ["not a time"], "train", self.SPEC,
                    "--max_time=1:99:00", "--out=" + self.out())
        self.expect(2, ["unexpected"], "train", self.SPEC, "another.json")
        self.expect(2, ["usage"], "train")
        self.expect(2, ["usage"])
        self.expect(2, ["did you mean train?"], "help", "trian")
        # A flag that was left empty does not swallow the next one.
        self.expect(2, ["--out: has no value"], "train", self.SPEC, "--out",
                    "--resume=never")
        self.expect(2, ["--out: has no value"], "train", self.SPEC, "--out")

    def test_version_names_what_runs_here(self):
        text = self.expect(0, ["lumen ", "oneDNN ", " kernels"], "version")
        self.assertEqual(text, self.expect(0, [], "--version"))

    def test_spec_errors_name_line_path_and_nearest_key(self):
        with open(self.SPEC, encoding="utf-8") as file:
            text = file.read()
        wrong = self.write_spec("wrong.json", text.replace(
            '"momentum"', '"momentun"'))
        line = 1 + next(i for i, row in enumerate(text.splitlines())
                        if '"momentum"' in row)
        for ranks in (0, 3):
            output = self.expect(
                2, [f"wrong.json:{line}: train.optimizer.momentun: unknown key",
                    'did you mean "momentum"?'],
                "train", wrong, "--out=" + self.out(), ranks=ranks)
            self.assertEqual(output.count("unknown key"), 1)
        self.expect(2, ["command line", "train.lr.bass"], "plan", self.SPEC,
                    "train.lr.bass=3")
        twice = self.write_spec("twice.json", text.replace(
            '"seed": 7', '"seed": 7, "seed": 8'))
        self.expect(2, ['key "seed" again'], "plan", twice)
        self.expect(2, ["train.seed: found -1", ">= 0"], "plan", self.SPEC,
                    "train.seed=-1")
        self.expect(2, ["multiple of train.shards"], "plan", self.SPEC,
                    "train.global_batch=97")

    def test_c7_missing_files_are_named(self):
        self.expect(2, ["nowhere.json", "No such file"], "train",
                    "nowhere.json")
        self.expect(2, ["nowhere.json"], "plan", "nowhere.json")
        output = self.expect(2, ["nowhere.json"], "train", "nowhere.json",
                             ranks=2)
        self.assertEqual(output.count("nowhere.json"), 1)
        spec = self.write_spec("idx.json", json.dumps({
            "data": {"type": "idx", "root": "/no/such/folder", "classes": 10,
                     "shape": [1, 28, 28], "samples": {"train": 100},
                     "train": {"x": "x.gz", "y": "y.gz"}},
            "model": {"preset": {"type": "mlp", "units": [8]}},
            "train": {"global_batch": 16, "steps": 1, "lr": 0.1}}))
        for ranks in (0, 2):
            output = self.expect(
                1, ["/no/such/folder", "data.train.x"], "train", spec,
                "--out=" + self.out(f"run-{ranks}"), ranks=ranks)
            self.assertEqual(output.count("/no/such/folder"), 1)
            # A start that failed leaves no folder behind, nor takes one away.
            self.assertFalse(os.path.exists(self.out(f"run-{ranks}")))
        os.mkdir(self.out("mine"))
        self.expect(1, ["data.train.x"], "train", spec,
                    "--out=" + self.out("mine"))
        self.assertTrue(os.path.exists(self.out("mine")))
        self.expect(1, ["no such"], "inspect", "nowhere")
        self.expect(1, ["no such folder"], "eval", "nowhere")

    def test_a_spec_is_a_file(self):
        pipe = self.out("pipe.json")
        os.mkfifo(pipe)
        for command in ("train", "plan"):
            self.expect(2, ["pipe.json: is a pipe"], command, pipe)
            self.expect(2, ["is a folder"], command, HERE)
        self.expect(2, ["is a pipe"], "train", pipe, ranks=2)
        self.expect(2, ["/dev/zero: is no regular file"], "plan", "/dev/zero")

    def test_bytes_of_a_spec_are_shown_as_text(self):
        path = self.out("binary.json")
        for content in (b"\x7fELF\x02\x01\xff", b'{"da\xc2\x9bta": 1}',
                        b'{"\x1b[31m": 1}'):
            with open(path, "wb") as file:
                file.write(content)
            output = self.expect(2, ["binary.json:1", "\\x"], "plan", path)
            self.assertTrue(output.rstrip("\n").isprintable(), output)
        self.expect(2, ['command "\\x07trian'], "\x07trian")

    def test_output_that_cannot_be_written_is_a_failure(self):
        for arguments in (["help"], ["plan", self.SPEC], ["version"],
                          ["train", self.SPEC, "--out=" + self.out(),
                           "train.steps=3"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([runs.LUMEN, *arguments], stdout=full,
                                      stderr=subprocess.PIPE, text=True,
                                      timeout=60, check=False)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("No space left on device", done.stderr)
        # The run itself is whole.
        self.assertEqual(runs.summary(self.out())["stopped_by"], "finished")

    def test_counts_and_ratios_are_in_words_that_fit(self):
        output = self.expect(0, ["1 rank, 8 shards of 12 samples"], "plan",
                             self.SPEC)
        output += self.expect(0, ["| 1 rank on", "after 1 step in"], "train",
                              self.SPEC, "--out=" + self.out("one"),
                              "train.steps=1")
        output += self.expect(0, ["a dense exchange sends"], "train",
                              self.SPEC, "--out=" + self.out("two"),
                              "train.steps=1", "model.sparsity.method=dense",
                              'exchange={"type": "dense"}', ranks=2)
        for wrong in ("1 ranks", "0 times", "1 steps", "1/0"):
            self.assertNotIn(wrong, output)

    def test_max_time_auto_is_what_slurm_leaves(self):
        def train(end, expect):
            environment = dict(os.environ, SLURM_JOB_END_TIME=end)
            done = subprocess.run(
                [runs.LUMEN, "train", self.SPEC, "--out=" + self.out(),
                 "--max_time=auto", "train.steps=3"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env=environment, timeout=60, check=False)
            self.assertEqual(done.returncode, expect, done.stdout)
            return done.stdout
        self.assertIn("max_time: none", train("", 0))
        self.assertIn("max_time: 59 m", train(str(int(time.time()) + 3630), 0))

    def test_more_ranks_than_shards_is_an_error_with_the_fix(self):
        output = self.expect(2, ["train.shards=3"], "train", self.SPEC,
                             "--out=" + self.out(), "train.shards=2", ranks=3)
        self.assertEqual(output.count("train.shards=3"), 1)

    def test_c1_singletons_under_slurm_stop(self):
        environment = dict(os.environ, SLURM_NTASKS="4", SLURM_JOB_ID="1")
        done = subprocess.run(
            [runs.LUMEN, "train", self.SPEC, "--out=" + self.out()],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("SLURM_NTASKS", done.stdout)

    def test_c2_threads_that_share_a_core_are_warned_about(self):
        self.expect(0, ["threads of 1 rank share", "--map-by slot:PE=N"], "train",
                    self.SPEC, "--out=" + self.out(), f"--threads={os.cpu_count() + 1}",
                    "train.steps=1")

    def test_c5_bar_only_on_a_terminal(self):
        # Through a pipe: lines; mpirun gives its ranks a pseudo-terminal, which
        # must not count.
        for ranks in (0, 2):
            output = self.expect(0, ["step 1/40"], "train", self.SPEC,
                                 "--out=" + self.out(f"pipe-{ranks}"),
                                 ranks=ranks)
            self.assertNotIn("\x1b", output)
            self.assertNotIn("[#", output)
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [runs.LUMEN, "train", self.SPEC, "--out=" + self.out("tty"),
             "train.steps=2000"], stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        os.close(ours)
        self.assertEqual(process.wait(), 0)
        self.assertIn(b"\r\x1b[K[", shown)
        self.assertIn(b"ETA", shown)

    def test_plan_needs_no_data_and_covers_every_job(self):
        jobs = glob.glob(os.path.join(ROOT, "jobs", "*.json"))
        self.assertTrue(jobs)
        for job in jobs:
            self.expect(0, ["memory per rank", "wire per step"], "plan", job,
                        "--ranks=2", 'data.root="/no/such/folder"'
                        if "fashion" in job else "train.seed=2")
        self.expect(2, ["memory.limit", "largest part"], "plan", jobs[0],
                    'memory.limit="1MiB"')

    def test_eval_repeats_the_summary_on_any_rank_count(self):
        for weights, options in (("last", ()), ("ema", ("train.ema=0.9",))):
            out = self.out(weights)
            summary, _ = runs.train(self.SPEC, out, ranks=2, options=options)
            # The best on the validation split is not the last, so name the
            # last.
            last = f"{out}/checkpoints/step-{summary['steps']}"
            for ranks in (0, 3):
                _, output = lumen("eval", last, ranks=ranks)
                result = json.loads(output.strip().splitlines()[-1])
                self.assertEqual(result["weights"], weights)
                self.assertEqual(result["accuracy"],
                                 summary["test"]["accuracy"])
                self.assertEqual(result["loss"], summary["test"]["loss"])
                self.assertEqual(result["parameter_hash"],
                                 summary["parameter_hash"])
            _, output = lumen("eval", out, "--split=valid")
            result = json.loads(output.strip().splitlines()[-1])
            self.assertEqual(result["step"], summary["best"]["step"])
            self.assertEqual(result["accuracy"], summary["best"]["value"])

    def test_inspect_shows_tensors_and_damage(self):
        summary, _ = runs.train(self.SPEC, self.out(), ranks=1)
        self.expect(0, ["checkpoint", "ok", "state_hash"], "inspect",
                    self.out())
        last = f"{self.out()}/checkpoints/step-{summary['steps']}"
        for name in (last, last + "/"):
            self.expect(0, ["fc1.weight", "64x20", "progress", "spec"],
                        "inspect", name)
        # A run that was killed has no summary yet, but its metrics.
        os.remove(self.out() + "/summary.json")
        self.expect(0, ['last metrics {"step":40'], "inspect", self.out())
        os.rename(last, self.out("copy"))
        self.expect(0, ["fc1.weight"], "inspect", self.out("copy"))
        os.rename(self.out("copy"), last)
        with open(last + "/model.h5", "r+b") as file:
            file.seek(100)
            file.write(b"damage")
        self.expect(1, ["model.h5: digest", "not a whole checkpoint"],
                    "inspect", last)
        self.expect(0, ["density", "fc2"], "inspect", self.SPEC)
        self.expect(1, ["holds neither a run"], "inspect", HERE)

    def test_selftest_passes_on_one_and_two_ranks(self):
        for ranks in (0, 2):
            output = self.expect(0, ["ok"], "selftest", ranks=ranks)
            self.assertNotIn("FAILED", output)

    def test_selftest_fails_when_a_bit_differs(self):
        # The state that a right build reaches is written in the program;
        # another one there stands for kernels with another result.
        with open(runs.LUMEN, "rb") as file:
            program = file.read()
        known = b"f178ae6f2652e043"
        self.assertEqual(program.count(known), 1)
        wrong = self.out("wrong-lumen")
        with open(wrong, "wb") as file:
            file.write(program.replace(known, known[::-1]))
        os.chmod(wrong, 0o755)
        done = subprocess.run([wrong, "selftest"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("FAILED  scalar kernels", done.stdout)
        self.assertIn("found f178ae6f2652e043", done.stdout)
        self.assertIn("ok      scalar kernels", done.stdout)

    def test_field_reference_is_that_of_the_code(self):
        _, reference = lumen("help", "spec")
        with open(os.path.join(ROOT, "jobs", "README.md"),
                  encoding="utf-8") as file:
            text = file.read()
        self.assertIn(reference.strip(), text,
                      "run: lumen help spec, and paste it into jobs/README.md")

    def test_run_folder_has_the_documented_keys(self):
        summary, _ = runs.train(self.SPEC, self.out(), ranks=2)
        for key in ("ranks shards threads isa steps seconds samples_per_s "
                    "train_loss test best parameters nnz parameter_hash "
                    "state_hash peak_rss_bytes planned_bytes wire_bytes "
                    "wire_bytes_dense flops_executed flops_dense resumed_from "
                    "stopped_by").split():
            self.assertIn(key, summary)
        self.assertAlmostEqual(
            summary["sparsity_efficiency"],
            summary["flops_dense"] / summary["flops_executed"])
        best = next(line for line in runs.metrics(self.out())
                    if line["step"] == summary["best"]["step"] and
                    line["split"] == "valid")
        cost = summary["to_best"]
        self.assertEqual(cost["seconds"], best["seconds"])
        self.assertEqual(cost["gflop"], best["flops_executed"] * 1e-9)
        self.assertIn(cost["energy"], ("measured", "unavailable"))
        self.assertEqual(cost["joules"] is None,
                         cost["energy"] == "unavailable")
        for line in runs.metrics(self.out()):
            for key in ("step epoch split loss lr samples_per_s seconds "
                        "flops_executed flops_dense wire_bytes "
                        "wire_bytes_dense data_wait_s exchange_wait_s").split():
                self.assertIn(key, line)
        names = set(os.listdir(self.out()))
        self.assertLessEqual({"spec.json", "log.txt", "metrics.jsonl",
                              "summary.json", "checkpoints", "logs"}, names)
        self.assertEqual(sorted(os.listdir(self.out() + "/logs")),
                         ["rank-0000.log", "rank-0001.log"])
        # The resolved spec is a spec: the same run again.
        again, _ = runs.train(self.out() + "/spec.json", self.out("again"),
                              ranks=1)
        self.assertEqual(again["state_hash"], summary["state_hash"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
