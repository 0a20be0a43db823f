#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo run --sample: when nothing is sampled. How much is: test_sample_shares.py.

usage: test_sample.py KYMO HOST DENY [unittest arguments]
HOST is run_host.c, DENY deny_calls.c.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402

KYMO = HOST = DENY = ""


class SampleCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-sample-"))
        self.traces = self.dir / "traces"

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run_kymo(self, *args, deny=(), **options):
        before = [DENY, *deny, "--"] if deny else []
        return subprocess.run([*before, KYMO, "run", "-q", "--ring-dir", self.dir / "rings", "-o",
                               self.traces, *args], check=True, timeout=120, **options)

    def metadata(self):
        out = subprocess.run([KYMO, "info", "--json", self.traces], check=True,
                             capture_output=True).stdout
        return json.loads(out)["metadata"]

    def samples(self):
        """Of the trace; events exits with 1 where there are none."""
        done = subprocess.run([KYMO, "events", "--type", "CpuSampleEvent", "--format", "jsonl",
                               self.traces], check=False, capture_output=True)
        return [json.loads(line)["fields"] for line in done.stdout.splitlines()]


class Sampling(SampleCase):
    def test_off_is_off(self):
        self.run_kymo("--sample", "off", HOST, "10", "burn=300")
        self.assertEqual(self.metadata()["sampling.cpu"], "off")
        self.assertEqual(self.samples(), [])

    def test_perf_alone_takes_no_signal(self):
        done = self.run_kymo("--sampler", "perf", HOST, "10", "burn=300", "handler",
                             deny=["perf"], capture_output=True)
        metadata = self.metadata()
        self.assertEqual(metadata["sampling.cpu"], "none")
        self.assertEqual(metadata["sampling.cpu.refused"], "perf_event: Operation not permitted")
        self.assertEqual(self.samples(), [])
        self.assertEqual(done.stdout, b"no handler\n")

    def test_host_with_a_handler_for_sigprof_is_left_alone(self):
        done = self.run_kymo(HOST, "10", "prof", "burn=300", "profs", deny=["perf"],
                             capture_output=True)
        self.assertEqual(done.stdout, b"0\n")
        self.assertEqual(self.metadata()["sampling.cpu"], "none")
        self.assertIn("timers: Device or resource busy", self.metadata()["sampling.cpu.refused"])
        self.assertEqual(self.samples(), [])

    def test_no_sampler_runs_where_everything_is_refused(self):
        self.run_kymo(HOST, "10", "burn=200", deny=["perf", "timer"])
        metadata = self.metadata()
        self.assertEqual(metadata["sampling.cpu"], "none")
        self.assertEqual(metadata["sampling.cpu.refused"], "perf_event: Operation not permitted; "
                         "timers: Operation not permitted")
        self.assertEqual(self.samples(), [])

    def test_invalid_values_are_refused(self):
        for value in ("0", "-1", "1001", "fast", ""):
            done = subprocess.run([KYMO, "run", "--sample", value, "true"], check=False,
                                  capture_output=True)
            self.assertEqual(done.returncode, 125)
            self.assertIn(b"--sample is samples a second, 1 to 1000, or off", done.stderr)


if __name__ == "__main__":
    KYMO, HOST, DENY = sys.argv[1:4]
    unittest_tap.main(sys.argv[4:])
