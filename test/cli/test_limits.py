#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo where something is limited: how large files may grow, how many descriptors
there are, how many dumps an hour has.

usage: test_limits.py KYMO HOST [unittest arguments]
HOST is run_host.c.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

KYMO = HOST = ""
POLLS = 1000


def limit_files(pid):
    """From now on its files end at 2,000 bytes, and it gets SIGXFSZ."""
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (2000, hard))


class Limited(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-limits-"))
        self.rings, self.traces = self.dir / "rings", self.dir / "traces"
        self.started = []

    def tearDown(self):
        for name in ("go", "end"):  # what still waits for one of these ends now
            (self.dir / name).touch()
        for process in self.started:
            process.send_signal(signal.SIGCONT)
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

    def test_a_stream_at_the_limit_does_not_affect_the_program(self):
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

    def test_a_flight_whose_output_cannot_be_written_is_in_its_ring(self):
        ready, go = self.dir / "ready", self.dir / "go"
        process = self.start("--mode", "flight", HOST, str(POLLS), f"touch={ready}", f"wait={go}")
        wait_until(ready.exists)  # the place was checked by then
        self.traces.write_text("a file where a directory should be")
        go.touch()
        said = process.stderr.read().decode()
        self.assertEqual((process.wait(DEADLINE_S), said.count("\n")), (0, 2), said)
        (ring,) = self.rings.glob("*.ring")
        self.assertIn(f"{ring} stays: `kymo recover`", said)
        self.assertNotIn("nothing is recorded", said)
        subprocess.run([KYMO, "recover", "--ring-dir", self.rings, "-o", self.dir / "out"],
                       check=True, capture_output=True)
        self.assertEqual(self.polls(self.dir / "out"), POLLS)

    def test_a_failed_dump_is_reported_and_leaves_nothing(self):
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


class Descriptors(Limited):
    SCRIPT = "echo here; ulimit -Sn; exit 8"

    def run_with(self, soft, hard, *command):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return subprocess.run([KYMO, "run", "--ring-dir", self.rings, "-o", self.traces, *command],
                              preexec_fn=limit, capture_output=True, text=True, check=False,
                              timeout=DEADLINE_S)

    def test_where_none_is_left_the_command_takes_the_place_of_kymo(self):
        done = self.run_with(9, 9, "sh", "-c", self.SCRIPT)
        self.assertEqual((done.returncode, done.stdout), (8, "here\n9\n"))
        self.assertRegex(done.stderr, r"\A.*Too many open files.*CMD runs unrecorded.*\n\Z")
        self.assertEqual(self.run_with(9, 9, "/proc/nonexistent/program").returncode, 127)

    def test_where_none_is_left_for_the_ring_the_sentence_names_them(self):
        for limit in range(10, 17):
            done = self.run_with(limit, limit, HOST, str(POLLS))
            self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 1), done.stderr)
            self.assertRegex(done.stderr, "descriptors|Too many open files|nothing lost")

    def test_the_soft_limit_is_the_commands_alone(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        done = self.run_with(9, hard, "sh", "-c", self.SCRIPT)
        self.assertEqual((done.returncode, done.stdout), (8, "here\n9\n"))
        self.assertIn("does not use Tokio", done.stderr)
        done = self.run_with(9, hard, HOST, str(POLLS))
        self.assertIn("nothing lost", done.stderr)


class Dumps(Limited):
    def dumps(self):
        return list((self.dir / "traces.dumps").glob("*.zst"))

    def children(self, process):
        """At least one: CMD."""
        path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: path.read_text(encoding="ascii").split())
        return [int(pid) for pid in path.read_text(encoding="ascii").split()]

    def rules(self, path):
        """What a trace has of the rules, and the report's words for it."""
        info, report = (subprocess.run([KYMO, *command, path], check=True, capture_output=True,
                                       text=True).stdout
                        for command in (("info", "--json"), ("report",)))
        reply = {key: int(value) for key, value in json.loads(info)["metadata"].items()
                if key.startswith("rules.")}
        return reply, [line for line in report.splitlines() if line.startswith("Rules ")]

    def test_what_the_budget_holds_back_is_reported_at_once_and_at_the_end(self):
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
        reply, words = self.rules(self.traces)
        self.assertEqual(reply, {"rules.fired": 12, "rules.held_back": 3, "rules.untold": 3,
                                "rules.untold_over_budget": 3, "rules.undumped": 0})
        self.assertEqual(words, ["Rules     rules held 3 more times without a dump: held back by "
                                 "cooldown (0) and by the budget of dumps (3)"])

    def test_what_was_held_back_is_in_the_ring_when_all_are_killed(self):
        rules = ";".join(f"poll>50ms name=r{at} cooldown=0s" for at in range(14))
        process = self.start("--mode", "flight", "--trigger", rules, HOST, "100", "begin=7",
                             f"wait={self.dir / 'go'}")
        host, line = self.children(process)[0], ""
        while "in an hour" not in line:
            line = process.stderr.readline().decode()
            self.assertNotEqual(line, "")
        for pid in (process.pid, host):
            os.kill(pid, signal.SIGKILL)
        process.wait(DEADLINE_S)
        out = self.dir / "out"

        def is_recovered():  # those that make the dumps hold the ring, too
            subprocess.run([KYMO, "recover", "--ring-dir", self.rings, "-o", out], check=True,
                           capture_output=True)
            return out.exists() and list(out.iterdir())
        wait_until(is_recovered)
        reply, words = self.rules(out)
        self.assertEqual((reply["rules.fired"], reply["rules.untold_over_budget"], len(words)),
                         (12, 2, 1))

    def test_dumps_that_fail_are_not_tried_again_and_again(self):
        first, second = self.dir / "first", self.dir / "second"
        (self.dir / "file").touch()
        rules = ";".join(f"poll>50ms name=r{at} cooldown=0s" for at in range(3))
        process = self.start("--mode", "flight", "--dump-dir", self.dir / "file" / "dumps",
                             "--trigger", rules, HOST, "100", "begin=7", f"wait={first}", "end",
                             "begin=8", f"wait={second}")
        said = ""

        def read_until(text, count):
            nonlocal said
            while said.count(text) < count:
                line = process.stderr.readline().decode()
                self.assertNotEqual(line, "", said)
                said += line
        read_until("no dump: ", 3)
        wait_until(lambda: len(self.children(process)) == 1)  # kymo knows of it
        first.touch()
        read_until("for a minute firings are only counted", 1)
        second.touch()
        said += process.stderr.read().decode()
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(len(re.findall(r"r\d: \S+ m?s; no dump: \S+/file/dumps/\S+: Not a "
                                        r"directory", said)), 3, said)
        self.assertEqual(said.count("the last 3 dumps of process"), 1, said)
        reply, _ = self.rules(self.traces)
        self.assertEqual(reply, {"rules.fired": 3, "rules.held_back": 3, "rules.untold": 3,
                                "rules.untold_over_budget": 3, "rules.undumped": 3})

    def start_twelve(self):
        """Twelve dumps at once, of tens of milliseconds each. Returns kymo, and one that makes one
        of them: both stopped, so that neither it ends nor kymo asks what became of it."""
        rules = ";".join(f"poll>50ms name=r{at}" for at in range(12))
        process = self.start("--mode", "flight", "--ring-bytes", "64M", "--trigger", rules, HOST,
                             "400000", "begin=7", f"wait={self.dir / 'go'}")
        host, caught = self.children(process)[0], []

        def stop(pid):
            os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: self.stat(pid)[0] in "TZ")
            return self.stat(pid)[0] == "T"

        def has_caught():
            self.assertTrue(stop(process.pid))
            caught.extend(pid for pid in self.children(process)[-1:] if pid != host and stop(pid))
            if not caught:
                process.send_signal(signal.SIGCONT)
            return caught
        wait_until(has_caught)
        return process, caught[0]

    @staticmethod
    def stat(pid):
        """From its state on."""
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()

    def test_a_dump_runs_at_a_lower_priority_than_the_program(self):
        process, maker = self.start_twelve()
        os.kill(maker, signal.SIGCONT)
        wait_until(lambda: self.stat(maker)[0] == "Z")
        own = os.getpriority(os.PRIO_PROCESS, process.pid)
        self.assertEqual(int(self.stat(maker)[16]), min(own + 10, 19))
        process.send_signal(signal.SIGCONT)
        (self.dir / "go").touch()
        said = process.stderr.read().decode()
        self.assertEqual((process.wait(DEADLINE_S), said.count("; dump: ")), (0, 12), said)

    def test_a_dump_whose_maker_is_killed_is_reported(self):
        process, maker = self.start_twelve()
        os.kill(maker, signal.SIGKILL)
        process.send_signal(signal.SIGCONT)
        (self.dir / "go").touch()
        said = process.stderr.read().decode()
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertRegex(said, r"r\d+: \S+ m?s; no dump: signal 9 \(Killed\) ended the process")
        reply, words = self.rules(self.traces)
        self.assertEqual((reply["rules.fired"], reply["rules.undumped"]), (12, 1))
        self.assertEqual(words, ["Rules     1 firing without a dump: it could not be made"])


if __name__ == "__main__":
    KYMO, HOST = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest_tap.main(sys.argv[3:])
