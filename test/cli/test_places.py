#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where `kymo run` puts its segments: a run's name, the link to the latest.

usage: test_places.py KYMO HOST [unittest arguments]
HOST is run_host.c.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402

KYMO = HOST = ""
RUN = r"^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-[0-9a-f]{8}-\d+-\d+$"


class Places(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-places-"))
        self.traces = self.dir / "traces"

    def tearDown(self):
        shutil.rmtree(self.dir)

    def record(self):
        return subprocess.run([KYMO, "run", "-q", "--ring-dir", self.dir / "rings", "-o",
                               self.traces, "-s", "front", "--", HOST, "100"], check=True,
                              capture_output=True, text=True).stderr

    def events(self, path):
        """Of all processes: each has a line."""
        done = subprocess.run([KYMO, "info", "--json", path], check=True, capture_output=True)
        return sum(json.loads(line)["events"] for line in done.stdout.splitlines() if line)

    def test_latest_leads_to_a_run_that_is_read_once(self):
        self.record()
        (first,) = self.traces.glob("front/20*")
        self.record()
        one, two = sorted(self.traces.glob("front/20*"), key=lambda run: run != first)
        for run in (one, two):
            self.assertRegex(run.name, RUN)
        latest = self.traces / "front/latest"
        self.assertEqual(os.readlink(latest), two.name)
        self.assertEqual(self.events(latest), self.events(two))
        self.assertEqual(self.events(self.traces), self.events(one) + self.events(two))

    def test_a_foreign_latest_stays_and_is_said(self):
        mine = self.traces / "front/latest"
        mine.mkdir(parents=True)
        self.assertIn("what is called 'latest' beside", self.record())
        self.assertEqual(list(mine.iterdir()), [])


if __name__ == "__main__":
    KYMO, HOST = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest_tap.main(sys.argv[3:])
