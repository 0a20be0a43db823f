# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the cases of journey.py have in common: the program that they record, and where."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "tokio"), str(ROOT / "tools")]
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

SOURCE = HERE / "tokio/src/bin/journey.rs"
SERVICE = f"journey{os.getpid()}"  # no other test's


class Paths:
    build = kymo = program = None


def line_of(mark):
    """Number of the line of the witness that says so."""
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"// the line that {mark}")]
    return number


def is_at(frame, function, mark):
    """Does a frame of a report name this function, its file and the marked line?"""
    return (frame["function"].startswith(function) and frame.get("file", "").endswith(SOURCE.name)
            and frame.get("line") == line_of(mark))


def count_of(info, event):
    return sum(one["count"] for one in info["types"] if one["name"] == event)


def state_of(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return text.rsplit(")", 1)[1].split()[0]


class Witness:
    """The program under `kymo run`, or alone where there are no options."""

    def __init__(self, place, *options):
        self.errors = place.dir / f"errors{len(place.started)}"
        command = [str(place.program)]
        if options:
            command = [str(Paths.kymo), "run", *map(str, options), "--", *command]
        with self.errors.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors, text=True, env=place.environment)
        place.started.append(self)
        self.pid = int(self.answer("journey")[0])
        self.polls = 0

    def answer(self, word):
        words = self.process.stdout.readline().split()
        if words[:1] != [word]:
            raise RuntimeError(f"the witness said {words} for {word}: {self.said()}")
        return words[1:]

    def do(self, command, *numbers):
        """Returns what the answer says: the id of a task, a port."""
        self.process.stdin.write(" ".join(map(str, (command, *numbers))) + "\n")
        self.process.stdin.flush()
        if command not in ("polls", "leak", "rest", "finish"):
            return next(iter(self.answer(command)), None)
        self.polls = int(self.answer("done")[0])
        return self.polls

    def end(self):
        """Its exit status and how many polls it counted."""
        self.process.stdin.close()
        self.polls = int(self.answer("done")[0])
        return self.process.wait(DEADLINE_S)

    def said(self):
        """By kymo, for the witness itself says nothing there."""
        return self.errors.read_text(encoding="utf-8")

    def kill(self):
        for pid in (self.pid, self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def clean(self):
        if self.process.poll() is None:
            self.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Place:
    """A folder with rings and traces of its own, and what was started there."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-journey-"))
        self.rings = self.dir / "rings"
        self.rings.mkdir(mode=0o700)
        self.environment = {**os.environ, "KYMO_RING_DIR": str(self.rings)}
        self.started = []
        self.program = self.dir / SERVICE
        shutil.copy(Paths.program, self.program)

    def clean(self):
        for one in self.started:
            one.clean()
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, *words, **options):
        return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              errors="replace", timeout=DEADLINE_S, env=self.environment,
                              cwd=self.dir, check=False, stdin=subprocess.DEVNULL, **options)

    def kymo(self, *words):
        """What it prints when all is well."""
        done = self.run(Paths.kymo, *words)
        if done.returncode or done.stderr:
            raise AssertionError(f"{words}: {done.returncode}, {done.stderr}")
        return done.stdout

    def json(self, command, *words):
        return json.loads(self.kymo(command, "--json", *words))

    def streamed(self, traces):
        """Polls that are in the files of a stream, which may have none yet."""
        done = self.run(Paths.kymo, "info", "--json", traces)
        return json.loads(done.stdout)["polls"] if done.returncode == 0 else 0

    def rings_of(self, *words):
        """State of each ring here, by pid."""
        reply = self.json("ps", "-i", "0", "--ring-dir", self.rings, *words)
        return {ring["pid"]: ring["state"] for ring in reply["rings"]}

    def doctor(self, *program):
        """State of each check. That one of them is limited is no trouble."""
        done = self.run(Paths.kymo, "doctor", "--json", *program)
        return {one["name"]: one["state"] for one in json.loads(done.stdout)["checks"]}

    def open_polls(self, witness):
        return self.json("status", witness.pid)["open_polls"]

    def hang(self, witness):
        """Returns the task; its poll is the only one that is open."""
        task = int(witness.do("hang"))
        wait_until(lambda: [poll["task"] for poll in self.open_polls(witness)] == [task])
        return task

    def hang_longest(self, witness):
        """On both workers, so that a woken task waits after them: longer than anything before.
        Returns the two tasks."""
        before = self.dump(witness, "before")
        longest = max(before["polls"]["max_ns"], before["delays"]["max_ns"])
        first, second = (int(witness.do("hang")) for _ in range(2))
        witness.do("wake")
        woken_at = self.open_ns(witness, second)
        wait_until(lambda: self.open_ns(witness, second) > woken_at + 2 * longest)
        return {first, second}

    def open_ns(self, witness, task):
        """How long a poll has been open that hangs."""
        return next(poll["open_ns"] for poll in self.open_polls(witness) if poll["task"] == task)

    def dump(self, witness, name):
        """The report of all that the ring holds."""
        self.kymo("dump", witness.pid, "-o", self.dir / f"{name}.trc.zst")
        return self.json("report", self.dir / f"{name}.trc.zst")["tables"]


class Case(unittest.TestCase):
    """Begins in a place of its own."""

    def setUp(self):
        self.at = Place()

    def tearDown(self):
        self.at.clean()

    def assert_one_sentence(self, done, code, *parts):
        """Of wrong usage a second line points to the help."""
        lines = [line for line in done.stderr.splitlines() if not line.startswith("Try `kymo ")]
        self.assertEqual((done.returncode, done.stdout, len(lines)), (code, "", 1), done.stderr)
        self.assertTrue(lines[0].startswith("kymo"), done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
