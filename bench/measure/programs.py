# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Running what is measured: programs, their CPU time and memory, the check of a trace."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RETRIES = 2
SKIPPED = 77  # exit status of a program that this machine refuses what it measures
LIMIT_S = 120


class Broken(Exception):
    """A measurement that gave no result; the text says which and why."""


class Lost(Broken):
    """Records were lost: the run may be tried again."""


class Context:
    """Where the programs are and how often to run them."""

    def __init__(self, build, cargo, rounds, progress, seed=0, against=None):
        self.build, self.cargo, self.rounds = build, cargo, rounds
        self.seed, self.against = seed, against  # of random orders; another build's directory
        self.kymo = build / "kymo"
        self.progress = progress
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="kymo-bench-"))
        self.figures = {}  # what one area leaves for the next: ns of an event, of the counter

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def program(self, area, name=None):
        path = self.build / "bench" / area / f"bench_{name or area}"
        if not path.is_file():
            raise Broken(f"{path} was not built")
        return str(path)

    def crate(self, folder, feature=None, flags=None):
        """Builds a cargo project of bench/; returns the folder of its programs. flags: rustc's,
        instead of those of the project."""
        self.progress(f"building {folder}" + (f", {feature}" if feature else ""))
        target = self.cargo / "-".join(filter(None, (folder.replace("/", "-"), feature)))
        environment = dict(os.environ, CARGO_TARGET_DIR=str(target))
        if flags:
            environment["RUSTFLAGS"] = flags
        done = subprocess.run(["cargo", "build", "--release", "--locked", "--quiet",
                               *(["--features", feature] if feature else [])],
                              cwd=ROOT / "bench" / folder, text=True, capture_output=True,
                              env=environment)
        if done.returncode != 0:
            raise Broken(f"bench/{folder} does not build:\n{done.stderr.strip()[-2000:]}")
        return target / "release"

    @contextlib.contextmanager
    def directory(self):
        """A fresh folder that is gone afterwards: traces of 30 rounds would fill a disk."""
        path = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


class Running:
    """A program under way; finish() gives its output, CPU seconds and peak memory.

    The CPU time is of the process and of every child it waited for: under `kymo run` that is the
    program, its kymo process and whatever helped.
    """

    def __init__(self, command, environment=None, limit_s=LIMIT_S):
        self.command = [str(part) for part in command]
        # A group of its own: what is stopped takes its children along.
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True,
                                        env={**os.environ, **(environment or {})})
        self.is_over, self.is_late = False, False
        self.limit_s = limit_s
        self.timer = threading.Timer(limit_s, self.stop_late)
        self.timer.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.timer.cancel()
        if not self.is_over:
            self.stop()
            self.process.wait()
        self.process.stdout.close()

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def stop_late(self):
        self.is_late = True
        self.stop()

    def line(self):
        return self.process.stdout.readline().strip()

    def finish(self):
        self.process.stdin.close()
        output = self.process.stdout.read()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.is_over = True
        self.timer.cancel()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.is_late:
            raise Broken(f"{' '.join(self.command)} did not end within {self.limit_s} s")
        if self.process.returncode != 0:
            raise Broken(f"{' '.join(self.command)} ended with {self.process.returncode}")
        return output, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def said(command):
    """The JSON object that a program prints; None: this machine refuses what it measures."""
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True)
    if done.returncode == SKIPPED:
        return None
    if done.returncode != 0:
        raise Broken(f"{pathlib.Path(command[0]).name}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def run(command, environment=None):
    with Running(command, environment) as running:
        return running.finish()


def notice(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def again_when_lost(attempt, notice=notice):
    """A run that lost records is no result: tried again, at most RETRIES times."""
    for left in range(RETRIES, -1, -1):
        try:
            return attempt()
        except Lost as lost:
            if not left:
                raise Broken(f"{lost}, {RETRIES + 1} times in a row") from lost
            notice(f"{lost}; once more")
    return None


def stored_bytes(directory, suffix):
    return sum(path.stat().st_size for path in pathlib.Path(directory).rglob("*")
               if path.is_file() and suffix in path.name)


def check_trace(kymo, directory, least):
    """What kymo says of its trace. Raises where records are missing, whatever the reason.

    least: event name -> how many there must be: a run that recorded nothing costs nothing.
    """
    done = subprocess.run([str(kymo), "info", "--json", str(directory)], text=True,
                          capture_output=True)
    if done.returncode != 0:
        raise Broken(f"kymo info cannot read the trace: {done.stderr.strip()}")
    info = json.loads(done.stdout)
    if info["lost_records"]:
        raise Lost(f"kymo lost {info['lost_records']} records")
    counts = {entry["name"]: entry["count"] for entry in info["types"]}
    for name, count in least.items():
        if counts.get(name, 0) < count:
            raise Broken(f"the trace holds {counts.get(name, 0)} {name}, there were {count}")
    return info["events"], stored_bytes(directory, ".trc"), counts
