# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the process used: readings while its events take every CPU."""
import os
import subprocess
import unittest

from faults import Faults, Paths, program

MIB = 1 << 20
RUN_S = 4


class Readings(Faults):
    def storm(self):
        return self.record("storm", "--seconds", RUN_S, options=("--ring-bytes", "64M"))

    def test_readings_of_a_program_that_takes_all_cpus(self):
        run = self.storm()
        use, said = run.report()["resources"], run.statement
        self.assertGreaterEqual(use["looks"], RUN_S + 1, "a first one, one a second, a last one")
        cpu_ns = use["user_cpu_ns"] + use["system_cpu_ns"]
        self.assertAlmostEqual(cpu_ns / said["cpu_ns"], 1, delta=0.1)
        self.assertLess(abs(use["rss_bytes"]["max"] - said["resident_bytes"]), 4 * MIB)
        self.assertLess(use["max_rss_bytes"]["last"], said["resident_bytes"] + 8 * MIB)
        self.assertEqual(use["fd_limit"], said["fd_limit"])


class Room(Faults):
    """After a loss `kymo run` advises what would have helped."""

    def lost(self, *options):
        words = [Paths.kymo(), "run", *options, "-o", self.dir / "traces", "--", program("storm"),
                 "--seconds", 1]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
        self.assertIn(" records lost", done.stderr)
        return done.stderr

    def test_a_small_ring_could_be_larger(self):
        rings = self.dir / "rings"
        rings.mkdir(mode=0o700)
        self.assertIn("(--ring-bytes gives more room)",
                      self.lost("--ring-bytes", "1M", "--ring-dir", rings))

    @unittest.skipUnless(os.geteuid() == 0, "only root may mount")
    def test_a_full_place_needs_another_one(self):
        place = self.dir / "small"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "kymo-test", place],
                          check=False, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        (place / "rings").mkdir(mode=0o700)
        self.assertIn("rings has no room for a larger ring: --ring-dir takes another place",
                      self.lost("--ring-dir", place / "rings"))
