#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo where something is limited: how large files may grow, how many dumps an hour has.

usage: test_limits.py KYMO HOST [unittest arguments]
HOST is run_host.c.
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

KYMO = HOST = ""
POLLS = 1000
DEADLINE_S = 60


def wait_until(condition):
    """A condition, not a duration: the deadline only ends a hanging test."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the awaited state did not come")
        time.sleep(0.01)


def limit_files(pid):
    """From now on its files end at 2,000 bytes, and SIGXFSZ tells it so."""
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (2000, hard))


class Limited(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-limits-"))
        self.rings, self.traces = self.dir / "rings", self.dir / "traces"
        self.started = []

    def tearDown(self):
        for name in ("go", "end"):  # whoever still waits for one of these ends now
            (self.dir / name).touch()
        for process in self.started:
            process.communicate(timeout=DEADLINE_S)
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, *args):
        process = subprocess.Popen([KYMO, "run", "--ring-dir", self.rings, "-o", self.traces,
                                    *args], stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def polls(self, path):
        out = subprocess.run([KYMO, "info", "--json", path], check=True,
                             capture_output=True).stdout
        return next(t["count"] for t in json.loads(out)["types"] if t["name"] == "PollEndEvent")


class Files(Limited):
    def run_limited(self, mode, heard):
        ready, go, done, end = (self.dir / name for name in ("ready", "go", "done", "end"))
        process = self.start("--mode", mode, HOST, str(POLLS), f"touch={ready}", f"wait={go}",
                             "polls=50000", f"touch={done}", f"wait={end}")
        wait_until(ready.exists)
        limit_files(process.pid)
        go.touch()
        wait_until(done.exists)
        said = process.stderr.readline().decode() if heard else ""
        self.assertIn(heard, said)
        end.touch()
        said += process.stderr.read().decode()
        self.assertEqual(process.wait(DEADLINE_S), 0, said)
        self.assertIn("File too large", said)
        self.assertNotIn("nothing lost", said)
        self.assertNotIn("not recorded", said)
        return said

    def test_of_a_stream_the_program_hears_nothing(self):
        self.run_limited("stream", heard="File too large")
        self.assertEqual(list(self.rings.glob("*.ring")), [])

    def test_of_a_flight_that_cannot_be_written_the_ring_stays(self):
        said = self.run_limited("flight", heard="")
        (ring,) = self.rings.glob("*.ring")
        self.assertEqual(said.count(f"{ring} stays: `kymo recover`"), 1, said)
        subprocess.run([KYMO, "recover", "--ring-dir", self.rings, "-o", self.dir / "out"],
                       check=True, capture_output=True)
        self.assertEqual(self.polls(self.dir / "out"), POLLS + 50000)
        self.assertFalse(ring.exists())

    def test_a_dump_says_so_and_leaves_nothing(self):
        ready, end, out = (self.dir / name for name in ("ready", "end", "out"))
        out.mkdir()
        process = self.start("--mode", "flight", HOST, "50000", f"touch={ready}", f"wait={end}")
        wait_until(ready.exists)
        done = subprocess.run([KYMO, "dump", "--ring-dir", self.rings, "run_host", "-o", out],
                              preexec_fn=lambda: limit_files(0), capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(list(out.iterdir()), [])
        end.touch()
        self.assertEqual(process.wait(DEADLINE_S), 0)


class Dumps(Limited):
    def dumps(self):
        return list((self.dir / "traces.dumps").glob("*.zst"))

    def test_what_the_budget_holds_back_is_said_when_it_happens_and_at_the_end(self):
        rules = ";".join(f"poll>50ms name=r{at} cooldown=0s" for at in range(15))
        go = self.dir / "go"
        process = self.start("--mode", "flight", "--trigger", rules, HOST, "100", "begin=7",
                             f"wait={go}")
        lines = []
        while not lines or "in an hour" not in lines[-1]:
            lines.append(process.stderr.readline().decode())
            self.assertNotEqual(lines[-1], "", lines)
        self.assertIn("12 dumps, or 1024 MiB of them", lines[-1])
        go.touch()
        said = "".join(lines) + process.stderr.read().decode()
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual((said.count("dump: "), len(self.dumps()), said.count("in an hour")),
                         (12, 12, 1), said)
        self.assertIn("rules held 3 more times since the last dump, which cooldown (0) and the "
                      "budget of dumps (3) held back", said)

    def test_a_dump_whose_maker_is_killed_is_said(self):
        go = self.dir / "go"
        rules = ";".join(f"poll>50ms name=r{at}" for at in range(12))
        process = self.start("--mode", "flight", "--ring-bytes", "64M", "--trigger", rules, HOST,
                             "400000", "begin=7", f"wait={go}")
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: children.read_text(encoding="ascii").split())
        host = children.read_text(encoding="ascii").split()[0]

        maker = None
        while maker is None:  # twelve of them, tens of milliseconds each
            self.assertIsNone(process.poll())
            maker = next((pid for pid in children.read_text(encoding="ascii").split()
                          if pid != host), None)
        os.kill(int(maker), signal.SIGKILL)
        go.touch()
        said = process.stderr.read().decode()
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertRegex(said, r"r\d+: \S+ m?s; no dump: signal 9 \(Killed\) ended the process")


if __name__ == "__main__":
    KYMO, HOST = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
