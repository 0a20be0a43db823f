#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo run --profile: what is held back is counted, and nothing is missing from the figures.

usage: test_profile.py KYMO HOST [unittest arguments]
HOST is run_host.c, whose number of polls is the witness.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402

KYMO = HOST = ""
POLLS = 5000
DEADLINE_S = 60


class Profile(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-profile-"))
        self.traces = self.dir / "traces"

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run_kymo(self, profile, *host):
        return subprocess.run([KYMO, "run", "--ring-dir", self.dir / "rings", "-o", self.traces,
                               "--profile", profile, "--", HOST, *host], timeout=DEADLINE_S,
                              check=False, capture_output=True, text=True)

    def write(self, text):
        path = self.dir / "my.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def json(self, command):
        return json.loads(subprocess.run([KYMO, command, "--json", self.traces], check=True,
                                         capture_output=True).stdout)

    def check_counts(self, profile, *, is_held_back):
        done = self.run_kymo(profile, str(POLLS), "paced=5000", "return")
        self.assertEqual(done.returncode, 0, done.stderr)
        info, report = self.json("info"), self.json("report")["tables"]
        self.assertEqual(report["polls"]["count"], 2 * POLLS)
        self.assertEqual(info["polls"] + info["polls_counted"], 2 * POLLS)
        self.assertEqual(info["lost_records"], 0)
        self.assertEqual(sum(worker["polls"] for worker in report["workers"]), 2 * POLLS)
        self.assertEqual(sum(group["polls"] for group in report["tasks"]), 2 * POLLS)
        busy = sum(worker["busy_ns"] for worker in report["workers"])
        self.assertEqual(busy, report["polls"]["total_ns"])
        self.assertEqual(bool(report["retention"]), is_held_back)
        return report

    def test_every_poll_is_in_the_figures_of_the_profile(self):
        report = self.check_counts("profile", is_held_back=True)
        self.assertGreater(report["polls_counted"], 0)
        text = subprocess.run([KYMO, "report", "--full", self.traces], check=True,
                              capture_output=True,
                              text=True).stdout
        self.assertIn("in histograms only (below 1.00 ms", text)

    def test_default_and_everything_hold_nothing_back(self):
        for name in ("default", "everything"):
            report = self.check_counts(name, is_held_back=False)
            self.assertEqual(report["polls_counted"], 0)
            shutil.rmtree(self.traces)

    def test_a_file_of_ones_own(self):
        report = self.check_counts(self.write('[events]\npoll.throttle = 10\n'), is_held_back=True)
        self.assertGreater(report["polls_counted"], 0)

    def test_a_kind_is_shut_from_the_first_event_on(self):
        """All that the host emits before any other process could have shut the gate."""
        done = self.run_kymo(self.write("[events]\npoll.enabled = false\n"), str(POLLS), "return")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(self.json("info")["polls"], 1)

    def test_a_process_that_runs_takes_one_too(self):
        running = subprocess.Popen(
            [KYMO, "run", "-q", "--ring-dir", self.dir / "rings", "-o", self.traces, "--", HOST,
             str(POLLS), f"touch={self.dir}/begun", f"wait={self.dir}/go", "paced=5000", "return"])
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not (self.dir / "begun").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            done = subprocess.run([KYMO, "set", "--ring-dir", self.dir / "rings", "run_host",
                                   "--profile", "profile"], check=False, capture_output=True,
                                  text=True)
        finally:
            (self.dir / "go").touch()
            running.wait(DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("poll.threshold: default -> 1ms", done.stdout)
        info, report = self.json("info"), self.json("report")["tables"]
        self.assertEqual(report["polls"]["count"], 2 * POLLS)
        self.assertEqual(info["polls"] + info["polls_counted"], 2 * POLLS)
        self.assertIn("poll", {entry["kind"] for entry in report["retention"]})

    def test_its_rules_are_watched(self):
        path = self.write('triggers = ["poll>1ms"]\n')
        running = subprocess.Popen(
            [KYMO, "run", "--mode", "flight", "--ring-dir", self.dir / "rings", "-o", self.traces,
             "--profile", path, "--", HOST, "100", "begin=7", f"wait={self.dir}/go", "return"],
            stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not list(self.dir.rglob("traces.dumps/*.trc*")) and time.monotonic() < deadline:
                time.sleep(0.01)
            dumps = list(self.dir.rglob("traces.dumps/*.trc*"))
        finally:
            (self.dir / "go").touch()
            running.wait(DEADLINE_S)
        self.assertTrue(dumps, "the poll stayed open, and nothing was dumped")

    def test_a_wrong_profile_is_refused_before_the_program_starts(self):
        path = self.write("[events.poll]\ntreshold = 5\n")
        done = self.run_kymo(path, "1", f"touch={self.dir}/ran")
        self.assertEqual(done.returncode, 125)
        self.assertIn(f"{path}:2: events.poll.treshold: there is no such key", done.stderr)
        self.assertFalse((self.dir / "ran").exists())
        done = self.run_kymo("fast", "1")
        self.assertEqual(done.returncode, 125)
        self.assertIn("default, everything, profile", done.stderr)


if __name__ == "__main__":
    KYMO, HOST = sys.argv[1:3]
    unittest_tap.main(sys.argv[3:])
