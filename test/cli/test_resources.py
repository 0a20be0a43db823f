#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a program uses, as kymo sees it and as the program knows it.

usage: test_resources.py KYMO HOST [unittest arguments]
HOST is run_host.c.
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

KYMO = HOST = ""
MIB = 1 << 20
# Three quarters of it in one thread: longer than the time between two readings.
BURN = "burn=3200"


class Resources(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-resources-"))
        self.traces = self.dir / "traces"

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run_kymo(self, *args):
        """Returns what the program printed."""
        done = subprocess.run([KYMO, "run", "-q", "--ring-dir", self.dir / "rings", "-o",
                               self.traces, "--sample", "off", *args], check=True, timeout=120,
                              capture_output=True, text=True)
        return done.stdout

    def metadata(self):
        out = subprocess.run([KYMO, "info", "--json", self.traces], check=True,
                             capture_output=True).stdout
        return json.loads(out)["metadata"]

    def events(self, name):
        done = subprocess.run([KYMO, "events", "--type", name, "--format", "jsonl", self.traces],
                              check=False, capture_output=True)
        return [{"timestamp_ns": line["timestamp_ns"], **line["fields"]}
                for line in map(json.loads, done.stdout.splitlines())]

    def usage(self):
        """A kernel without accounting of input and output has it in part."""
        return self.events("ProcessResourceUsageEvent") or self.events("PartialResourceUsageEvent")

    def mean_cpu_permille(self):
        """From the first reading to the last."""
        rows = self.usage()
        cpu_ns = [row["user_cpu_ns"] + row["system_cpu_ns"] for row in rows]
        return 1000 * (cpu_ns[-1] - cpu_ns[0]) // (rows[-1]["timestamp_ns"] -
                                                   rows[0]["timestamp_ns"])

    def report(self):
        out = subprocess.run([KYMO, "report", "--json", self.traces], check=True,
                             capture_output=True).stdout
        return json.loads(out)["tables"]["resources"]

    def text(self):
        return subprocess.run([KYMO, "report", "--full", self.traces], check=True,
                              capture_output=True,
                              text=True).stdout

    def check_usage(self, known):
        rows = self.usage()
        last = rows[-1]
        self.assertGreaterEqual(len(rows), 3)
        self.assertEqual(last["open_fds"], known["fds"])
        self.assertGreaterEqual(last["max_rss_bytes"], 64 * MIB)
        # The kernel counts memory in batches of pages, per thread.
        self.assertLess(abs(last["max_rss_bytes"] - known["max_rss"]), 2 * MIB)
        self.assertLess(abs(last["minor_faults"] - known["minor"]), 2000)
        cpu_us = (last["user_cpu_ns"] + last["system_cpu_ns"]) / 1000
        self.assertLessEqual(cpu_us, known["cpu_us"] + 20_000)
        self.assertGreater(cpu_us, known["cpu_us"] / 2)
        self.assertLessEqual(last["voluntary_context_switches"] +
                             last["involuntary_context_switches"], known["switches"])

    def check_queue(self, port):
        queues = [one for one in self.events("TcpAcceptQueueEvent") if one["local_port"] == port]
        self.assertTrue(queues)
        self.assertEqual({one["local_addr"] for one in queues}, {"127.0.0.1"})
        self.assertEqual(max(one["pending_connections"] for one in queues), 6)
        self.assertEqual({one["backlog_limit"] for one in queues}, {5})
        self.assertEqual(len({one["socket_inode"] for one in queues}), 1)
        seen = self.report()
        (queue,) = [one for one in seen["accept_queues"] if one["port"] == port]
        self.assertEqual((queue["pending_max"], queue["limit"]), (6, 5))
        self.assertIn("accept_queue_full", seen["findings"])
        self.assertIn(f"! the accept queue of 127.0.0.1:{port} was full", self.text())

    def test_values_are_those_that_the_program_measures(self):
        out = self.run_kymo(HOST, "1000", "fds=100", "hold=64", "listen=5", BURN, "say").split()
        known = json.loads("".join(out[1:]))
        self.check_usage(known)
        self.check_queue(int(out[0]))
        seen = self.report()
        self.assertGreater(seen["rss_bytes"]["last"], 64 * MIB)
        mean = self.mean_cpu_permille()
        self.assertTrue(0 < mean <= seen["cpu_max_permille"], (mean, seen["cpu_max_permille"]))
        self.assertEqual(seen["open_fds"]["last"], known["fds"])
        self.assertEqual(self.metadata()["resources.interval_ns"], "1000000000")
        text = self.text()
        self.assertIn("Resources, ", text)
        self.assertIn("Descriptors", text)

    def test_flight_mode_has_the_time_before_in_its_cut(self):
        out = self.run_kymo("--mode", "flight", HOST, "1000", "fds=100", "hold=64", BURN, "say")
        self.check_usage(json.loads(out))

    def test_killed_program_leaves_its_readings(self):
        subprocess.run([KYMO, "run", "-q", "--ring-dir", self.dir / "rings", "-o", self.traces,
                        "--mode", "flight", "--sample", "off", HOST, "1000", "hold=64", BURN,
                        "signal=9"], check=False, timeout=120)
        self.assertEqual(self.metadata()["process.end"], "signal 9 (SIGKILL)")
        self.assertGreaterEqual(self.usage()[-1]["max_rss_bytes"], 64 * MIB)

    def test_off_is_off(self):
        self.run_kymo("--resources", "off", HOST, "1000", "burn=100")
        self.assertEqual(self.usage(), [])
        self.assertEqual([key for key in self.metadata() if key.startswith("resources.")], [])
        self.assertNotIn("Resources, ", self.text())

    def test_interval_is_an_option_and_a_setting_of_profiles(self):
        self.run_kymo("--resources", "1h", HOST, "1000", "burn=100")
        self.assertEqual(self.metadata()["resources.interval_ns"], "3600000000000")
        self.assertEqual(len(self.usage()), 1)
        shutil.rmtree(self.traces)
        profile = self.dir / "my.toml"
        profile.write_text("[resources]\ninterval = \"2s\"\n")
        self.run_kymo("--profile", profile, HOST, "1000", "burn=100")
        self.assertEqual(self.metadata()["resources.interval_ns"], "2000000000")

    def test_less_than_a_second_is_refused(self):
        done = subprocess.run([KYMO, "run", "--resources", "500ms", HOST, "1"], check=False,
                              capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--resources is a duration from 1s to 1h, or off, not '500ms'",
                      done.stderr)


if __name__ == "__main__":
    KYMO, HOST = sys.argv[1:3]
    unittest_tap.main(sys.argv[3:])
