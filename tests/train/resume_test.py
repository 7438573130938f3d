# SPDX-License-Identifier: Apache-2.0
"""Resume, as users of other systems saw it fail (rows R1 to R9 and C4)."""
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import lumen_runs as runs


# Long enough to be killed in the middle.
LENGTH = ("train.steps=600", "checkpoint.every=20", "checkpoint.keep=6",
          "train.eval_every=200")


class Resume(runs.RunTest):

    @classmethod
    def setUpClass(cls):
        cls.folder_of_all = tempfile.TemporaryDirectory(prefix="lumen-test-")
        cls.addClassCleanup(cls.folder_of_all.cleanup)
        cls.whole_out = os.path.join(cls.folder_of_all.name, "whole")
        cls.whole, _ = runs.train(cls.SPEC, cls.whole_out, ranks=0,
                                  options=LENGTH)

    def stopped_run(self, name="run", out=None):
        """A run that was killed after at least four checkpoints."""
        out = out or self.out(name)
        process = runs.start(self.SPEC, out, ranks=2, options=LENGTH)
        reached = runs.wait_for(lambda: len(self.whole_checkpoints(out)) > 3)
        self.assertTrue(reached)
        runs.kill_all(process)
        self.assertIsNone(runs.summary(out), "finished before it was killed")
        return out

    def whole_checkpoints(self, out):
        return [c for c in runs.checkpoints(out)
                if os.path.exists(c + "/MANIFEST.json")]

    def finish(self, out, **kwargs):
        summary, output = runs.train(self.SPEC, out, options=LENGTH, **kwargs)
        self.assertEqual(summary["state_hash"], self.whole["state_hash"])
        return summary, output

    def test_r1_r2_r3_equal_step_by_step_on_another_rank_count(self):
        out = self.stopped_run()
        summary, output = self.finish(out, ranks=3)
        self.assertIn("resume: step", output)
        self.assertIsNotNone(summary["resumed_from"])
        self.assertEqual(runs.surviving(out),
                         runs.surviving(self.whole_out))

    def test_r4_falls_back_when_the_newest_is_incomplete(self):
        out = self.stopped_run()
        whole = self.whole_checkpoints(out)
        os.remove(whole[-1] + "/MANIFEST.json")
        _, output = self.finish(out, ranks=2)
        self.assertIn("not whole", output)
        self.assertIn(f"from {whole[-2]}", output)

    def test_r5_an_unfinished_file_never_counts(self):
        out = self.stopped_run()
        newest = self.whole_checkpoints(out)[-1]
        step = int(newest.split("-")[-1]) + 7  # none of the run's own
        unfinished = os.path.join(out, "checkpoints", f"step-{step}")
        os.mkdir(unfinished)
        shutil.copy(newest + "/model.h5", unfinished + "/model.h5.tmp")
        _, output = self.finish(out, ranks=1)
        self.assertIn("never finished", output)
        self.assertFalse(os.path.exists(unfinished))

    def test_a_run_killed_in_its_first_checkpoint_starts_over(self):
        out = self.stopped_run()
        whole = self.whole_checkpoints(out)
        for path in runs.checkpoints(out):
            if path == whole[-1]:
                os.remove(path + "/MANIFEST.json")
            else:
                shutil.rmtree(path)
        _, output = self.finish(out, ranks=2)
        self.assertIn("not whole", output)
        self.assertIn("start: ", output)

    def test_r6_a_full_disk_keeps_the_old_checkpoint(self):
        disk = os.path.join(self.folder.name, "disk")
        os.mkdir(disk)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk],
            capture_output=True, check=False)
        if mounted.returncode:
            self.skipTest("mounting a small tmpfs is not permitted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        out = os.path.join(disk, "run")
        self.stopped_run(out=out)
        before = self.whole_checkpoints(out)
        free = os.statvfs(disk)
        with open(disk + "/filler", "wb") as file:
            try:
                file.write(b"x" * (free.f_bavail * free.f_bsize - 8192))
            except OSError:
                pass
        done = subprocess.run(
            runs.command(self.SPEC, out, ranks=2, options=LENGTH), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("older ones are kept", done.stdout)
        self.assertIn("No space left on device", done.stdout)
        self.assertEqual(self.whole_checkpoints(out)[-1:], before[-1:])
        for folder, _, names in os.walk(out):
            for name in names:
                self.assertFalse(name.endswith(".tmp"), folder + "/" + name)
        os.remove(disk + "/filler")
        self.finish(out, ranks=3)

    def test_r7_flipped_and_truncated_bytes_are_found(self):
        out = self.stopped_run()
        whole = self.whole_checkpoints(out)
        with open(whole[-1] + "/model.h5", "r+b") as file:
            file.seek(os.path.getsize(file.name) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        shard = whole[-2] + "/shard-3.h5"
        os.truncate(shard, os.path.getsize(shard) - 1)
        _, output = self.finish(out, ranks=2)
        self.assertIn("model.h5: digest", output)
        self.assertIn("shard-3.h5", output)
        self.assertIn(f"from {whole[-3]}", output)

    def test_r8_another_model_or_data_is_refused_with_the_keys(self):
        out = self.stopped_run()
        _, output = runs.train(self.SPEC, out, ranks=2, expect=2,
                               options=LENGTH + ("train.seed=9",
                                                 "train.lr.base=0.2"))
        self.assertIn("train.seed", output)
        self.assertIn("train.lr.base", output)
        self.assertNotIn("train.global_batch:", output)
        # The run length may change.
        summary, _ = runs.train(self.SPEC, out, ranks=2,
                                options=LENGTH + ("train.steps=604",))
        self.assertEqual(summary["steps"], 604)

    def test_r9_log_and_metrics_go_on_in_the_same_files(self):
        out = self.stopped_run()
        with open(out + "/log.txt", encoding="utf-8") as file:
            before = file.read()
        lines = runs.metrics(out)
        with open(out + "/metrics.jsonl", "a", encoding="utf-8") as file:
            file.write('{"step": 99, "torn')
        self.finish(out, ranks=2)
        with open(out + "/log.txt", encoding="utf-8") as file:
            after = file.read()
        self.assertTrue(after.startswith(before.rsplit("\n", 1)[0]))
        self.assertEqual(runs.metrics(out)[:len(lines)], lines)
        starts = [m for m in runs.metrics(out) if m["split"] == "start"]
        self.assertEqual(len(starts), 2)

    def test_c4_signals_end_in_a_checkpoint_and_exit_75(self):
        # mpirun passes USR1 on to its ranks. A TERM it takes for itself and
        # exits with 1 whatever they say; batch scripts translate it.
        cases = [(0, signal.SIGTERM, False), (0, signal.SIGUSR1, False),
                 (0, signal.SIGINT, False), (0, signal.SIGHUP, False),
                 (2, signal.SIGUSR1, False),
                 (3, signal.SIGTERM, True)]
        for ranks, number, to_ranks in cases:
            with self.subTest(ranks=ranks, signal=number):
                out = self.out(f"signal-{ranks}-{number}")
                process = runs.start(self.SPEC, out, ranks=ranks,
                                     options=("train.steps=100000",))
                self.assertTrue(
                    runs.wait_for(lambda: self.whole_checkpoints(out)))
                if to_ranks:
                    for pid in runs.ranks_of(process):
                        os.kill(pid, number)
                else:
                    process.send_signal(number)
                output, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 75, output)
                summary = runs.summary(out)
                self.assertEqual(summary["stopped_by"], "signal")
                newest = self.whole_checkpoints(out)[-1]
                self.assertTrue(newest.endswith(f"-{summary['steps']}"))

    def test_max_time_ends_in_a_checkpoint_and_exit_75(self):
        out = self.out("timed")
        summary, _ = runs.train(
            self.SPEC, out, ranks=2, expect=75,
            options=("--max_time=2", "train.steps=10000000"))
        self.assertEqual(summary["stopped_by"], "max_time")
        # Two such stops are the same as one long run: see same_bits_test.

    def test_a_finished_run_says_so_and_changes_nothing(self):
        again, output = self.finish(self.whole_out, ranks=2)
        self.assertEqual(again["steps"], self.whole["steps"])
        self.assertEqual(again["test"], self.whole["test"])
        self.assertIn("finished", output)

    def test_resume_from_a_named_checkpoint_into_another_folder(self):
        out = self.stopped_run()
        older = self.whole_checkpoints(out)[1]
        summary, output = runs.train(
            self.SPEC, self.out("other"), ranks=3,
            options=LENGTH + (f"--resume={older}",))
        self.assertIn(f"from {older}", output)
        self.assertEqual(summary["state_hash"], self.whole["state_hash"])

    def test_resume_never_refuses_to_overwrite(self):
        _, output = runs.train(self.SPEC, self.whole_out, ranks=1, expect=2,
                               options=LENGTH + ("--resume=never",))
        self.assertIn("already holds", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
