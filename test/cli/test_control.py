#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo ps, status, set and mark on programs that record, hang, or are gone.

usage: test_control.py KYMO HOST [unittest arguments]
HOST is run_host.c.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

KYMO = HOST = ""
DEADLINE_S = 60


def wait_until(condition):
    """A condition, not a duration: the deadline only ends a hanging test."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the awaited state did not come")
        time.sleep(0.01)


class Control(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-control-"))
        self.rings = self.dir / "rings"
        self.rings.mkdir(mode=0o700)
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def kymo(self, command, *args):
        return subprocess.run([KYMO, command, "--ring-dir", self.rings, *args],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def json(self, command, *args):
        done = self.kymo(command, "--json", *args)
        self.assertEqual((done.stderr, done.returncode), ("", 0))
        return json.loads(done.stdout)

    def ps(self, *args):
        return self.json("ps", "-i", "0", *args)["rings"]

    def host(self, *actions, **variables):
        """Starts a host that has recorded 1,000 polls, takes the actions, then waits for a file
        `end`."""
        ready = self.dir / f"ready{len(self.started)}"
        process = subprocess.Popen([HOST, "1000", f"touch={ready}", *actions,
                                    f"wait={self.dir / 'end'}"],
                                   env={**os.environ, "KYMO_RING_DIR": str(self.rings),
                                        **variables})
        self.started.append(process)
        wait_until(ready.exists)
        return process

    def ring_of(self, process):
        return next(self.rings.glob(f"*-{process.pid}-*.ring"))

    def assert_one_sentence(self, done, *parts, code=1):
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1),
                         done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)


class Ps(Control):
    def test_nothing_recording_is_said_and_no_trouble(self):
        done = self.kymo("ps")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("nothing is recording", done.stderr)
        self.assertEqual(self.json("ps")["rings"], [])

    def test_a_recording_process_and_one_that_was_killed(self):
        alive, dead = self.host(KYMO_SERVICE="front"), self.host(KYMO_SERVICE="back")
        dead.kill()
        dead.wait()
        rings = {ring["pid"]: ring for ring in self.ps()}
        self.assertEqual({pid: (ring["service"], ring["state"]) for pid, ring in rings.items()},
                         {alive.pid: ("front", "alive"), dead.pid: ("back", "dead")})
        self.assertEqual(rings[alive.pid]["path"], str(self.ring_of(alive)))
        lines = self.kymo("ps", "-v", "-i", "0").stdout.splitlines()
        self.assertEqual(lines[0].split(), ["PID", "SERVICE", "MODE", "STATE", "AGE", "RING",
                                            "DROPPED", "PATH"])
        self.assertEqual({line.split()[0] for line in lines[1:]}, {str(alive.pid), str(dead.pid)})

    def test_a_stopped_process_is_alive(self):
        process = self.host()
        process.send_signal(signal.SIGSTOP)
        self.assertEqual([ring["state"] for ring in self.ps()], ["alive"])

    def test_rate_is_counted_over_the_interval(self):
        quiet, busy = self.host(), self.host("polls=1000000000000")
        found = self.json("ps", "-i", "50ms")
        self.assertEqual(found["interval_ns"], 50000000)
        rates = {ring["pid"]: ring["events_per_second"] for ring in found["rings"]}
        self.assertEqual(rates[quiet.pid], 0)
        self.assertGreater(rates[busy.pid], 0)
        self.assertEqual({ring["events_per_second"] for ring in self.ps()}, {None})
        self.assertIn("EVENTS/S in 50.0 ms", self.kymo("ps", "-i", "0.05").stdout)

    def test_wrong_usage(self):
        for wrong in (["-i", "soon"], ["-i", "2h"], ["1234"], ["--pid"]):
            self.assertEqual(self.kymo("ps", *wrong).returncode, 2)


def main():
    global KYMO, HOST
    KYMO, HOST = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])


if __name__ == "__main__":
    main()
