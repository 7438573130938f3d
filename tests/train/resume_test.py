# SPDX-License-Identifier: Apache-2.0
"""Resume, as users of other systems saw it fail (rows R1 to R9 and C4)."""
import os
import shutil
import signal
import subprocess
import unittest

import lumen_runs as runs


class Resume(runs.RunTest):

    def setUp(self):
        super().setUp()
        self.whole, _ = runs.train(self.SPEC, self.out("whole"), ranks=0)

    def stopped_run(self, steps=20, name="run", ranks=2):
        """A finished run of `steps` steps with the full run's schedule cannot
        exist (the cosine knows its end), so runs are stopped by a signal."""
        out = self.out(name)
        process = runs.start(self.SPEC, out, ranks=ranks,
                             options=("train.log_every=1",))
        reached = runs.wait_for(lambda: any(
            int(c.split("-")[-1]) >= min(steps, 12)
            for c in runs.checkpoints(out)
            if os.path.exists(c + "/MANIFEST.json")))
        self.assertTrue(reached)
        runs.kill_group(process)
        return out

    def whole_checkpoints(self, out):
        return [c for c in runs.checkpoints(out)
                if os.path.exists(c + "/MANIFEST.json")]

    def finish(self, out, **kwargs):
        summary, output = runs.train(self.SPEC, out, **kwargs)
        self.assertEqual(summary["state_hash"], self.whole["state_hash"])
        return summary, output

    def test_r1_r2_r3_equal_step_by_step_on_another_rank_count(self):
        out = self.stopped_run()
        summary, output = self.finish(out, ranks=3)
        self.assertIn("resume: step", output)
        self.assertIsNotNone(summary["resumed_from"])
        self.assertEqual(runs.surviving(out),
                         runs.surviving(self.out("whole")))

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
        step = int(newest.split("-")[-1]) + 100
        unfinished = os.path.join(out, "checkpoints", f"step-{step}")
        os.mkdir(unfinished)
        shutil.copy(newest + "/model.h5", unfinished + "/model.h5.tmp")
        _, output = self.finish(out, ranks=1)
        self.assertIn("never finished", output)
        self.assertFalse(os.path.exists(unfinished))

    def test_r6_a_full_disk_keeps_the_old_checkpoint(self):
        disk = os.path.join(self.folder.name, "disk")
        os.mkdir(disk)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk],
            capture_output=True, check=False)
        if mounted.returncode:
            self.skipTest("mounting a small tmpfs is not permitted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        out = os.path.join(disk, "run")
        process = runs.start(self.SPEC, out, ranks=2)
        self.assertTrue(runs.wait_for(lambda: self.whole_checkpoints(out)))
        runs.kill_group(process)
        before = self.whole_checkpoints(out)
        free = os.statvfs(disk)
        with open(disk + "/filler", "wb") as file:
            try:
                file.write(b"x" * (free.f_bavail * free.f_bsize - 8192))
            except OSError:
                pass
        done = subprocess.run(
            runs.command(self.SPEC, out, ranks=2), stdout=subprocess.PIPE,
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
        third = whole[-3] if len(whole) > 2 else None
        if third is None:
            with self.assertRaises(AssertionError) as raised:
                runs.train(self.SPEC, out, ranks=2)
            self.assertIn("none of its", str(raised.exception))
            return
        _, output = self.finish(out, ranks=2)
        self.assertIn("model.h5: digest", output)
        self.assertIn("shard-3.h5", output)
        self.assertIn(f"from {third}", output)

    def test_r8_another_model_or_data_is_refused_with_the_keys(self):
        out = self.stopped_run()
        _, output = runs.train(self.SPEC, out, ranks=2, expect=2,
                               options=("train.seed=9", "train.lr.base=0.2"))
        self.assertIn("train.seed", output)
        self.assertIn("train.lr.base", output)
        self.assertNotIn("train.global_batch", output)
        # The run length may change.
        summary, _ = runs.train(self.SPEC, out, ranks=2,
                                options=("train.steps=44",))
        self.assertEqual(summary["steps"], 44)

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
        for number in (signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(signal=number):
                out = self.out(f"signal-{number}")
                process = runs.start(self.SPEC, out, ranks=2,
                                     options=("train.steps=100000",))
                self.assertTrue(
                    runs.wait_for(lambda: self.whole_checkpoints(out)))
                # mpirun passes both on to its ranks.
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
        again, output = self.finish(self.out("whole"), ranks=2)
        self.assertEqual(again["steps"], self.whole["steps"])
        self.assertEqual(again["test"], self.whole["test"])
        self.assertIn("finished", output)

    def test_resume_never_refuses_to_overwrite(self):
        _, output = runs.train(self.SPEC, self.out("whole"), ranks=1, expect=2,
                               options=("--resume=never",))
        self.assertIn("already holds", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
