#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo run --sample: what is sampled, by whom, and when not.

usage: test_sample.py KYMO HOST [unittest arguments]
HOST is run_host.c; its action burn=MS burns three quarters in one thread and a quarter in another.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

KYMO = HOST = ""


class Sampling(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-sample-"))
        self.traces = self.dir / "traces"

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run_kymo(self, *args, **options):
        return subprocess.run([KYMO, "run", "-q", "--ring-dir", self.dir / "rings", "-o",
                               self.traces, *args], check=True, timeout=120, **options)

    def metadata(self):
        out = subprocess.run([KYMO, "info", "--json", self.traces], check=True,
                             capture_output=True).stdout
        return json.loads(out)["metadata"]

    def samples(self):
        """Of the trace; events exits with 1 where there are none."""
        done = subprocess.run([KYMO, "events", "--type", "CpuSampleEvent", "--format", "json",
                               self.traces], check=False, capture_output=True)
        return [json.loads(line)["fields"] for line in done.stdout.splitlines()]

    def check_shares(self, samples, cpu_ns):
        weights = {}
        for sample in samples:
            weights[sample["tid"]] = weights.get(sample["tid"], 0) + sample["weight_ns"]
        share = max(weights.values()) / sum(weights.values())
        # The 95 % interval of n independent samples; ours come at even distances, which is better.
        self.assertLess(abs(share - 0.75), 1.96 * (0.75 * 0.25 / len(samples)) ** 0.5)
        self.assertGreater(sum(weights.values()), cpu_ns * 0.8)
        self.assertLess(sum(weights.values()), cpu_ns * 1.2)

    def test_weights_are_the_shares_of_the_threads(self):
        self.run_kymo(HOST, "10", "burn=2000")
        metadata = self.metadata()
        self.assertIn(metadata["sampling.cpu"], ("perf_event", "timers"))
        self.assertEqual(metadata["sampling.cpu.rate_hz"], "99")
        self.check_shares(self.samples(), 2_000_000_000)

    def test_off_is_off(self):
        self.run_kymo("--sample", "off", HOST, "10", "burn=300")
        self.assertEqual(self.metadata()["sampling.cpu"], "off")
        self.assertEqual(self.samples(), [])

    def test_flight_mode_has_samples_in_its_dump(self):
        self.run_kymo("--mode", "flight", HOST, "10", "burn=1000")
        self.check_shares(self.samples(), 1_000_000_000)

    def test_every_image_of_a_process_that_calls_exec_is_sampled(self):
        self.run_kymo(HOST, "10", "burn=400", "exec=10", "burn=400")
        self.assertEqual(len(list(self.traces.glob("*/*/.kymo-run"))), 1)
        self.assertGreater(len(self.samples()), 20)

    def test_nonsense_is_refused(self):
        for value in ("0", "-1", "1001", "fast", ""):
            done = subprocess.run([KYMO, "run", "--sample", value, "true"], check=False,
                                  capture_output=True)
            self.assertEqual(done.returncode, 125)
            self.assertIn(b"--sample: expected samples a second, 1 to 1000, or off", done.stderr)


if __name__ == "__main__":
    KYMO, HOST = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
