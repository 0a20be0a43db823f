# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The process as a whole: stopped by a signal, by its CPU limit, and its end."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from faults import TIMEOUT_S, Faults, Paths, Recording, program

MS = 1_000_000
LOOK_MS = 50
CPU_GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")


class Process(Faults):
    def start(self, *command, env=None, **options):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        rings = folder / "rings"
        rings.mkdir(mode=0o700)
        words = [Paths.kymo(), *command[:1], "--ring-dir", rings, "-o", folder / "traces",
                 *command[1:]]
        child = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.PIPE, env=dict(os.environ, **(env or {})),
                                 **options)
        self.addCleanup(child.kill)
        return folder, child

    def finish(self, folder, child):
        out, said = child.communicate(timeout=TIMEOUT_S)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return Recording(folder, child.returncode, json.loads(lines[-1]) if lines else None, said)

    def expect_stop(self, run, unsure_ms):
        """The stop that the program saw, in the trace; and nothing of it is blamed."""
        report, said = run.report(), run.statement
        stop = report["stops"][0]
        self.assertEqual(len(report["stops"]), 1)
        self.assertLess(abs(stop["from_ns"] - said["stop_from_ns"]), unsure_ms * MS)
        self.assertLess(abs(stop["to_ns"] - said["stop_to_ns"]), unsure_ms * MS)
        worst = report["worst_polls"][0]
        self.assertEqual(worst["stopped_ns"], 0, "the poll of 500 ms")
        self.assertLess(worst["duration_ns"], 700 * MS + unsure_ms * MS)
        interrupted = next(one for one in report["worst_polls"] if one["stopped_ns"])
        self.assertGreater(interrupted["stopped_ns"], (700 - 2 * unsure_ms) * MS)
        self.assertLess(interrupted["cost"]["blocked_ns"], 2 * unsure_ms * MS)
        self.assertIn("! The process was stopped from +", run.report_text())
        return report

    def test_a_stop_of_cmd_is_told_with_its_signal(self):
        run = self.record("stopped")
        report = self.expect_stop(run, 100)
        self.assertEqual(report["stops"][0]["signal"], signal.SIGSTOP)
        self.assertEqual(report["stops"][0]["source"], "reported")
        self.assertEqual(report["stops"][0]["unsure_ns"], 0)
        self.assertEqual(report["exit"]["status"], 0)

    def test_a_stop_of_another_process_is_seen_within_two_looks(self):
        run = self.record(pathlib.Path("/bin/sh"), "-c", f"{program('stopped')}; true")
        report = self.expect_stop(run, LOOK_MS + 100)
        self.assertEqual(report["stops"][0]["source"], "checked")
        self.assertLess(report["stops"][0]["unsure_ns"], (2 * LOOK_MS + 200) * MS)

    def test_a_stop_with_kymo_is_bounded_by_its_silence(self):
        folder, child = self.start("run", "--", program("stopped"), "--seconds", 1,
                                   env={"STOP": "no"}, start_new_session=True)
        self.assertEqual(child.stdout.readline(), "stop me\n")
        time.sleep(0.1)
        os.killpg(child.pid, signal.SIGSTOP)
        time.sleep(0.7)
        os.killpg(child.pid, signal.SIGCONT)
        run = self.finish(folder, child)
        report = self.expect_stop(run, LOOK_MS + 100)
        self.assertEqual(report["stops"][0]["source"], "with_kymo")

    def test_the_end_by_a_signal_is_told(self):
        folder, child = self.start("run", "--", program("ticks"), "--seconds", 30)
        time.sleep(0.7)
        os.kill(child.pid, signal.SIGTERM)
        run = self.finish(folder, child)
        self.assertEqual(run.report()["exit"]["signal"], signal.SIGTERM)
        self.assertIsNone(run.report()["exit"]["status"])

    @unittest.skipUnless(os.access(CPU_GROUPS, os.W_OK), "no cgroup of version 1 can be made here")
    def test_the_time_that_a_cpu_limit_takes_has_its_interval(self):
        group = CPU_GROUPS / f"kymo-faults-{os.getpid()}"
        group.mkdir()
        self.addCleanup(group.rmdir)
        (group / "cpu.cfs_quota_us").write_text("20000")
        (group / "cpu.cfs_period_us").write_text("100000")
        script = f"echo $$ > {group}/cgroup.procs; exec {program('stopped')}"
        run = self.record(pathlib.Path("/bin/sh"), "-c", script)
        counted = [line.split() for line in (group / "cpu.stat").read_text().splitlines()]
        counted_ns = int(dict(counted)["throttled_time"])
        told = run.report()["throttled"]
        # The program is throttled before its first reading and after its last one, too.
        self.assertLessEqual(sum(one["throttled_ns"] for one in told), counted_ns)
        self.assertGreater(sum(one["throttled_ns"] for one in told), counted_ns / 2)
        for one in told:
            self.assertLessEqual(one["throttled_ns"],
                                 (one["to_ns"] - one["from_ns"]) * os.cpu_count())
        self.assertIn("! The CPU limit of its cgroup stopped its threads", run.report_text())
