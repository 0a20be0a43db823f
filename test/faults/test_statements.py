# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Statements of `report` and `info` that hold: nothing open that has ended, no loss concealed."""
import json
import shutil
import subprocess
import unittest

from faults import TIMEOUT_S, Faults, Paths, program
import unittest_tap

MS = 1_000_000


class Statements(Faults):
    def test_closures_and_inner_polls_end(self):
        run = self.record("blocking_runs", "--seconds", 1)
        report, info = run.report(), run.info()
        self.assertGreater(info["files"][0]["streams"], 2)
        # A chunk that begins while closures run says so.
        listed = {fields["worker_id"] for _, _, fields in run.events("OpenPollEvent")}
        self.assertIn(254, listed)
        self.assertEqual(info["open_polls"], 0)
        self.assertNotIn(254, [worker["id"] for worker in report["workers"]])
        self.assertNotIn(255, [worker["id"] for worker in report["workers"]])
        for poll in report["worst_polls"]:
            self.assertNotIn(poll["worker"], (254, 255))
            self.assertNotIn("Launch::launch", poll["name"] or "")
            self.assertFalse(poll["open"])
        runs = [row for row in report["blocking_runs"] if "Launch::launch" not in row["name"]]
        self.assertEqual(sum(row["runs"] for row in runs), run.statement["runs"])
        longest = max(row["run_max_ns"] for row in runs if "nest" not in row["name"])
        self.assertLess(longest, run.statement["longest_run_ns"] + 20 * MS)

    def test_lost_samples_are_said_everywhere(self):
        """Every allocation is sampled, and the area holds few: most are overwritten."""
        run = self.record("blocking_runs", "--seconds", 1,
                          options=("--alloc=1K", "--sample-bytes=64K"))
        lost = run.info()["lost_samples"]["all"]
        self.assertGreater(lost, 0)
        self.assertEqual(run.report()["lost_samples"]["all"], lost)
        self.assertNotIn("nothing lost", run.said)
        self.assertIn(f"{lost} samples lost", run.said)
        self.assertIn(f"{lost:,} sample", run.kymo("info", run.trace))
        self.assertIn(f"{lost:,} SAMPLES LOST", run.report_text())

    def test_tasks_stand_as_before_the_shutdown(self):
        run = self.record("stands_still", "--seconds", 1)
        report, said = run.report(), run.statement
        self.assertLess(abs(report["shutdown_ns"] - said["shutdown_ns"]), 50 * MS)
        group = [one for one in report["tasks"] if "wait_for_word" in (one["name"] or "")][0]
        self.assertEqual(group["not_ended"], said["waiting"])
        text = run.report_text()
        self.assertIn("just before the shutdown", text)
        self.assertNotIn("none does at the end", text)

    def test_a_dump_of_a_stuck_poll_ends_at_its_own_time(self):
        run = self.record("stands_still", "--seconds", 1,
                          options=("--mode=flight", "--trigger=poll>100ms"))
        dumps = sorted(run.folder.rglob("*.dumps/*.zst"))
        self.assertTrue(dumps, sorted(run.folder.rglob("*")))
        report = json.loads(run.kymo("report", "--json", dumps[0]))["tables"]
        worst = report["worst_polls"][0]
        self.assertTrue(worst["open"])
        self.assertIn("block", worst["name"])
        self.assertGreaterEqual(worst["duration_ns"], 100 * MS)
        self.assertLessEqual(worst["duration_ns"], run.statement["blocked_ns"] + 20 * MS)

    def folded(self, path):
        """Tasks of two types whose code is one: no name but "A or B", and their number right."""
        report = self.record(path, "--seconds", 1).report()
        names = {one["name"]: one["tasks"] for one in report["tasks"] if one["tasks"]}
        ours = {name: count for name, count in names.items() if name and "folded::" in name}
        self.assertEqual(sum(ours.values()), 8, names)
        for name, count in ours.items():
            if " or " not in name:
                self.assertEqual(count, 3 if "three" in name else 5, names)

    def test_folded_code_names_no_single_type(self):
        self.folded(program("folded"))

    @unittest.skipUnless(shutil.which("ld.lld"), "no linker that folds code")
    def test_code_that_the_linker_folds_names_no_single_type(self):
        self.folded(program("folded", config=('lto="fat"', "codegen-units=1"),
                            flags=("-Clink-arg=-fuse-ld=lld", "-Clink-arg=-Wl,--icf=all")))


class Lost(Faults):
    def status(self, rings):
        done = subprocess.run([Paths.kymo(), "ps", "--json", "--ring-dir", rings], text=True,
                              capture_output=True, timeout=TIMEOUT_S, check=False)
        return json.loads(done.stdout)["rings"] if done.returncode == 0 else []

    def test_the_last_line_of_attach_counts_samples(self):
        """It takes the ring over from a `kymo run` that was killed; every allocation is sampled,
        and the area holds few."""
        rings = self.dir / "rings"
        rings.mkdir(mode=0o700)
        words = [Paths.kymo(), "run", "--alloc=1K", "--sample-bytes=64K", "--ring-dir", rings,
                 "-o", self.dir / "traces", "--", program("blocking_runs"), "--seconds", 3]
        run = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        unittest_tap.wait_until(lambda: self.status(rings))
        pid = self.status(rings)[0]["pid"]
        run.kill()
        run.wait()
        done = subprocess.run([Paths.kymo(), "attach", "--mode=stream", "--ring-dir", rings, "-o",
                               self.dir / "traces", str(pid)], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout.splitlines()[-1], r"^trace: .*, [0-9]+ samples lost\)$")
